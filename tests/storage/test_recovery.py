"""Opening a log after any kind of stop: what is trusted, what is found out, what is cut and what is said about it."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.base.files import File
from barnabas.storage.log import Log
from barnabas.storage.segments.segment import Segment
from tests.simulation.files import Crash, SimulatedFiles
from tests.storage.logs import NOW_MS, ORDERS, Broker, append, batch, headers_of, offsets_of, present, sized


def killed_with(count: int = 5, size: int = 200, *, flushed: bool = False, **config: object) -> Broker:
    """A broker that was killed; nothing was flushed unless asked."""
    broker = Broker(queued=True)
    log = broker.log(**config)
    for _ in range(count):
        append(log, sized(size))
    if flushed:
        log.flush()
        broker.settle()
        broker.clock.advance(60_000)
        broker.settle()
    broker.disk.kill()
    return broker


def log_file(broker: Broker, base_offset: int = 0, suffix: str = ".log") -> File:
    return broker.files.open(f"/data/{ORDERS}/{base_offset:020d}{suffix}")


def index_rows(segment: Segment) -> list[tuple[int, int]]:
    return [segment.offset_index.row(slot) for slot in range(len(segment.offset_index))]


def test_a_log_that_was_stopped_cleanly_opens_without_reading_its_batches() -> None:
    broker = Broker()
    log = broker.log(internal_segment_bytes=40_000)
    for _ in range(500):
        append(log, sized(200), leader_epoch=3)
    broker.manager.close()
    broker.start()
    broker.disk.preads.clear()
    log = broker.log()
    assert (log.log_end_offset, log.recovery_point, log.latest_epoch) == (500, 500, 3)
    assert sum(broker.disk.preads) < 20_000, "of 100,000"
    assert append(log).base_offset == 500
    assert offsets_of(log) == list(range(501))
    assert broker.report.having("warning") == []


def test_a_torn_batch_is_cut_and_the_report_says_what() -> None:
    broker = killed_with(5)
    log_file(broker).truncate(5 * 200 - 1)
    broker.start()
    log = broker.log()
    assert (log.log_end_offset, log.size_bytes) == (4, 800)
    assert broker.report.having("orders-0: cut 199 bytes after offset 3: torn batch")
    assert append(log).base_offset == 4


@pytest.mark.parametrize(
    ("damage", "expected_end"),
    [
        (lambda file, files: file.truncate(60), 0),  # not even a header
        (lambda file, files: file.truncate(201), 1),
        (lambda file, files: file.writev([bytes(300)]), 5),  # a tail of zeros
        (lambda file, files: file.writev([b"\xff" * 300]), 5),
        (lambda file, files: file.writev([file.pread(200, 0)]), 5),  # an old batch where a new one should be
        (lambda file, files: flip(files, 3 * 200 + 90), 3),  # a flipped bit in the fourth batch
        (lambda file, files: flip(files, 3 * 200 + 10), 3),  # in its length
        (lambda file, files: flip(files, 3 * 200 + 1), 3),  # in its base offset: too large for the segment
    ],
)
def test_everything_behind_the_last_good_batch_is_cut(
    damage: Callable[[File, SimulatedFiles], object], expected_end: int
) -> None:
    broker = killed_with(5)
    damage(log_file(broker), broker.disk)
    broker.start()
    log = broker.log()
    assert (log.log_end_offset, offsets_of(log)) == (expected_end, list(range(expected_end)))
    assert broker.report.having("cut")


def flip(files: SimulatedFiles, position: int) -> None:
    files.flip_bit(f"/data/{ORDERS}/{0:020d}.log", position)


def test_only_what_is_not_below_the_recovery_point_is_checked() -> None:
    broker = killed_with(5, flushed=True)
    flip(broker.disk, 2 * 200 + 90)
    broker.start()
    assert broker.log().log_end_offset == 5, "the CRC of what was flushed is not computed again"
    broker.disk.kill()
    flip(broker.disk, 4 * 200 + 90)
    broker.start()
    assert broker.log().log_end_offset == 4


def test_what_is_appended_where_something_was_lost_is_checked_like_anything_else() -> None:
    broker = killed_with(5, flushed=True)
    log_file(broker).truncate(3 * 200)
    broker.start()
    log = broker.log()
    assert (log.log_end_offset, log.recovery_point) == (3, 3)
    append(log, sized(200))  # nothing says that it is durable, though everything below offset 4 was
    log_file(broker).sync()
    broker.disk.flip_bit(log.segments.active.path, 3 * 200 + 150)
    broker.cut_power()
    assert broker.log().log_end_offset == 3
    assert broker.report.having("orders-0: cut 200 bytes after offset 2: the CRC does not match")


def test_segments_behind_a_corrupt_one_are_removed() -> None:
    broker = killed_with(6, internal_segment_bytes=450)
    log_file(broker, 2).truncate(399)
    broker.start()
    log = broker.log()
    assert (log.log_end_offset, [segment.base_offset for segment in log.segments]) == (3, [0, 2])
    assert broker.report.having("removed segment 4 with 400 bytes")
    assert append(log).base_offset == 3


def test_a_segment_that_ends_before_the_next_begins_is_the_last() -> None:
    broker = killed_with(6, internal_segment_bytes=450)
    log_file(broker, 2).truncate(200)  # at the end of a batch: nothing is torn, but offset 3 is gone
    broker.start()
    assert offsets_of(broker.log()) == [0, 1, 2]
    assert broker.report.having("offsets from 3 to 3 are missing")


def test_indexes_are_rebuilt_as_they_were() -> None:
    broker = Broker(queued=True)
    log = broker.log(index_interval_bytes=300, internal_segment_bytes=5_000)
    for number in range(60):
        append(log, sized(200, timestamp=NOW_MS + number % 7 * 10))
    before = [index_rows(segment) for segment in log.segments]
    broker.kill()
    after = broker.log()
    assert [index_rows(segment) for segment in after.segments] == before
    assert all(before)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "short", "zeros"])
def test_damaged_index_files_do_not_matter(suffix: str, damage: str) -> None:
    broker = Broker()
    log = broker.log(index_interval_bytes=300, internal_segment_bytes=5_000)
    for number in range(60):
        append(log, sized(200, timestamp=NOW_MS + number))
    broker.manager.close()
    path = f"/data/{ORDERS}/{0:020d}{suffix}"
    size = broker.files.file_size(path)
    broker.files.remove(path)
    if damage != "missing":
        broker.files.open(path, create=True).writev([bytes(size - 1 if damage == "short" else size)])
    broker.start()
    log = broker.log()
    assert offsets_of(log) == list(range(60))
    if (suffix, damage) != (".timeindex", "zeros"):  # nothing tells a time index of the right size that lies
        assert present(log.offset_for_timestamp(NOW_MS + 7)).offset == 7


def test_leader_epochs_and_producers_are_found_again() -> None:
    broker = Broker(queued=True)
    log = broker.log(internal_segment_bytes=600)
    for sequence in range(8):
        data = batch(bytes(100), producer_id=5, producer_epoch=1, base_sequence=sequence)
        append(log, data, leader_epoch=sequence // 3)
    broker.kill()
    log = broker.log()
    assert [log.epoch_of_offset(offset) for offset in range(8)] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert append(log, batch(bytes(100), producer_id=5, producer_epoch=1, base_sequence=6)).duplicate
    assert not append(log, batch(producer_id=5, producer_epoch=1, base_sequence=8)).duplicate


def test_producers_are_loaded_from_the_snapshot_when_their_batches_are_deleted() -> None:
    broker = Broker()
    log = broker.log(internal_segment_bytes=600, file_delete_delay_ms=0)
    append(log, batch(bytes(100), producer_id=5, producer_epoch=0, base_sequence=41))
    for _ in range(9):
        append(log, sized(200))
    log.delete_records(8)
    broker.settle()
    broker.restart()
    assert append(broker.log(), batch(producer_id=5, producer_epoch=0, base_sequence=42)).base_offset == 10


def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_the_batches_behind_it() -> None:
    broker = Broker()
    log = broker.log(internal_segment_bytes=600)
    for sequence in range(12):
        append(log, batch(bytes(100), producer_id=5, producer_epoch=0, base_sequence=sequence))
    broker.manager.close()
    for name in sorted(broker.files.listdir(log.path))[-8:]:
        if name.endswith(".snapshot"):
            broker.disk.flip_bit(f"{log.path}/{name}", 30)
    broker.start()
    log = broker.log()
    assert broker.report.having("producer snapshot 12 cannot be read")
    assert append(log, batch(bytes(100), producer_id=5, producer_epoch=0, base_sequence=11)).duplicate


def test_a_snapshot_of_a_future_that_was_lost_is_removed() -> None:
    broker = Broker()
    log = broker.log()
    append(log, batch(producer_id=5, producer_epoch=0, base_sequence=0))
    broker.manager.close()
    broker.files.remove("/data/.kafka_cleanshutdown")
    log_file(broker).truncate(0)
    broker.start()
    assert broker.files.listdir(log.path).count(f"{1:020d}.snapshot") == 0
    assert not append(broker.log(), batch(producer_id=5, producer_epoch=0, base_sequence=0)).duplicate


def test_a_log_that_lost_all_behind_its_start_begins_anew_there() -> None:
    broker = Broker()
    log = broker.log()
    for _ in range(5):
        append(log)
    log.delete_records(4)
    broker.manager.close()
    broker.files.remove("/data/.kafka_cleanshutdown")
    log_file(broker).truncate(0)
    broker.start()
    log = broker.log()
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert append(log).base_offset == 4, "an offset is never given out twice"


def test_a_clean_mark_on_files_that_are_not_clean_is_not_believed() -> None:
    broker = Broker()
    append(broker.log())
    broker.manager.close()
    log_file(broker).writev([b"rubbish"])
    broker.start()
    log = broker.log()
    assert offsets_of(log) == [0]
    assert broker.report.having("though the broker stopped cleanly")
    assert broker.report.having("cut 7 bytes")


def test_a_unreadable_checkpoint_only_costs_time() -> None:
    broker = killed_with(5, flushed=True)
    broker.files.remove("/data/recovery-point-offset-checkpoint")
    broker.files.open("/data/recovery-point-offset-checkpoint", create=True).writev([b"0\n7\n"])
    broker.start()
    log = broker.log()
    assert (log.log_end_offset, log.recovery_point) == (5, 0)
    assert broker.report.having("recovery-point-offset-checkpoint cannot be read")


def test_a_log_can_be_killed_again_and_again() -> None:
    broker = Broker(queued=True)
    for number in range(30):
        log: Log = broker.log(internal_segment_bytes=500)
        assert log.log_end_offset == number
        append(log, sized(200))
        broker.kill()
    assert len(headers_of(broker.log())) == 30


@pytest.mark.parametrize("changes", range(14))
def test_what_recovery_removed_does_not_come_back_however_often_it_is_interrupted(changes: int) -> None:
    for seed in range(25):
        broker = Broker(SimulatedFiles(Random(seed)), queued=True)
        log = broker.log(internal_segment_bytes=450)
        for _ in range(6):
            append(log, sized(200))
        log.flush()
        broker.settle()
        broker.disk.kill()
        log_file(broker, 2).truncate(399)  # what follows offset 2 is removed
        broker.disk.crash_after(changes)
        try:
            broker.start()
        except Crash:
            pass
        broker.kill()
        log = broker.log()
        assert log.log_end_offset == 3
        for _ in range(4):
            append(log, sized(210))
        log.flush()
        broker.settle()
        broker.cut_power()
        assert [header.size_bytes for header in headers_of(broker.log())] == [200] * 3 + [210] * 4, f"seed={seed}"


# ---- what others left behind


def segment_bytes(first: int, last: int) -> bytes:
    data = bytearray()
    for offset in range(first, last + 1):
        one = batch(b"compacted")
        one[0:8] = offset.to_bytes(8, "big")
        data += one
    return bytes(data)


def test_what_was_being_deleted_is_gone_and_orphans_too() -> None:
    broker = killed_with(1)
    for name in (f"{0:020d}.log.deleted", f"{9:020d}.index", "leader-epoch-checkpoint.tmp", f"{0:020d}.log.cleaned"):
        broker.files.open(f"/data/{ORDERS}/{name}", create=True).writev([b"x"])
    broker.start()
    broker.log()
    names = set(broker.files.listdir(f"/data/{ORDERS}"))
    assert not any(name.endswith((".deleted", ".tmp", ".cleaned")) for name in names)
    assert f"{9:020d}.index" not in names


def test_a_finished_swap_takes_the_place_of_the_segments_it_covers() -> None:
    broker = killed_with(6, internal_segment_bytes=450)
    swap = broker.files.open(f"/data/{ORDERS}/{0:020d}.log.swap", create=True)
    swap.writev([segment_bytes(1, 3)])
    broker.start()
    log = broker.log()
    assert [header.base_offset for header in headers_of(log)] == [1, 2, 3, 4, 5]


def test_a_swap_of_a_split_that_was_not_finished_goes() -> None:
    broker = killed_with(2)
    broker.files.open(f"/data/{ORDERS}/{0:020d}.log.swap", create=True).writev([segment_bytes(0, 0)])
    broker.files.open(f"/data/{ORDERS}/{0:020d}.log.cleaned", create=True)
    broker.start()
    assert offsets_of(broker.log()) == [0, 1]
