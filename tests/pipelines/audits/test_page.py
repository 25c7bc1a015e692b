"""The page and the texts of an audit, without Spark."""

from xml.etree import ElementTree

import pytest

from barnabas.pipelines.audits import plots
from barnabas.pipelines.audits.examples import key_text
from barnabas.pipelines.audits.page import as_html
from barnabas.pipelines.audits.report import (
    Finding,
    Interval,
    KeyFigures,
    PartitionFigures,
    Report,
    SizeStep,
    as_text,
    bytes_text,
    time_text,
)
from barnabas.pipelines.audits.shape import DAY_MS, HOUR_MS, INTERVALS_MAX, interval_ms

YEAR_MS = 365 * DAY_MS


@pytest.mark.parametrize(
    ("largest", "binary", "expected"),
    [
        (1, False, [0, 1]),  # nobody has half a record
        (300, False, [0, 100, 200, 300]),
        (301, False, [0, 100, 200, 300, 400]),
        (7, False, [0, 2, 4, 6, 8]),
        (0, False, [0, 1]),
        (100 * 1024, True, [0, 50 * 1024, 100 * 1024]),
        (1500, True, [0, 512, 1024, 1536]),
    ],
)
def test_an_axis_has_few_round_steps_up_to_the_largest(largest: float, binary: bool, expected: list[float]) -> None:
    assert plots.steps(largest, binary=binary) == expected


@pytest.mark.parametrize("span_ms", [0, 1, 119_999, 3 * HOUR_MS, 100 * DAY_MS, 50 * YEAR_MS, 10_000 * YEAR_MS])
def test_a_span_is_cut_into_pieces_that_can_be_told_apart(span_ms: int) -> None:
    assert 0 <= span_ms / interval_ms(span_ms) <= INTERVALS_MAX


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"customer-7", "customer-7"),
        ("Ørsted".encode(), "Ørsted"),
        (b"\x00\x01", "0x0001"),
        (b"", ""),
        ("ü".encode() * 24, "ü" * 24 + "…"),
        (b"x" + "ü".encode() * 23 + b"\xc3", "x" + "ü" * 23 + "…"),  # the last character was cut in two
        (None, None),
    ],
)
def test_a_key_is_shown_as_text_where_it_is_text(key: bytes | None, expected: str | None) -> None:
    assert key_text(key) == expected


def test_sizes_and_times_of_any_kind_have_a_text() -> None:
    assert [bytes_text(size) for size in (0, 1023, 1536, 5 * 2**40)] == ["0 B", "1,023 B", "1.5 KiB", "5 TiB"]
    assert time_text(1_763_294_400_000) == "2025-11-16 12:00:00"
    assert [time_text(ms) for ms in (-1, None, 2**62)] == ["-", "-", f"{2**62} ms"]
    lengths = (0, 7, 1000, 7_200_000, 2 * DAY_MS)
    assert [plots.length_text(ms) for ms in lengths] == ["0 ms", "7 ms", "1 second", "2 hours", "2 days"]


def report(*, partitions: int, intervals: int, step_ms: int) -> Report:
    return Report(
        subject="orders <b>at</b> x",
        partitions=[PartitionFigures(n, 0, 10, 10, 100 * n, 0, 0, step_ms, 1, 0, 0) for n in range(partitions)],
        findings=[Finding("keys", "a title", "<script>alert(1)</script>", 2, [{"key": "<i>", "offset": 1}])],
        sizes={"min": 0, "p50": 5, "p99": 9, "max": 9},
        size_steps=[SizeStep(0, 1, 1), SizeStep(1, 2, 5)],
        keys=1,
        top_keys=[KeyFigures("<img src=x>" * 9, 5, 10, 1)],
        interval_ms=step_ms,
        intervals=[Interval(n * step_ms, n % partitions, 1, 10) for n in range(intervals)],
    )


@pytest.mark.parametrize(
    ("partitions", "intervals", "step_ms"), [(1, 1, 1000), (3, 120, DAY_MS), (64, 100, 60_000), (2, 2, 10**13)]
)
def test_a_page_is_well_formed_whatever_it_shows(partitions: int, intervals: int, step_ms: int) -> None:
    made = report(partitions=partitions, intervals=intervals, step_ms=step_ms)
    page = as_html(made)
    body = page[page.index("<main>") : page.index("</body>")]
    ElementTree.fromstring(body)
    assert "<script" not in page
    assert "<img" not in page
    assert "1 finding in" in page
    assert "a title: 2" in as_text(made)


def test_a_report_of_nothing_has_a_page() -> None:
    empty = Report("nothing", partitions=[PartitionFigures(0, 0, 0, 0, 0, 0, None, None, 0, 0, 0)])
    assert "No problems: 0 records checked." in as_html(empty)
    assert "No problems" in as_text(empty)
