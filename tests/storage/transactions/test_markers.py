"""Markers are encoded once for all partitions, and applied without being read again: nobody must see a difference."""

import pytest

from barnabas.protocol.batch_header import crc_of, header_at
from barnabas.protocol.records import control_type_of, coordinator_epoch_of, iter_records
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log import Log
from barnabas.storage.producer_snapshot import snapshot_of
from barnabas.storage.transactions.marker import TransactionMarker
from tests.storage.logs import NOW_MS, ORDERS, Broker, append, batch, end_transaction, present

PRODUCER = 7
BILLS = TopicPartition("bills", 0)


def marker(*, is_committed: bool = True, epoch: int = 0) -> TransactionMarker:
    return TransactionMarker(PRODUCER, epoch, 3, is_committed, transaction_version=1)


def stored(log: Log, offset: int = 0) -> bytes:
    return present(log.read(offset, 1 << 20, max_offset=log.log_end_offset)).read()


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("epoch", [0, 1])
def test_who_appends_a_marker_knows_what_who_copies_it_finds_out(is_committed: bool, epoch: int) -> None:
    leader, follower = Broker().log(), Broker().log()
    append(leader, batch(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, transactional=True))
    end_transaction(leader, marker(is_committed=is_committed, epoch=epoch))
    follower.append_as_follower(memoryview(bytearray(stored(leader))), NOW_MS)
    assert snapshot_of(leader.producers) == snapshot_of(follower.producers)
    aborted = leader.aborted.between(0, 2)
    assert aborted == follower.aborted.between(0, 2)
    assert len(aborted) == (not is_committed)
    for log in (leader, follower):
        assert log.advance_high_watermark(2)
        assert log.last_stable_offset == 2


def test_a_marker_has_its_own_offset_and_epoch_in_each_log() -> None:
    broker = Broker()
    orders, bills = broker.log(ORDERS), broker.log(BILLS)
    append(orders)
    for log, leader_epoch in ((orders, 4), (bills, 5)):
        end_transaction(log, marker(), leader_epoch=leader_epoch)
    for log, offset, leader_epoch in ((orders, 1, 4), (bills, 0, 5)):
        header = header_at(stored(log, offset))
        assert (header.base_offset, header.partition_leader_epoch) == (offset, leader_epoch)


def test_a_marker_says_when_it_was_written_and_by_whom() -> None:
    log = Broker().log()
    for offset, now_ms in enumerate((NOW_MS, NOW_MS + 1)):
        end_transaction(log, marker(is_committed=False), now_ms=now_ms)
        data = stored(log, offset)
        header, record = header_at(data), next(iter_records(data, max_decompressed_bytes=0))
        assert header.crc == crc_of(memoryview(data))
        assert (header.base_timestamp, header.max_timestamp, record.timestamp) == (now_ms, now_ms, now_ms)
        assert (header.producer_id, control_type_of(record), coordinator_epoch_of(record)) == (PRODUCER, 0, 3)


def test_a_marker_gets_the_time_of_its_append_where_all_batches_do() -> None:
    stamped, plain = Broker().log(message_timestamp_type="LogAppendTime"), Broker().log()
    assert end_transaction(stamped, marker()).log_append_time == NOW_MS
    assert header_at(stored(stamped)).is_log_append_time
    assert end_transaction(plain, marker()).log_append_time == -1
    assert not header_at(stored(plain)).is_log_append_time, "what one log makes of a marker is not the other's"
