"""A follower's log: what it takes from its leader, and how it is cut back."""

from collections.abc import Sequence
from typing import Unpack

import pytest

from barnabas.base.files import Buffer, File, write_file
from barnabas.protocol.batch_builder import build_batch, build_end_transaction_marker
from barnabas.protocol.errors import CorruptMessage, OffsetOutOfRange, OutOfOrderSequence
from barnabas.protocol.records import ControlType, NewRecord
from barnabas.storage.log import Log
from barnabas.storage.log_config import LogConfig
from barnabas.storage.segments.transaction_index import AbortedTransaction, encode_aborted
from tests.storage.logs import NOW_MS, ORDERS, BatchFields, Broker, append, batch, offsets_of, sized


def leaders_batch(offset: int, epoch: int = 0, count: int = 1, **fields: Unpack[BatchFields]) -> bytearray:
    """A batch as the leader's log holds it."""
    records = [NewRecord(b"k", b"v", (), NOW_MS)] * count
    return build_batch(records, base_offset=offset, partition_leader_epoch=epoch, **fields)


def follow(log: Log, *batches: bytearray) -> None:
    log.append_as_follower(memoryview(b"".join(batches)), NOW_MS)


def filled(count: int, **config: object) -> tuple[Broker, Log]:
    broker = Broker()
    log = broker.log(**config)
    for offset in range(count):
        follow(log, leaders_batch(offset, epoch=offset // 10))
    return broker, log


# ---- append


def test_batches_keep_the_offsets_and_epochs_that_the_leader_gave_them() -> None:
    log = Broker().log()
    data = b"".join([leaders_batch(0, 3, count=2), leaders_batch(2, 3), leaders_batch(3, 5)])
    log.append_as_follower(memoryview(data), NOW_MS)
    found = log.read(0, 1 << 20, max_offset=4)
    assert found is not None
    assert found.read() == data
    assert log.leader_epochs.entries() == [(3, 0), (5, 3)]


def test_what_comes_in_one_call_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    log = broker.log()
    follow(log, leaders_batch(0))
    writes: list[int] = []
    file = log.segments.active.file()
    write = type(file).writev

    def counted(self: File, buffers: Sequence[Buffer]) -> int:
        writes.append(len(buffers))
        return write(self, buffers)

    monkeypatch.setattr(type(file), "writev", counted)
    follow(log, *[leaders_batch(offset) for offset in range(1, 50)])
    assert writes == [1]


def test_batches_that_fill_a_segment_go_on_in_the_next() -> None:
    log = Broker().log(internal_segment_bytes=300)
    follow(log, *[leaders_batch(offset) for offset in range(10)])
    assert offsets_of(log) == list(range(10))
    assert len(log.segments) > 2
    assert all(segment.size <= 300 for segment in log.segments)


def test_a_batch_larger_than_a_segment_or_a_message_is_taken() -> None:
    log = Broker().log(internal_segment_bytes=300, max_message_bytes=100)
    large = build_batch([NewRecord(b"k", bytes(1_000), (), NOW_MS)], base_offset=0, partition_leader_epoch=0)
    follow(log, large, leaders_batch(1))
    assert offsets_of(log) == [0, 1]


def test_gaps_are_taken_and_survive_a_restart() -> None:
    """The leader's log was compacted."""
    broker = Broker()
    log = broker.log(internal_segment_bytes=300)
    follow(log, *[leaders_batch(offset) for offset in (0, 5, 9, 10, 40, 41)])
    assert (offsets_of(log), log.log_end_offset) == ([0, 5, 9, 10, 40, 41], 42)
    broker.kill()
    assert offsets_of(broker.log()) == [0, 5, 9, 10, 40, 41]


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        ([leaders_batch(0)], "offset 0 where 1"),  # it is here already
        ([leaders_batch(1), leaders_batch(1)], "offset 1 where 2"),
        ([leaders_batch(5), leaders_batch(2)], "offset 2 where 6"),
        ([leaders_batch(1)[:-1]], "bytes in"),
        ([leaders_batch(1), bytearray(10)], "too few"),
        ([leaders_batch(1)[:-1] + b"!"], "CRC"),
    ],
)
def test_what_cannot_follow_is_refused_as_a_whole(batches: list[bytearray], why: str) -> None:
    log = Broker().log()
    follow(log, leaders_batch(0))
    with pytest.raises(CorruptMessage, match=why):
        follow(log, *batches)
    assert offsets_of(log) == [0]


def test_the_leader_has_checked_sequences_and_they_are_remembered_here() -> None:
    broker = Broker()
    log = broker.log()
    follow(log, leaders_batch(0, producer_id=7, producer_epoch=0, base_sequence=90))
    follow(log, leaders_batch(1, producer_id=7, producer_epoch=0, base_sequence=3))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(producer_id=7, producer_epoch=0, base_sequence=9))
    assert append(log, batch(producer_id=7, producer_epoch=0, base_sequence=4)).base_offset == 2


def test_a_follower_flushes_by_the_policy_of_the_topic() -> None:
    broker = Broker()
    log = broker.log(flush_messages=1)
    follow(log, leaders_batch(0))
    broker.settle()
    assert log.recovery_point == 1


# ---- truncation


@pytest.mark.parametrize("offset", range(1, 20))
@pytest.mark.parametrize("segment_bytes", [300, 10_000])
@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_log_that_was_cut_ends_there_and_goes_on(offset: int, segment_bytes: int, is_flushed: bool) -> None:
    broker, log = filled(20, internal_segment_bytes=segment_bytes)
    if is_flushed:
        broker.settle()
    log.truncate_to(offset)
    assert (log.log_end_offset, log.high_watermark) == (offset, min(offset, log.high_watermark))
    assert offsets_of(log) == list(range(offset))
    assert log.recovery_point == offset
    follow(log, leaders_batch(offset, epoch=9), leaders_batch(offset + 1, epoch=9))
    assert offsets_of(log) == list(range(offset + 2))
    for start in (broker.kill, broker.cut_power, broker.restart):
        start()
        log = broker.log()
        assert offsets_of(log)[:offset] == list(range(offset))


def test_the_new_bytes_are_in_another_file_than_the_old() -> None:
    """A slice of the old ones may wait in a socket: it ends short, and never sends what came later."""
    _, log = filled(6)
    old = log.read(3, 1 << 20, max_offset=6)
    assert old is not None
    kept = log.read(0, 1 << 20, max_offset=3)
    assert kept is not None
    before = kept.read()
    log.truncate_to(3)
    follow(log, *[leaders_batch(offset, epoch=4) for offset in range(3, 9)])
    assert old.read() == b""
    assert kept.read() == before


def test_a_segment_that_goes_as_a_whole_makes_room_for_another_of_its_name() -> None:
    _, log = filled(20, internal_segment_bytes=300)
    base_offset = log.segments[2].base_offset
    old = log.read(base_offset, 1 << 20, max_offset=20)
    assert old is not None
    before = old.read()
    log.truncate_to(base_offset)
    follow(log, leaders_batch(base_offset, epoch=4))
    assert log.segments.active.base_offset == base_offset
    assert old.read() == before, "its file has no name any more, and is as it was"


def test_a_batch_is_not_cut_in_two() -> None:
    log = Broker().log()
    follow(log, leaders_batch(0, count=3), leaders_batch(3, count=4), leaders_batch(7))
    log.truncate_to(5)
    assert (offsets_of(log), log.log_end_offset) == ([0], 3)


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (25, [(0, 0), (1, 10), (2, 20)]),
        (20, [(0, 0), (1, 10)]),  # of the last epoch nothing is left
        (11, [(0, 0), (1, 10)]),
        (1, [(0, 0)]),
        (99, [(0, 0), (1, 10), (2, 20)]),
    ],
)
def test_leader_epochs_are_cut_with_the_log(offset: int, entries: list[tuple[int, int]]) -> None:
    broker, log = filled(30)
    log.truncate_to(offset)
    assert log.leader_epochs.entries() == entries
    broker.kill()
    assert broker.log().leader_epochs.entries() == entries


def test_an_older_epoch_that_comes_after_a_newer_one_was_cut_off_is_known_after_a_crash() -> None:
    broker = Broker()
    log = broker.log()
    follow(log, leaders_batch(0, epoch=1), leaders_batch(1, epoch=3), leaders_batch(2, epoch=3))
    log.truncate_to(1)
    follow(log, leaders_batch(1, epoch=2), leaders_batch(2, epoch=2))
    broker.kill()
    assert broker.log().leader_epochs.entries() == [(1, 0), (2, 1)]


def test_leader_epochs_that_were_to_be_written_do_not_replace_later_ones() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    follow(log, leaders_batch(0, epoch=1))
    log.roll(NOW_MS)
    broker.clock.turn()  # the sealing of the first segment waits for a worker, with the epochs that were known
    follow(log, leaders_batch(1, epoch=2))
    log.truncate_to(2)  # nothing is cut
    broker.settle()
    assert broker.files.read_bytes(f"{log.path}/leader-epoch-checkpoint").endswith(b"1 0\n2 1\n")


def test_producers_are_what_they_were_at_the_cut() -> None:
    broker = Broker()
    log = broker.log(internal_segment_bytes=400)
    for sequence in range(12):
        follow(log, leaders_batch(sequence, producer_id=7, producer_epoch=0, base_sequence=sequence))
    log.truncate_to(7)
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(producer_id=7, producer_epoch=0, base_sequence=12))
    assert append(log, batch(producer_id=7, producer_epoch=0, base_sequence=7)).base_offset == 7
    broker.kill()
    assert append(broker.log(), batch(producer_id=7, producer_epoch=0, base_sequence=7)).duplicate


def transaction(log: Log, end: ControlType, producer_id: int = 7) -> None:
    first = log.log_end_offset
    data = build_batch(
        [NewRecord(b"k", b"v", (), NOW_MS)],
        base_offset=first,
        partition_leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    marker = build_end_transaction_marker(
        end,
        base_offset=first + 1,
        partition_leader_epoch=0,
        coordinator_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        timestamp=NOW_MS,
    )
    follow(log, data, marker)


def test_a_transaction_whose_marker_was_cut_off_is_open_again() -> None:
    broker = Broker()
    log = broker.log()
    transaction(log, ControlType.ABORT, producer_id=6)
    transaction(log, ControlType.ABORT)
    log.advance_high_watermark(4)
    assert (log.last_stable_offset, len(log.aborted.between(0, 9))) == (4, 2)
    log.truncate_to(3)
    assert log.last_stable_offset == 2
    assert [row.producer_id for row in log.aborted.between(0, 9)] == [6]
    broker.kill()
    log = broker.log()
    assert log.last_stable_offset == 2
    assert [row.producer_id for row in log.aborted.between(0, 9)] == [6]


def test_truncating_to_the_end_changes_nothing() -> None:
    _, log = filled(5)
    segments = len(log.segments)
    log.truncate_to(5)
    log.truncate_to(9)
    assert (log.log_end_offset, len(log.segments)) == (5, segments)


@pytest.mark.parametrize("offset", [0, 3, 20, 1_000])
def test_a_log_can_be_emptied_and_begin_elsewhere(offset: int) -> None:
    broker, log = filled(20, internal_segment_bytes=300)
    log.advance_high_watermark(20)
    log.delete_records(5)
    log.truncate_fully_and_start_at(offset)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (offset, offset, offset)
    assert log.leader_epochs.entries() == []
    follow(log, leaders_batch(offset, epoch=4))
    with pytest.raises(OffsetOutOfRange):
        log.read(offset - 1, 100, max_offset=offset)
    for start in (broker.kill, broker.restart):
        start()
        log = broker.log()
        assert (log.log_start_offset, offsets_of(log)) == (offset, [offset])


def test_cutting_below_the_start_empties_the_log() -> None:
    _, log = filled(20, internal_segment_bytes=300)
    log.advance_high_watermark(20)
    log.delete_records(9)
    log.truncate_to(4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)


def test_a_tail_that_a_power_cut_brought_back_gives_way_to_the_segment_that_came_after() -> None:
    broker, log = filled(6)
    log.truncate_to(3)
    follow(log, leaders_batch(3, epoch=4), leaders_batch(4, epoch=4))
    path = log.segments[0].path
    broker.disk.kill()
    tail = b"".join([leaders_batch(3), leaders_batch(4), leaders_batch(5)])
    broker.files.open(path).writev([tail])
    broker.files.remove("/data/recovery-point-offset-checkpoint")
    broker.start()
    log = broker.log()
    assert offsets_of(log) == [0, 1, 2, 3, 4]
    assert [log.epoch_of_offset(offset) for offset in (2, 3, 4)] == [0, 4, 4]
    assert broker.report.having("was begun in the place of what followed")


def test_a_compaction_under_way_is_given_up() -> None:
    broker = Broker(queued=True, log_cleaner_backoff_ms=0)
    config = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0, "internal_segment_bytes": 300}
    log = broker.log(**config)
    for _ in range(12):
        append(log, sized(100))
    for steps in range(12):
        broker.clock.turn()
        broker.clock.advance(0)
        if broker.queue.jobs:
            broker.queue.do()
        if steps == 7:
            log.truncate_to(10)
    broker.settle()
    assert log.log_end_offset == 10
    assert offsets_of(log)[-1] == 9
    names = broker.files.listdir(log.path)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


# ---- transactions that end while the broker runs


def test_a_transaction_is_stable_when_its_marker_is_committed() -> None:
    log = Broker().log()
    transaction(log, ControlType.COMMIT)
    follow(log, leaders_batch(2))
    assert log.last_stable_offset == 0
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0, "the marker can still be lost"
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    assert log.aborted.between(0, 3) == []


def test_an_abort_is_in_the_index_at_once_and_after_any_stop() -> None:
    broker = Broker()
    log = broker.log()
    transaction(log, ControlType.ABORT)
    aborted = [AbortedTransaction(first_offset=0, producer_id=7, last_offset=1, last_stable_offset=2)]
    assert log.aborted.between(0, 9) == aborted
    for stop in (broker.kill, broker.restart, broker.kill):
        stop()
        assert broker.log().aborted.between(0, 9) == aborted
        assert isinstance(broker.config, LogConfig)


def test_what_a_power_cut_left_of_an_index_is_replaced_though_it_holds_no_row() -> None:
    broker = Broker()
    broker.log()
    index = f"/data/{ORDERS}/{0:020d}.txnindex"
    write_file(broker.files, index, bytes(20), sync=True)
    broker.kill()
    log = broker.log()
    transaction(log, ControlType.ABORT)
    log.roll(NOW_MS)
    broker.settle()
    assert broker.files.read_bytes(index) == encode_aborted(log.aborted.between(0, 9))
