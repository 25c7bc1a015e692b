"""When a segment is closed and the next begun."""

import pytest

from barnabas.protocol.errors import KafkaStorageError
from barnabas.storage.log import Log
from tests.storage.logs import NOW_MS, Broker, append, batch, offsets_of, sized


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize(
    ("config", "timestamps_and_clocks", "expected"),
    [
        ({"internal_segment_bytes": 600}, [(0, 0)] * 4, [0, 3]),  # a segment may be exactly full
        ({"internal_segment_bytes": 599}, [(0, 0)] * 4, [0, 2]),
        ({"segment_ms": 1_000}, [(0, 0), (1_000, 0), (1_001, 0)], [0, 2]),  # by the records' time, not the clock's
        ({"segment_ms": 1_000}, [(0, 0), (0, 9_999)], [0]),
        ({"segment_ms": 1_000}, [(None, 0), (None, 1_000), (None, 1_001)], [0, 2]),  # by the clock without timestamps
        ({"index_interval_bytes": 0, "segment_index_bytes": 24}, [(None, 0)] * 9, [0, 4, 8]),  # three rows are all
    ],
)
def test_a_segment_is_closed_when_it_is_full_or_old(
    config: dict[str, int], timestamps_and_clocks: list[tuple[int | None, int]], expected: list[int]
) -> None:
    broker = Broker()
    log = broker.log(**config)
    for timestamp, clock in timestamps_and_clocks:
        data = sized(200, timestamp=-1 if timestamp is None else NOW_MS + timestamp)
        append(log, data, now_ms=NOW_MS + clock)
    assert bases(log) == expected


def test_offsets_of_a_segment_fit_its_index() -> None:
    broker = Broker()
    log = broker.log()
    append(log)
    log.log_end_offset = 2**31  # as if two thousand million records had come between
    append(log)
    assert bases(log) == [0, 2**31]
    assert log.segments.active.size == len(batch())


def test_a_full_time_index_closes_the_segment() -> None:
    log = Broker().log(index_interval_bytes=0, segment_index_bytes=36, message_timestamp_after_max_ms=1 << 50)
    for number in range(6):
        append(log, sized(200, timestamp=NOW_MS + number))
    assert bases(log) == [0, 3]


def test_an_index_too_small_for_any_row_does_not_stop_the_log() -> None:
    log = Broker().log(segment_index_bytes=4)
    for _ in range(3):
        append(log)
    assert offsets_of(log) == [0, 1, 2]


def test_the_age_counts_from_the_first_batch_after_a_restart_too() -> None:
    broker = Broker()
    append(broker.log(segment_ms=1_000), sized(200, timestamp=NOW_MS))
    broker.restart()
    log = broker.log()
    append(log, sized(200, timestamp=NOW_MS + 1_001))
    assert bases(log) == [0, 1]


def test_a_new_segment_that_cannot_be_created_changes_nothing() -> None:
    broker = Broker()
    log = broker.log(internal_segment_bytes=450)
    append(log, sized(200))
    append(log, sized(200))
    broker.disk.failing_creates.add(log.path)
    with pytest.raises(KafkaStorageError):
        append(log, sized(200))
    broker.disk.failing_creates.clear()
    assert bases(log) == [0]
    assert append(log, sized(200)).base_offset == 2
    assert bases(log) == [0, 2]


def test_an_empty_segment_is_not_rolled() -> None:
    log = Broker().log()
    log.roll(NOW_MS)
    assert bases(log) == [0]
    append(log)
    log.roll(NOW_MS)
    log.roll(NOW_MS)
    assert bases(log) == [0, 1]
