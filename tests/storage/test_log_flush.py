"""Durability: who shares an fsync, what moves the recovery point, and what a failed fsync means."""

import errno
from collections.abc import Callable

import pytest

from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.types import TopicPartition
from barnabas.storage.checkpoints import decode_offsets
from barnabas.storage.log_config import LogConfig
from tests.storage.logs import NOW_MS, ORDERS, Broker, append, batch, offsets_of, sized


def recovery_points(broker: Broker) -> dict[TopicPartition, int]:
    return decode_offsets(broker.files.read_bytes("/data/recovery-point-offset-checkpoint"))


def test_everybody_who_waits_in_the_same_turn_shares_one_fsync() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    told: list[object] = []

    def wait(number: int) -> None:
        log.flush().when_done(lambda done: told.append((number, done.error)))

    for number in range(5):
        append(log)
        wait(number)
    broker.clock.turn()
    assert (len(broker.queue.jobs), told, log.recovery_point) == (1, [], 0)
    broker.queue.do()
    assert (told, log.recovery_point) == ([(number, None) for number in range(5)], 5)


def test_what_is_appended_while_an_fsync_is_at_work_waits_for_the_next() -> None:
    broker = Broker(queued=True)
    log = broker.log(flush_messages=1)
    told: list[int] = []
    log.listener = Listener(lambda: told.append(log.recovery_point))
    for _ in range(3):
        append(log)
    broker.clock.turn()
    for _ in range(2):
        append(log)
    broker.queue.do()
    assert told == [3]
    broker.settle()
    assert told == [3, 5]


class Listener:
    def __init__(self, on_flushed: Callable[[], None]) -> None:
        self.on_flushed = on_flushed
        self.errors: list[KafkaStorageError] = []

    def on_flush_failed(self, error: KafkaStorageError) -> None:
        self.errors.append(error)


def test_who_comes_while_an_fsync_is_at_work_waits_for_the_next() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    told: list[object] = []
    append(log)
    log.flush().when_done(lambda done: told.append("first"))
    broker.clock.turn()
    append(log)
    log.flush().when_done(lambda done: told.append("second"))
    broker.clock.turn()
    assert len(broker.queue.jobs) == 1, "one at a time"
    broker.queue.do()
    broker.clock.turn()
    assert (told, log.recovery_point) == (["first"], 1)
    broker.queue.do()
    assert (told, log.recovery_point) == (["first", "second"], 2)


def test_a_segment_that_is_closed_while_an_fsync_is_at_work_gets_the_next() -> None:
    broker = Broker(queued=True)
    log = broker.log(internal_segment_bytes=250)  # one batch
    for _ in range(2):
        append(log, sized(200))
    broker.clock.turn()
    append(log, sized(200))  # closes the second
    broker.queue.do()
    assert [segment.is_sealed for segment in log.segments] == [True, False, False]
    broker.settle()
    assert [segment.is_sealed for segment in log.segments] == [True, True, False]


def test_what_is_durable_already_is_told_at_once() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    told: list[object] = []
    log.flush().when_done(lambda done: told.append(done.error))
    assert told == [None]


def test_what_was_flushed_survives_a_power_cut_and_what_was_not_may_be_lost() -> None:
    broker = Broker()
    log = broker.log()
    append(log)
    log.flush()
    broker.settle()
    for _ in range(20):
        append(log)
    broker.cut_power()
    log = broker.log()
    assert log.log_end_offset >= 1
    assert offsets_of(log) == list(range(log.log_end_offset))


@pytest.mark.parametrize(("flush_messages", "flushed_at"), [(1, [1, 2, 3, 4, 5, 6]), (3, [3, 6])])
def test_flush_messages_flushes_by_itself(flush_messages: int, flushed_at: list[int]) -> None:
    broker = Broker()
    log = broker.log(flush_messages=flush_messages)
    points = []
    for _ in range(6):
        append(log)
        broker.settle()
        points.append(log.recovery_point)
    assert sorted(set(points) - {0}) == flushed_at


def test_flush_ms_flushes_in_the_background_and_only_if_there_is_something() -> None:
    broker = Broker()
    log = broker.log(flush_ms=1_000)
    broker.clock.advance(5_000)
    append(log, now_ms=broker.clock.now_ms())
    broker.clock.advance(999)
    assert log.recovery_point == 0
    broker.clock.advance(1)
    assert log.recovery_point == 1
    append(log, now_ms=broker.clock.now_ms())
    broker.clock.advance(1_000)
    assert log.recovery_point == 2


@pytest.mark.parametrize("correction_ms", [-86_400_000, 86_400_000])
def test_a_wall_clock_that_is_corrected_does_not_put_off_a_flush(correction_ms: int) -> None:
    broker = Broker()
    log = broker.log(flush_ms=1_000)
    append(log)
    broker.clock.correction_ms = correction_ms
    broker.clock.advance(1_000)
    assert log.recovery_point == 1


def test_a_roll_seals_the_old_segment_in_a_worker_and_then_moves_the_recovery_point() -> None:
    broker = Broker(queued=True, log_flush_offset_checkpoint_interval_ms=100)
    log = broker.log(internal_segment_bytes=500)
    for _ in range(3):
        append(log, sized(200))
    broker.clock.turn()
    assert log.recovery_point == 0
    broker.queue.do()
    assert log.recovery_point == 2
    names = broker.files.listdir(log.path)
    assert {f"{0:020d}.index", f"{0:020d}.timeindex", f"{2:020d}.snapshot", "leader-epoch-checkpoint"} <= set(names)
    broker.clock.advance(100)
    broker.queue.do()
    assert recovery_points(broker) == {ORDERS: 2}


def test_the_checkpoint_never_trusts_a_segment_whose_index_files_are_not_durable() -> None:
    broker = Broker(queued=True, log_flush_offset_checkpoint_interval_ms=100)
    log = broker.log()
    append(log, batch(b"a", b"b"))
    log.flush()
    broker.settle()
    broker.clock.advance(100)
    broker.settle()
    assert log.recovery_point == 2
    assert recovery_points(broker) == {ORDERS: 1}, "inside the segment, so that recovery walks over it"


def test_checkpoints_are_written_once_an_interval_and_only_if_something_changed() -> None:
    broker = Broker(queued=True, log_flush_offset_checkpoint_interval_ms=60_000)
    log = broker.log()
    for _ in range(3):
        append(log)
        log.flush()
        broker.settle()
    assert not broker.files.exists("/data/recovery-point-offset-checkpoint")
    broker.clock.advance(60_000)
    assert len(broker.queue.jobs) == 1
    broker.settle()
    broker.clock.advance(600_000)
    assert broker.queue.jobs == []


def test_a_failed_fsync_is_not_tried_again_and_takes_the_dir_offline() -> None:
    broker = Broker(log_dirs=("/one", "/two"))
    log = broker.log()
    other = broker.log(ORDERS._replace(partition=1))
    append(log)
    append(other)
    broker.disk.failing_syncs.add(log.path)
    told: list[BaseException | None] = []
    log.flush().when_done(lambda done: told.append(done.error))
    broker.settle()
    assert isinstance(told[0], KafkaStorageError)
    assert log.recovery_point == 0
    broker.disk.failing_syncs.clear()
    log.flush().when_done(lambda done: told.append(done.error))
    broker.settle()
    assert isinstance(told[1], KafkaStorageError), "the kernel would say that it worked; it did not"
    with pytest.raises(KafkaStorageError):
        append(log)
    other.flush().when_done(lambda done: told.append(done.error))
    broker.settle()
    assert (told[2], other.recovery_point) == (None, 1)


def test_those_who_wait_are_told_when_the_dir_goes_offline_meanwhile() -> None:
    broker = Broker(queued=True)
    log, other = broker.log(), broker.log(ORDERS._replace(partition=1))
    told: list[BaseException | None] = []
    for each in (log, other):
        append(each)
    broker.disk.failing_syncs.add(log.path)
    log.flush().when_done(lambda done: told.append(done.error))
    broker.clock.turn()
    other.flush().when_done(lambda done: told.append(done.error))
    broker.queue.do()
    broker.settle()
    assert [type(error) for error in told] == [KafkaStorageError] * 2


def test_a_full_disk_postpones_the_index_files_and_still_acknowledges_the_data() -> None:
    broker = Broker(queued=True, log_flush_offset_checkpoint_interval_ms=100)
    log = broker.log(internal_segment_bytes=500)
    for _ in range(3):
        append(log, sized(200))
    told: list[object] = []
    log.flush().when_done(lambda done: told.append(done.error))
    broker.disk.capacity_bytes = broker.disk.used_bytes()
    broker.settle()
    assert (told, log.recovery_point, log.is_offline) == ([None], 3, False)
    broker.disk.capacity_bytes = 1 << 40
    broker.clock.advance(100)
    broker.settle()
    assert not broker.files.exists("/data/recovery-point-offset-checkpoint"), "nothing is trusted yet"
    append(log, sized(200))
    append(log, sized(200))
    broker.settle()
    broker.clock.advance(100)
    broker.settle()
    assert broker.files.exists(f"{log.path}/{0:020d}.index")
    assert recovery_points(broker) == {ORDERS: 4}


def test_a_stop_takes_over_what_no_worker_has_begun() -> None:
    broker = Broker(queued=True)
    log = broker.log(internal_segment_bytes=500)
    told: list[object] = []
    for _ in range(5):
        append(log, sized(200))
    log.flush().when_done(lambda done: told.append(done.error))
    broker.clock.turn()
    job, promise = broker.queue.jobs[0]
    broker.manager.close()
    assert told == [None]
    job()
    promise.resolve(None)  # the worker comes late: everything is done
    broker.start()
    assert broker.log().recovery_point == 5


def test_deleting_a_log_tells_those_who_wait() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    append(log)
    told: list[BaseException | None] = []
    log.flush().when_done(lambda done: told.append(done.error))
    broker.clock.turn()
    broker.manager.delete(ORDERS)
    broker.settle()
    assert isinstance(told[0], KafkaStorageError)
    with pytest.raises(KafkaStorageError):
        append(log, now_ms=NOW_MS)
    assert not log.is_offline, "what a late worker does to a deleted log is nobody's trouble"


def test_a_flush_that_finds_no_descriptor_is_tried_again_and_those_who_wait_go_on_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    log = broker.log()
    append(log)
    told: list[BaseException | None] = []

    def refuse(_path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(broker.files, "sync_dir", refuse)  # the name of a new log must become durable with its data
        log.flush().when_done(lambda done: told.append(done.error))
        broker.settle()
        broker.clock.advance(100)
        broker.settle()
        assert (told, log.recovery_point, log.is_offline) == ([], 0, False)
    broker.clock.advance(100)
    broker.settle()
    assert (told, log.recovery_point) == ([None], 1)
    assert broker.report.having("raise `ulimit -n`")


def test_a_stop_does_not_try_an_fsync_again_that_failed_in_a_worker() -> None:
    broker = Broker(queued=True)
    log = broker.log()
    append(log)
    log.flush()
    broker.clock.turn()
    broker.disk.failing_syncs.add(log.path)
    with pytest.raises(OSError, match="Input/output error"):
        broker.queue.jobs[0][0]()  # and the loop has not heard of it
    broker.disk.failing_syncs.clear()
    broker.manager.close()
    assert log.is_offline
    assert not broker.files.exists("/data/.kafka_cleanshutdown")


def test_a_flush_that_cannot_be_planned_for_lack_of_descriptors_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    log = broker.log()
    append(log)
    told: list[BaseException | None] = []

    def refuse() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as scarce:
        scarce.setattr(type(log.segments.active), "file", lambda _segment: refuse())
        log.flush().when_done(lambda done: told.append(done.error))
        broker.settle()
        assert (told, log.is_offline) == ([], False)
    broker.clock.advance(100)
    broker.settle()
    assert (told, log.recovery_point) == ([None], 1)


def test_a_shorter_flush_ms_holds_for_what_is_appended_already() -> None:
    broker = Broker()
    log = broker.log(flush_ms=60_000)
    append(log)
    log.configure(LogConfig(flush_ms=100))
    broker.clock.advance(100)
    broker.settle()
    assert log.recovery_point == 1
