"""Tables, formats and JSON."""

import json
from typing import Any

import pytest

from barnabas.output import (
    human_bytes,
    human_duration,
    iso_time,
    plural,
    print_table,
    record_format,
    record_json,
    unescape,
)
from barnabas.protocol.records import Header, Record

RECORD = Record(42, 1_700_000_000_123, b"k", "väl".encode(), (Header("h", b"1"), Header("n", None)))
BINARY = Record(7, 0, None, b"\xff\x00a", (Header("h", b"\xfe"),))
TOMBSTONE = Record(8, -1, b"k", None)


@pytest.mark.parametrize(
    ("template", "record", "expected"),
    [
        ("%v\\n", RECORD, "väl\n"),
        ("%s", RECORD, "väl"),  # kcat's name for it
        ("%t %p %o %k %T\\n", RECORD, "orders 3 42 k 1700000000123\n"),
        ("%h", RECORD, "h=1,n=null"),
        ("%K %S", RECORD, "1 4"),  # bytes, not letters
        ("%K %S", TOMBSTONE, "1 -1"),
        ("%k=%v", TOMBSTONE, "k=null"),
        ("100%%\\t%%v", RECORD, "100%\t%v"),
        ("", RECORD, ""),
        ("%v", BINARY, "\\xff\x00a"),  # what is no UTF-8 is escaped
        ("%h", BINARY, "h=\\xfe"),
        ("\\x41\\\\n", RECORD, "A\\n"),
    ],
)
def test_a_format_shows_a_record(template: str, record: Record, expected: str) -> None:
    assert record_format(template)("orders", 3, record) == expected.encode()


def test_raw_writes_the_bytes_as_they_are() -> None:
    assert record_format("%v\\xff", raw=True)("orders", 0, BINARY) == b"\xff\x00a\xff"


@pytest.mark.parametrize("template", ["%q", "%", "%v%"])
def test_a_letter_that_means_nothing_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="means nothing"):
        record_format(template)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\t", b"\t"),
        ("\\n\\r\\0", b"\n\r\0"),
        ("\\x00\\xFF", b"\0\xff"),
        ("\\xc3\\xa9", "é".encode()),
        ("\\\\t", b"\\t"),
        ("\\", b"\\"),
        ("\\:", b":"),
        ("\\xzz", b"xzz"),
        ("é", "é".encode()),
    ],
)
def test_escapes_stand_for_bytes(text: str, expected: bytes) -> None:
    assert unescape(text).encode(errors="surrogateescape") == expected


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            RECORD,
            {
                "topic": "orders", "partition": 3, "offset": 42, "timestamp": 1_700_000_000_123, "key": "k",
                "value": "väl", "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
            },
        ),
        (
            BINARY,
            {
                "topic": "orders", "partition": 3, "offset": 7, "timestamp": 0, "key": None,
                "value_base64": "/wBh", "headers": [{"key": "h", "value_base64": "/g=="}],
            },
        ),
    ],
)  # fmt: skip
def test_json_holds_every_byte(record: Record, expected: dict[str, Any]) -> None:
    line = record_json()("orders", 3, record)
    assert line.endswith(b"\n")
    assert json.loads(line) == expected


def test_a_table_puts_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("TOPIC", "PARTITIONS", "NOTE"), [("orders", 3, ""), ("a", 12, "x")])
    assert capsys.readouterr().out == (
        "TOPIC   PARTITIONS  NOTE\n"
        "orders           3\n"
        "a               12  x\n"
    )  # fmt: skip


def test_an_empty_table_still_has_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("TOPIC", "PARTITIONS"), [])
    assert capsys.readouterr().out == "TOPIC  PARTITIONS\n"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (1_500_000, "1.5 MB"), (2.5e12, "2500.0 GB")]
)
def test_sizes_read_well(size: float, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "0.2 s"),
        (9.96, "10.0 s"),
        (42.4, "42 s"),
        (59.9, "59 s"),
        (60, "1m 0s"),
        (3599.9, "59m 59s"),
        (3600, "1h 0m"),
        (86_399, "23h 59m"),
        (90_000, "1d 1h"),
    ],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_times_are_utc(timestamp: int, text: str) -> None:
    assert iso_time(timestamp) == text


def test_one_is_singular() -> None:
    assert [plural(count, "record") for count in (0, 1, 1000)] == ["0 records", "1 record", "1,000 records"]
