"""Aborted transactions that came with a log's files: readers are told of them as long as there is anything to tell."""

from barnabas.base.files import write_file
from barnabas.protocol.batch_builder import build_end_transaction_marker
from barnabas.protocol.records import ControlType
from barnabas.storage.segments.transaction_index import AbortedTransaction, encode_aborted
from tests.storage.compaction.compacted import CompactedLog
from tests.storage.logs import NOW_MS, Broker

INDEX = "/data/orders-0/00000000000000000000.txnindex"
ABORTED = AbortedTransaction(first_offset=0, producer_id=7, last_offset=1, last_stable_offset=0)


def log_with_an_aborted_transaction(broker: Broker) -> CompactedLog:
    """In its first segment, which ends at offset 3."""
    written = CompactedLog(broker)
    written.append((b"a", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    ended = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0}
    marker = build_end_transaction_marker(ControlType.ABORT, timestamp=NOW_MS, **ended)
    written.log.append_as_coordinator(memoryview(marker), leader_epoch=0, now_ms=NOW_MS)
    written.append((b"b", b"1"))
    written.roll()
    written.append((b"b", b"2"))
    broker.manager.close()
    write_file(broker.files, INDEX, encode_aborted([ABORTED]), sync=True)
    broker.start()
    return CompactedLog(broker)


def test_they_are_told_whatever_compaction_does_to_the_files_meanwhile() -> None:
    found = log_with_an_aborted_transaction(Broker(queued=True, log_cleaner_backoff_ms=0))
    broker, jobs = found.broker, 0
    broker.clock.advance(60_000)
    for _ in range(50):
        broker.clock.turn()
        broker.clock.advance(0)
        while broker.queue.jobs:
            broker.queue.do()
            jobs += 1
            assert found.log.aborted.between(0, 3) == [ABORTED]
    assert jobs > 3, "names were changed"
    assert [value for _, key, value in found.records() if key == b"a"] == [], "it was compacted"
    assert not found.log.is_offline
    broker.restart()
    assert CompactedLog(broker).log.aborted.between(0, 3) == [ABORTED], "its marker is still there"


def test_they_go_with_the_segment_that_they_ended_in() -> None:
    found = log_with_an_aborted_transaction(Broker())
    found.log.delete_records(3)
    found.broker.settle()
    found.broker.clock.advance(found.log.config.file_delete_delay_ms)
    found.broker.settle()
    assert found.log.aborted.between(0, 4) == []
    assert [name for name in found.broker.files.listdir("/data/orders-0") if "txnindex" in name] == []
