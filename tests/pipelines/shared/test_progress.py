"""The progress line and the summary, from what Spark tells of a query."""

import io
import json
from typing import Any

import pytest

from barnabas.pipelines.shared.progress import NEWEST, Counts, Progress, lag_records, rows_read, say, span, status


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError("gone")


def told(batch_id: int, *, rows: int = 100, end: int = 100, latest: int = 100, **more: Any) -> dict[str, Any]:
    """What Spark has in a StreamingQueryProgress of a query over one topic with one partition."""
    offsets = {"startOffset": end - rows, "endOffset": end, "latestOffset": latest}
    source = {name: {"t": {"0": offset}} for name, offset in offsets.items()}
    durations = {"triggerExecution": 2500}
    return {"batchId": batch_id, "numInputRows": rows, "durationMs": durations, "sources": [source], **more}


def test_a_log_gets_a_line_now_and_then_and_the_summary() -> None:
    clock, output = Clock(), io.StringIO()
    progress = Progress("copy", output, clock=clock)
    newest = {NEWEST: {"newest_ms": int((clock.now - 60) * 1000)}}
    for batch_id in range(6):
        clock.now += 4
        progress.batch_done(batch_id, Counts(rows_out=50, figures={"dead letters": batch_id % 2, "late": 0}))
        progress.query_progressed(told(batch_id, latest=1300, observedMetrics=newest))
    progress.finish()
    lines = output.getvalue().splitlines()
    assert [line.split(" ", 1)[1] for line in lines[:-1]] == [
        "copy: batch 0 · 25 rows/s in · 12 out · 2.5 s · lag 1,200 records, 1m 4s",
        "copy: batch 3 · 25 rows/s in · 12 out · 2.5 s · lag 1,200 records, 1m 16s · 2 dead letters",
    ]
    assert lines[-1] == "copy done: 6 batches, 600 rows in, 300 out, 3 dead letters, 24 s (25 rows/s)"


def test_a_terminal_gets_one_line_that_is_written_over_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    clock, output = Clock(), Terminal()
    progress = Progress("copy", output, clock=clock)
    for batch_id in range(3):
        clock.now += 2
        progress.batch_done(batch_id, Counts())
        progress.query_progressed(told(batch_id, eventTime={"watermark": "2025-01-01T00:00:00.000Z"}))
    clock.now += 2
    progress.batch_runs(3, 0.5)  # too short to be worth a word
    progress.batch_runs(3, 61)
    progress.say("a line that stays")
    progress.finish(stopped=True)
    text = output.getvalue()
    assert text.count("\n") == 2
    shown = text.replace("\n", "").split("\r\x1b[K")[1:]
    assert all(len(line) < 40 for line in shown[:-2])
    assert shown[0] == "copy: batch 0 · 50 rows/s in · 2.5 s ·…"
    assert shown[3] == "copy: batch 3 runs for 1m 1s · batch 2…"
    assert shown[-2:] == ["a line that stays", "copy stopped: 3 batches, 300 rows in, 8.0 s (38 rows/s)"]


def test_a_long_first_batch_is_seen_to_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    output = Terminal()
    Progress("copy", output).batch_runs(0, 61)
    assert output.getvalue() == "\r\x1b[Kcopy: batch 0 runs for 1m 1s"


def test_what_is_waited_for_stands_on_a_terminal_until_there_is_something_to_tell() -> None:
    output = Terminal()
    with status("copy: starting Spark", output):
        say("a line that stays", output)
    Progress("copy", output).waits()
    clear = "\r\x1b[K"
    shown = [f"{clear}copy: starting Spark …", f"{clear}a line that stays\n", clear]
    assert output.getvalue() == "".join([*shown, f"{clear}copy: waiting for the first batch …"])


def test_one_of_anything_is_told_in_the_singular() -> None:
    clock, output = Clock(), io.StringIO()
    progress = Progress("copy", output, clock=clock)
    clock.now += 1
    progress.batch_done(0, Counts(figures={"files": 1, "dead letters": 2}))
    progress.query_progressed(told(0, rows=1, latest=101))
    progress.finish()
    batch, summary = output.getvalue().splitlines()
    assert batch.endswith("copy: batch 0 · 1 row/s in · 2.5 s · lag 1 record · 1 file · 2 dead letters")
    assert summary == "copy done: 1 batch, 1 row in, 1 file, 2 dead letters, 1.0 s (1 row/s)"


def test_a_log_is_not_told_what_is_waited_for() -> None:
    output = io.StringIO()
    with status("copy: starting Spark", output):
        Progress("copy", output).waits()
    assert output.getvalue() == ""


def test_who_has_closed_the_terminal_is_not_a_reason_to_fail() -> None:
    progress = Progress("copy", Closed())
    progress.batch_done(0, Counts())
    progress.query_progressed(told(0))
    assert progress.finish().rows_in == 100


def test_a_trigger_without_a_batch_is_not_told() -> None:
    output = io.StringIO()
    progress = Progress("copy", output)
    progress.query_progressed(told(0, rows=0))
    assert output.getvalue() == ""
    assert progress.finish().batches == 0


@pytest.mark.parametrize(
    ("source", "rows", "expected"),
    [
        ({"startOffset": {"t": {"0": 5, "1": 0}}, "endOffset": {"t": {"0": 10, "1": 5}}}, 20, 10),  # read twice
        ({"startOffset": {"t": {"0": 5}}, "endOffset": {"t": {"0": 10}}}, 3, 3),  # compaction took two
        ({"startOffset": None, "endOffset": {"t": {"0": 10}}}, 7, 7),  # the first batch does not tell
        ({"startOffset": json.dumps({"t": {"0": 5}}), "endOffset": json.dumps({"t": {"0": 10}})}, 9, 5),  # as text
        ({"startOffset": 5, "endOffset": 10}, 7, 7),  # not Kafka's
    ],
)
def test_rows_that_were_read(source: dict[str, Any], rows: int, expected: int) -> None:
    assert rows_read({"numInputRows": rows, "sources": [source]}) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"endOffset": {"t": {"0": 4, "1": 10}}, "latestOffset": {"t": {"0": 9, "1": 10}}}, 5),
        ({"endOffset": {"t": {"0": 4}}, "latestOffset": {"t": {"0": 3}}}, 0),  # planned before, and asked again since
        ({"endOffset": {"t": {"0": 4}}, "latestOffset": None}, None),
        ({"endOffset": 4, "latestOffset": 5}, None),  # not Kafka's
    ],
)
def test_lag_in_records(source: dict[str, Any], expected: int | None) -> None:
    assert lag_records({"sources": [source]}) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.04, "0.0 s"), (9.96, "10.0 s"), (59.4, "59 s"), (61, "1m 1s"), (7260, "2h 1m"), (90000, "1d 1h")],
)
def test_a_span_of_time_is_told_in_two_units(seconds: float, expected: str) -> None:
    assert span(seconds) == expected
