"""What goes, when, and that nobody has to look at all logs to find it."""

import errno

import pytest

from barnabas.base.files import File
from barnabas.protocol.errors import OffsetOutOfRange
from barnabas.protocol.types import TopicPartition
from barnabas.storage.log import Log
from tests.storage.logs import NOW_MS, ORDERS, Broker, append, offsets_of, present, sized

DAY_MS = 86_400_000


def log_of(broker: Broker, count: int = 10, **config: object) -> Log:
    """Two batches of 200 bytes in each segment; the last holds two as well."""
    log = broker.log(internal_segment_bytes=450, **config)
    for number in range(count):
        append(log, sized(200, timestamp=NOW_MS + number * 1_000))
    broker.settle()
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (DAY_MS + 1_000, [0, 2, 4, 6, 8]),  # the largest timestamp of the first segment is not older than a day
        (DAY_MS + 1_001, [2, 4, 6, 8]),
        (DAY_MS + 5_001, [6, 8]),  # all that are due, in one pass
        (DAY_MS + 9_001, [10]),  # the active one too: it is rolled first
        (0, [0, 2, 4, 6, 8]),
    ],
)
def test_segments_go_when_their_newest_record_is_too_old(age_ms: int, expected: list[int]) -> None:
    log = log_of(Broker(), retention_ms=DAY_MS)
    log.maintenance.enforce_retention(NOW_MS + age_ms)
    assert bases(log) == expected
    assert log.log_start_offset == expected[0]
    assert log.log_end_offset == 10


@pytest.mark.parametrize(
    ("retention_bytes", "expected"),
    [
        (2_000, [0, 2, 4, 6, 8]),  # exactly what there is
        (1_601, [0, 2, 4, 6, 8]),  # without the first segment it would be too little
        (1_600, [2, 4, 6, 8]),
        (500, [6, 8]),
        (0, [10]),
        (-1, [0, 2, 4, 6, 8]),
    ],
)
def test_segments_go_while_enough_bytes_stay(retention_bytes: int, expected: list[int]) -> None:
    log = log_of(Broker(), retention_ms=-1, retention_bytes=retention_bytes)
    log.maintenance.enforce_retention(NOW_MS)
    assert bases(log) == expected


def test_a_compacted_topic_loses_nothing_by_age() -> None:
    log = log_of(Broker(), retention_ms=1, cleanup_policy=("compact",))
    assert log.maintenance.enforce_retention(NOW_MS + DAY_MS) is None
    assert bases(log) == [0, 2, 4, 6, 8]


def test_nothing_goes_beyond_the_high_watermark() -> None:
    log = log_of(Broker(), retention_ms=1)
    log.high_watermark = 5
    log.maintenance.enforce_retention(NOW_MS + DAY_MS)
    assert bases(log) == [4, 6, 8]


def test_a_segment_without_timestamps_is_as_old_as_its_file() -> None:
    broker = Broker()
    broker.disk.now_ms = lambda: NOW_MS
    log = broker.log(internal_segment_bytes=450, retention_ms=DAY_MS)
    for _ in range(3):
        append(log, sized(200, timestamp=-1))
    log.maintenance.enforce_retention(NOW_MS + DAY_MS)
    assert bases(log) == [0, 2]
    log.maintenance.enforce_retention(NOW_MS + DAY_MS + 1)
    assert bases(log) == [3]


def test_the_next_pass_is_asked_for_when_the_oldest_segment_is_due() -> None:
    broker = Broker(log_retention_check_interval_ms=1_000)
    log = log_of(broker, retention_ms=DAY_MS)
    assert log.maintenance.enforce_retention(NOW_MS) == NOW_MS + 1_000 + DAY_MS + 1
    assert log_of(Broker(), 0).maintenance.enforce_retention(NOW_MS) is None, "an empty log has nothing to lose"


def test_deadlines_delete_by_themselves_and_nobody_looks_at_logs_that_are_not_due() -> None:
    broker = Broker(log_retention_check_interval_ms=1_000, initial_task_delay_ms=1_000)
    log = log_of(broker, retention_ms=60_000)
    for partition in range(1, 50):
        broker.log(TopicPartition("idle", partition))
    assert len(broker.manager._deadlines) == 1, "an empty log has no deadline"
    broker.clock.advance(61_002)
    assert bases(log) == [2, 4, 6, 8]
    broker.clock.advance(3_600_000)
    assert (bases(log), log.log_start_offset) == ([10], 10)


def test_what_fails_once_is_tried_again_at_the_next_check(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(log_retention_check_interval_ms=1_000, initial_task_delay_ms=1_000)
    log = log_of(broker, retention_ms=60_000)
    create = broker.files.open

    def out_of_descriptors(path: str, *, create: bool = False) -> File:
        raise OSError(errno.EMFILE, "Too many open files")

    broker.manager.log_dirs[0].cache.forget_all()
    monkeypatch.setattr(broker.files, "open", out_of_descriptors)
    broker.clock.advance(3_600_000)
    assert bases(log) == [8], "the active one cannot go: there must be another"
    monkeypatch.setattr(broker.files, "open", create)
    broker.clock.advance(2_000)
    assert bases(log) == [10]


def test_a_roll_makes_retention_by_bytes_due_at_the_next_check() -> None:
    broker = Broker(log_retention_check_interval_ms=1_000)
    log = log_of(broker, 2, retention_ms=-1, retention_bytes=400)
    broker.clock.advance(5_000)
    for _ in range(4):
        append(log, sized(200), now_ms=broker.clock.now_ms())
    assert bases(log) == [0, 2, 4]
    broker.clock.advance(1_000)
    assert bases(log) == [4]


def test_a_new_configuration_is_followed() -> None:
    broker = Broker(log_retention_check_interval_ms=1_000)
    log = log_of(broker, retention_ms=-1)
    broker.clock.advance(DAY_MS)
    assert len(log.segments) == 5
    log.configure(type(log.config)(retention_ms=1))
    broker.clock.advance(1_000)
    assert bases(log) == [10]


def test_a_wall_clock_that_is_set_back_does_not_stop_retention() -> None:
    broker = Broker(log_retention_check_interval_ms=1_000)
    log = log_of(broker, retention_ms=-1, retention_bytes=1_600)
    broker.clock.correction_ms = -30 * DAY_MS
    broker.clock.advance(1_000)
    assert bases(log) == [2, 4, 6, 8]


def test_a_wall_clock_that_is_set_on_is_noticed_within_an_hour() -> None:
    broker = Broker(log_retention_check_interval_ms=1_000)
    log = log_of(broker, retention_ms=7 * DAY_MS)
    broker.clock.advance(10_000)
    broker.clock.correction_ms = 8 * DAY_MS
    broker.clock.advance(DAY_MS // 24)
    assert bases(log) == [10]


def test_files_are_renamed_first_and_removed_later() -> None:
    broker = Broker()
    log = log_of(broker, retention_ms=1_000, file_delete_delay_ms=60_000)
    log.maintenance.enforce_retention(NOW_MS + DAY_MS)
    broker.settle()
    names = broker.files.listdir(log.path)
    assert f"{0:020d}.log.deleted" in names
    assert f"{0:020d}.log" not in names
    broker.clock.advance(60_000)
    assert sorted(name for name in broker.files.listdir(log.path) if not name.startswith(("leader", "partition"))) == [
        f"{10:020d}.log",
        f"{10:020d}.snapshot",
    ]
    assert append(log).base_offset == 10


def test_delete_records_moves_the_start_and_drops_whole_segments() -> None:
    broker = Broker(log_flush_offset_checkpoint_interval_ms=100)
    log = log_of(broker, file_delete_delay_ms=0)
    assert log.delete_records(5) == 5
    assert (bases(log), log.log_start_offset, offsets_of(log)) == ([4, 6, 8], 5, [5, 6, 7, 8, 9])
    assert log.delete_records(2) == 5, "never back"
    for offset in (-1, 11):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(offset)
    assert log.delete_records(10) == 10
    assert log.read(10, 100, max_offset=10) is None
    broker.restart()
    assert (broker.log().log_start_offset, broker.log().log_end_offset) == (10, 10)


def test_the_log_start_survives_a_kill_once_it_is_checkpointed() -> None:
    broker = Broker(log_flush_offset_checkpoint_interval_ms=100)
    log = log_of(broker)
    log.delete_records(5)
    broker.clock.advance(100)
    broker.kill()
    assert broker.log().log_start_offset == 5


def test_producers_that_fell_silent_are_forgotten() -> None:
    broker = Broker(producer_id_expiration_ms=DAY_MS, producer_id_expiration_check_interval_ms=1_000)
    log = broker.log()
    append(log, sized(200, producer_id=7, producer_epoch=0, base_sequence=0))
    broker.clock.advance(DAY_MS - 1)
    assert len(list(log.active_producers())) == 1
    broker.clock.advance(1_001)
    assert list(log.active_producers()) == []


def test_an_old_segment_of_a_log_nobody_asks_for_goes_too() -> None:
    broker = Broker()
    log_of(broker, retention_ms=DAY_MS)
    broker.manager.close()
    broker.now_ms = NOW_MS + 2 * DAY_MS
    broker.start()
    assert broker.manager.opened(ORDERS) is None
    broker.clock.advance(120_000)
    assert present(broker.manager.opened(ORDERS)).log_start_offset == 10
