"""When a log is compacted, and what else may happen meanwhile."""

import errno
import sys

import pytest

from barnabas.protocol.batch_header import HEADER_BYTES
from barnabas.protocol.types import TopicPartition
from barnabas.storage.compaction.cleaner import OnCleaned, OnDone
from barnabas.storage.compaction.job import CompactionFailed, CompactionJob
from barnabas.storage.log_config import LogConfig
from tests.storage.compaction.compacted import HOUR_MS, CompactedLog
from tests.storage.logs import Broker, present

A, B = b"a", b"b"


def dirty(compacted: CompactedLog, count: int = 10, key: bytes = A) -> None:
    for number in range(count):
        compacted.append((key, b"%d" % number))
    compacted.roll()


def runs(compacted: CompactedLog) -> int:
    return compacted.broker.manager.cleaner.runs


# ---- when


def test_a_log_is_compacted_by_itself_once_a_segment_is_closed() -> None:
    compacted = CompactedLog()
    dirty(compacted)
    compacted.clean()
    assert len(compacted.records()) == 1
    assert compacted.broker.report.having(
        "orders-0: compacted up to offset 10 in 0.0 s: 10 records became 1, 700 bytes 70, 1 segments 1"
    )


def test_a_reader_passes_over_any_number_of_segments_of_which_nothing_is_left() -> None:
    broker = Broker(log_cleaner_backoff_ms=0, queued=True)
    compacted = CompactedLog(broker, internal_segment_bytes=75, min_cleanable_dirty_ratio=0.9)
    dirty(compacted, sys.getrecursionlimit() + 100)
    compacted.clean()
    empty = [segment for segment in compacted.log.segments if not segment.size]
    assert len(empty) > sys.getrecursionlimit()
    assert len(compacted.records()) == 1


def test_nothing_is_compacted_that_is_clean_already() -> None:
    compacted = CompactedLog()
    dirty(compacted)
    compacted.clean()
    compacted.clean()
    compacted.broker.clock.advance(HOUR_MS)
    assert runs(compacted) == 1


@pytest.mark.parametrize(
    ("policy", "enable"), [(("delete",), True), ((), True), (("compact",), False), (("compact", "delete"), False)]
)
def test_nothing_is_compacted_unless_the_topic_and_the_broker_say_so(policy: tuple[str, ...], enable: bool) -> None:
    compacted = CompactedLog(Broker(log_cleaner_backoff_ms=0, log_cleaner_enable=enable), cleanup_policy=policy)
    dirty(compacted)
    compacted.clean()
    assert runs(compacted) == 0


def test_a_topic_that_becomes_compacted_is_compacted() -> None:
    compacted = CompactedLog(cleanup_policy=("delete",))
    dirty(compacted)
    compacted.log.configure(LogConfig(cleanup_policy=("compact",)))
    compacted.clean()
    assert runs(compacted) == 1


def test_the_ratio_of_dirty_bytes_decides() -> None:
    compacted = CompactedLog(min_cleanable_dirty_ratio=0.5)
    for number in range(10):
        compacted.append((b"%d" % number, b"x"))
    compacted.roll()
    compacted.clean()
    assert runs(compacted) == 1, "everything was dirty"
    dirty(compacted, 10)
    compacted.clean()
    assert runs(compacted) == 1, "half of it is not more than half"
    dirty(compacted, 1)
    compacted.clean()
    assert runs(compacted) == 2


def test_records_are_safe_for_the_shortest_lag() -> None:
    compacted = CompactedLog(min_compaction_lag_ms=HOUR_MS)
    dirty(compacted)
    compacted.clean()
    compacted.broker.clock.advance(HOUR_MS - 1)
    assert runs(compacted) == 0
    compacted.broker.clock.advance(1)
    compacted.clean()
    assert runs(compacted) == 1


def test_after_the_longest_lag_the_ratio_does_not_matter() -> None:
    compacted = CompactedLog(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    dirty(compacted)
    compacted.clean()
    compacted.broker.clock.advance(HOUR_MS)
    compacted.clean()
    assert runs(compacted) == 0
    compacted.broker.clock.advance(1)
    compacted.clean()
    assert runs(compacted) == 1


@pytest.mark.parametrize("queued", [False, True])
def test_the_cleaner_rests_when_nothing_is_left(queued: bool) -> None:
    compacted = CompactedLog(Broker(log_cleaner_backoff_ms=15_000, queued=queued))
    dirty(compacted)
    compacted.clean()
    assert runs(compacted) == 1
    dirty(compacted)
    compacted.broker.clock.advance(14_000)
    compacted.clean()
    assert runs(compacted) == 1
    compacted.broker.clock.advance(2_000)
    compacted.clean()
    assert runs(compacted) == 2


def test_the_dirtiest_goes_first() -> None:
    broker = Broker(log_cleaner_backoff_ms=1_000)
    logs = [CompactedLog(broker, TopicPartition("t", number)) for number in range(3)]
    for compacted, key in zip(logs, (b"0", b"1", b"2")):
        dirty(compacted, 20, key)
        dirty(compacted, 20, key + b"'")
    broker.clock.advance(5_000)
    dirty(logs[0], 1)
    dirty(logs[1], 200)
    dirty(logs[2], 5)
    broker.report.lines.clear()
    broker.clock.advance(5_000)
    assert [line.split()[1] for line in broker.report.having("compacted up to")] == ["t-1:", "t-2:", "t-0:"]


def test_logs_that_nobody_writes_to_cost_nothing() -> None:
    broker = Broker(log_cleaner_backoff_ms=1_000)
    for number in range(200):
        CompactedLog(broker, TopicPartition("t", number))
    broker.clock.advance(1_000)
    broker.disk.preads.clear()
    timers = broker.clock.pending_timers
    broker.clock.advance(HOUR_MS)
    assert broker.clock.pending_timers <= timers
    assert broker.disk.preads == []


# ---- where it has been


def test_a_restart_knows_what_is_clean() -> None:
    compacted = CompactedLog()
    dirty(compacted)
    compacted.clean()
    assert compacted.broker.files.read_bytes("/data/cleaner-offset-checkpoint") == b"0\n1\norders 0 10\n"
    compacted.broker.restart()
    again = CompactedLog(compacted.broker)
    assert again.log.compaction.first_dirty_offset == 10
    again.broker.clock.advance(HOUR_MS)
    assert runs(again) == 0


@pytest.mark.parametrize("offset", [3, 900])
def test_a_checkpoint_that_cannot_be_right_counts_for_nothing(offset: int) -> None:
    compacted = CompactedLog()
    dirty(compacted)
    compacted.log.delete_records(5)
    compacted.log.log_dir.cleaner_offsets[compacted.partition] = offset
    assert compacted.log.compaction.first_dirty_offset == 5


def test_a_new_topic_of_an_old_name_is_not_clean_where_the_old_one_was() -> None:
    compacted = CompactedLog()
    dirty(compacted)
    compacted.clean()
    compacted.broker.manager.delete(compacted.partition)
    again = CompactedLog(compacted.broker)
    dirty(again, 5)
    assert again.log.compaction.first_dirty_offset == 0


def test_without_delete_nothing_is_deleted_for_its_age_and_with_it_whole_segments_are() -> None:
    for policy, start in ((("compact",), 0), (("compact", "delete"), 10)):
        broker = Broker(log_cleaner_backoff_ms=0, log_retention_check_interval_ms=1_000)
        compacted = CompactedLog(broker, cleanup_policy=policy, retention_ms=HOUR_MS)
        dirty(compacted)
        compacted.clean()
        compacted.broker.clock.advance(2 * HOUR_MS)
        assert compacted.log.log_start_offset == start, policy


# ---- meanwhile


class Interrupted:
    """A run that stands still after so many steps of its workers."""

    def __init__(self, steps: int) -> None:
        self.compacted = CompactedLog(Broker(queued=True, log_cleaner_backoff_ms=1_000))
        self.broker, self.log = self.compacted.broker, self.compacted.log
        for number in range(3):
            dirty(self.compacted, 10, b"%d" % number)
        self.broker.clock.advance(0)
        assert self.broker.manager.cleaner.is_running
        for _ in range(steps):
            self.broker.queue.do()

    def finish(self) -> None:
        for _ in range(5):
            self.broker.settle()
            self.broker.clock.advance(2_000)
            self.broker.settle()


STEPS = range(7)
"""The map and the first segment, its three steps into its place, the end, the checkpoint."""


@pytest.mark.parametrize("steps", STEPS)
def test_appends_reads_and_rolls_go_on(steps: int) -> None:
    run = Interrupted(steps)
    run.compacted.append((b"new", b"1"))
    assert run.compacted.records()[-1] == (30, b"new", b"1")
    dirty(run.compacted)
    assert [key for _, key, _ in run.compacted.records()][-1] == A
    run.finish()
    assert {key for _, key, _ in run.compacted.records()} == {b"0", b"1", b"2", b"new", A}
    assert len(run.compacted.records()) == 5


@pytest.mark.parametrize("steps", STEPS)
def test_records_may_be_deleted_meanwhile(steps: int) -> None:
    run = Interrupted(steps)
    run.log.delete_records(15)
    assert run.compacted.records()[0][0] >= 15
    run.finish()
    assert run.compacted.records() == [(19, b"1", b"9"), (29, b"2", b"9")]
    assert run.log.log_start_offset == 15
    assert not run.log.is_offline
    run.broker.kill()
    assert CompactedLog(run.broker).records()[-2:] == [(19, b"1", b"9"), (29, b"2", b"9")]


@pytest.mark.parametrize("steps", STEPS)
def test_the_topic_may_be_deleted_meanwhile(steps: int) -> None:
    run = Interrupted(steps)
    run.broker.manager.delete(run.compacted.partition)
    run.finish()
    assert not run.broker.manager.cleaner.is_running
    assert not run.broker.report.having("error"), run.broker.report.lines
    again = CompactedLog(run.broker, TopicPartition("next", 0))
    dirty(again)
    run.finish()
    assert len(again.records()) == 1, "the cleaner goes on"


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("stop", ["restart", "kill", "cut_power"])
def test_the_broker_may_stop_meanwhile(steps: int, stop: str) -> None:
    run = Interrupted(steps)
    getattr(run.broker, stop)()
    again = CompactedLog(run.broker)
    assert [record for record in again.records() if record[0] in (9, 19, 29)] == [
        (9, b"0", b"9"),
        (19, b"1", b"9"),
        (29, b"2", b"9"),
    ]
    assert again.log.log_end_offset == 30
    run.broker.settle()
    for _ in range(3):
        run.broker.clock.advance(60_000)
        run.broker.settle()
    assert len(again.records()) == 3


@pytest.mark.parametrize("steps", STEPS)
def test_the_policy_may_change_meanwhile(steps: int) -> None:
    run = Interrupted(steps)
    run.log.configure(LogConfig(cleanup_policy=("delete",)))
    run.finish()
    assert not run.broker.manager.cleaner.is_running
    assert [record for record in run.compacted.records() if record[0] == 29] == [(29, b"2", b"9")]


def test_who_reads_an_old_segment_reads_on() -> None:
    run = Interrupted(0)
    slice_of_old = present(run.log.read(0, 1 << 20, max_offset=30))
    before = slice_of_old.read()
    run.finish()
    run.broker.clock.advance(HOUR_MS)
    run.broker.settle()
    assert slice_of_old.read() == before
    assert not [name for name in run.broker.files.listdir(run.log.path) if name.endswith(".deleted")]


# ---- failures


def test_a_log_that_cannot_be_read_is_named_once_and_the_others_go_on() -> None:
    broker = Broker(log_cleaner_backoff_ms=1_000)
    bad, good = (CompactedLog(broker, TopicPartition(name, 0)) for name in ("bad", "good"))
    dirty(bad)
    broker.disk.flip_bit(f"{bad.log.path}/{0:020d}.log", HEADER_BYTES + 3)
    dirty(good)
    broker.clock.advance(10_000)
    assert len(good.records()) == 1
    dirty(bad)
    broker.clock.advance(100_000)
    (said,) = broker.report.having("error")
    assert "bad-0: cannot be compacted and keeps growing: the batch at offset 0, byte 0 of" in said
    assert list(broker.manager.cleaner.uncleanable) == [bad.partition]
    assert not bad.log.is_offline
    assert not [name for name in broker.files.listdir(bad.log.path) if name.endswith(".cleaned")]


def test_a_full_disk_only_puts_compaction_off() -> None:
    compacted = CompactedLog(Broker(log_cleaner_backoff_ms=1_000))
    dirty(compacted)
    compacted.broker.disk.capacity_bytes = compacted.broker.disk.used_bytes() + 10
    compacted.clean()
    assert runs(compacted) == 0
    assert not compacted.log.is_offline
    assert compacted.broker.report.having("its compaction will be tried again")
    compacted.broker.disk.capacity_bytes = 1 << 40
    compacted.broker.clock.advance(3_000)
    assert runs(compacted) == 1


@pytest.mark.parametrize("failing", [".cleaned", ".log"])
def test_a_disk_that_fails_goes_offline(failing: str) -> None:
    compacted = CompactedLog()
    dirty(compacted)
    compacted.broker.disk.failing_syncs.add(failing)
    compacted.clean()
    assert compacted.log.is_offline


class FailingCompactor:
    """The process fails before it has done anything, every time."""

    def __init__(self, error: CompactionFailed) -> None:
        self.error = error
        self.started = 0

    def start(self, job: CompactionJob, on_cleaned: OnCleaned, on_done: OnDone) -> None:
        self.started += 1
        on_done(None, self.error)

    def cancel(self) -> None:
        pass


def test_a_killed_process_is_only_a_run_to_be_tried_again() -> None:
    compacted = CompactedLog(Broker(log_cleaner_backoff_ms=1_000))
    error = CompactionFailed("the process that did it ended", is_corrupt=False)
    compacted.broker.manager.cleaner._compactor = compactor = FailingCompactor(error)
    dirty(compacted)
    compacted.broker.clock.advance(10_000)
    assert 5 <= compactor.started <= 11
    assert compacted.broker.manager.cleaner.failures == compactor.started
    assert not compacted.log.is_offline


def test_an_error_of_the_disk_in_the_process_takes_the_dir_offline() -> None:
    compacted = CompactedLog(Broker(log_cleaner_backoff_ms=1_000))
    error = CompactionFailed("read", is_corrupt=False, error_number=errno.EIO)
    compacted.broker.manager.cleaner._compactor = FailingCompactor(error)
    dirty(compacted)
    compacted.broker.clock.advance(10_000)
    assert compacted.log.is_offline
