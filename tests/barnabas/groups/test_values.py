"""What the commands on groups read and work out without a broker."""

import time
from pathlib import Path

import pytest

from barnabas.client.group_lag import PartitionLag, first_record
from barnabas.commands.consume import Start, parse_start
from barnabas.commands.group_choice import parse_topic
from barnabas.commands.offsets_file import csv_of, read_offsets
from barnabas.commands.times import parse_duration, parse_timestamp
from barnabas.commands.watching import parse_interval, screen
from barnabas.options import Failure
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.types import TopicPartition

# ---- times, durations, topics


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("1.5s", 1_500),
        ("250ms", 250),
        ("PT10M", 600_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("pt0.5s", 500),  # any case, as Java reads it
    ],
)
def test_durations_are_read_as_people_and_as_iso_8601_write_them(text: str, expected_ms: int) -> None:
    assert parse_duration(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "10", "m", "-5m", "10 m", "1y", "PT10M5"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as 10m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T12:00:00.250", 1_769_860_800_250),  # without a zone it is UTC
        ("2026-01-31T12:00:00+02:00", 1_769_853_600_000),
        ("2026-01-31", 1_769_817_600_000),
        ("@1769860800000", 1_769_860_800_000),
    ],
)
def test_times_are_read(text: str, expected_ms: int) -> None:
    assert parse_timestamp(text) == expected_ms


def test_every_command_takes_a_time_without_a_zone_for_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        noon_ms = 1_769_860_800_000
        assert parse_start("2026-01-31T12:00:00") == Start(timestamp=noon_ms)
        assert parse_timestamp("2026-01-31T12:00:00") == noon_ms
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", ["", "yesterday", "@", "@x", "2026-13-01"])
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="must be a time such as"):
        parse_timestamp(text)


def test_a_topic_is_named_with_some_of_its_partitions_or_all() -> None:
    everything, some = parse_topic("orders"), parse_topic("orders:2,0,2")
    assert (str(everything), everything.has(7)) == ("orders", True)
    assert (str(some), some.has(2), some.has(1)) == ("orders:0,2", True, False)


@pytest.mark.parametrize("text", ["", ":0", "orders:", "orders:a", "orders:0,,1", "orders:-1"])
def test_anything_else_names_no_partitions(text: str) -> None:
    with pytest.raises(ValueError, match="must be a topic"):
        parse_topic(text)


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf"])
def test_an_interval_is_a_number_of_seconds(text: str) -> None:
    assert parse_interval("0.5") == 0.5
    with pytest.raises(ValueError, match="must be a number of seconds"):
        parse_interval(text)


# ---- files of offsets


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("orders,0,5\norders,1,6\n", "as Kafka's tool exports one group"),
        ('"orders",0,5\r\n\r\n"orders",1,6', "quoted, with Windows' line ends and none at the end"),
        ("billing,orders,0,5\nother,orders,0,9\nbilling,orders,1,6\n", "of several groups"),
        ("\ufefforders, 0, 5\norders, 1, 6\n", "as a spreadsheet saves it"),
        ("orders,0,1\norders,0,5\norders,1,6\n", "the last line wins"),
    ],
)
def test_offsets_are_read_from_a_file(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(text, encoding="utf-8", newline="")
    expected = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}
    assert read_offsets(str(file), "billing") == expected, why


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("orders,0,5\norders,1\n", "line 2 is not topic,partition,offset"),
        ("orders,0,-5\n", "line 1 is not"),
        ("orders,x,5\n", "line 1 is not"),
        (",0,5\n", "line 1 is not"),
        ("a,b,orders,0,5\n", "line 1 is not"),
        ("\xff\xfe,0", "line 1 is not"),
        ("", "has no offsets of group billing"),
        ("other,orders,0,5\n", "has no offsets of group billing"),
    ],
)
def test_what_a_file_has_wrong_is_said(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(Failure, match=complaint):
        read_offsets(str(file), "billing")


def test_offsets_are_written_in_order() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 3, TopicPartition("a", 0): 2}
    assert csv_of(offsets) == "a,0,2\nb,2,3\nb,10,1\n"


# ---- lag


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [
        (3, 10, 7),
        (10, 10, 0),
        (None, 10, None),  # nothing to count from
        (3, None, None),  # nobody knows the end
        (11, 10, None),  # beyond the end
    ],
)
def test_lag_that_cannot_be_known_is_not_0(committed: int | None, end: int | None, lag: int | None) -> None:
    assert PartitionLag(TopicPartition("orders", 0), committed, end, None).lag == lag


def batch(offset: int, *timestamps: int, compression: int = CompressionType.NONE) -> bytes:
    return bytes(
        build_batch(
            [(None, b"x", (), timestamp) for timestamp in timestamps], base_offset=offset, compression=compression
        )
    )


def marker(offset: int) -> bytes:
    return bytes(build_batch([(b"\0\0\0\1", b"\0\0\0\0\0\0", (), 1)], base_offset=offset, control=True, producer_id=1))


@pytest.mark.parametrize(
    ("records", "offset", "expected"),
    [
        (batch(5, 100, 200, 300), 5, (100, 6)),
        (batch(5, 100, 200, 300), 6, (200, 7)),  # inside the batch
        (batch(5, 100, 200, compression=CompressionType.LZ4), 6, (200, 7)),
        (batch(9, 100), 5, (100, 10)),  # compaction emptied 5 to 8
        (marker(5) + batch(6, 100), 5, (100, 7)),  # a marker is no record
        (marker(5), 5, (None, 6)),  # look on behind it
        (batch(5, 100), 6, (None, 6)),  # all of it is read already
        (batch(5, -1), 5, (None, 5)),  # a record without a timestamp: unknown
        (batch(5, 100)[:-1], 5, (None, 5)),  # not whole
        (b"\0" * 80, 5, (None, 5)),  # nonsense is unknown too
        (b"", 5, (None, 5)),
    ],
)
def test_the_oldest_unread_record_is_found(records: bytes, offset: int, expected: tuple[int | None, int]) -> None:
    assert first_record(memoryview(records), offset) == expected


# ---- a terminal


def test_a_screen_is_drawn_over_the_last_and_cut_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "4")
    assert screen(["a", "b"]) == "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"
    cut = screen(["a", "b", "c", "d", "e"])
    assert cut == "\x1b[Ha\x1b[K\nb\x1b[K\n... and 3 lines more\x1b[K\n\x1b[J"
