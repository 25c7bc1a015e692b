"""Reports on a running query: a line that follows its batches, and a summary at the end.

On a terminal the line is written over itself; elsewhere it is a line now and then, for a log.

- rows in and out per second: of the time since the batch before, so a query that keeps up shows the rate of arrival
- lag in records: what the topics held beyond the batch when it was planned
- lag in seconds: the age of the newest record of the batch, while there is lag in records
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TextIO

NEWEST = "barnabas_newest"
"""The observed metric with the timestamp of the newest record of a batch."""

LOG_INTERVAL_S = 10.0
REDRAW_INTERVAL_S = 1.0
CLEAR = "\r\x1b[K"


@contextmanager
def status(text: str, output: TextIO | None = None) -> Iterator[None]:
    """Shows what the job waits for, while it does; on a terminal only."""
    output = output or sys.stderr
    in_place = output.isatty()
    if in_place:
        _write(output, f"{CLEAR}{text} …")
    try:
        yield
    finally:
        if in_place:
            _write(output, CLEAR)


def say(text: str, output: TextIO | None = None) -> None:
    """Writes a line that stays, in place of a status."""
    output = output or sys.stderr
    _write(output, f"{CLEAR}{text}\n" if output.isatty() else f"{text}\n")


def _write(output: TextIO, text: str) -> None:
    """Writes to stderr, unless it is closed."""
    try:
        output.write(text)
        output.flush()
    except (OSError, ValueError):
        pass


@dataclass
class Counts:
    """What a job knows better than Spark about one batch: its rows, and figures of its own by name."""

    rows_in: int | None = None
    rows_out: int | None = None
    figures: dict[str, int] = field(default_factory=dict)


@dataclass
class Summary:
    name: str
    batches: int = 0
    rows_in: int = 0
    rows_out: int | None = None
    """None if the job does not report it."""
    figures: dict[str, int] = field(default_factory=dict)
    elapsed_s: float = 0.0
    stopped: bool = False
    """Whether Ctrl-C or SIGTERM ended the run before all was read."""

    def line(self) -> str:
        rate = self.rows_in / self.elapsed_s if self.elapsed_s else 0.0
        parts = [
            f"{self.batches:,} batch{'' if self.batches == 1 else 'es'}",
            f"{plural(self.rows_in, 'row')} in",
            *([] if self.rows_out is None else [f"{self.rows_out:,} out"]),
            *_figures(self.figures),
            f"{span(self.elapsed_s)} ({plural(round(rate), 'row')}/s)",
        ]
        return f"{self.name} {'stopped' if self.stopped else 'done'}: {', '.join(parts)}"


class Progress:
    """A job may extend it: `query_progressed` gets every StreamingQueryProgress as Spark's JSON has it."""

    def __init__(
        self,
        name: str,
        output: TextIO | None = None,
        *,
        clock: Callable[[], float] = time.time,
        interval_s: float = LOG_INTERVAL_S,
    ) -> None:
        self.summary = Summary(name)
        self._output = output or sys.stderr
        self._in_place = self._output.isatty()
        self._clock = clock
        self._interval_s = REDRAW_INTERVAL_S if self._in_place else interval_s
        self._began = self._batch_ended = clock()
        self._told = float("-inf")
        self._last_batch = ""
        self._counts: dict[int, Counts] = {}

    def batch_done(self, batch_id: int, counts: Counts) -> None:
        """Counts a batch, in the thread that runs it, before Spark reports it."""
        self._counts[batch_id] = counts
        self.summary.batches += 1
        if counts.rows_out is not None:
            self.summary.rows_out = (self.summary.rows_out or 0) + counts.rows_out
        for name, figure in counts.figures.items():
            self.summary.figures[name] = self.summary.figures.get(name, 0) + figure

    def query_progressed(self, progress: dict[str, Any]) -> None:
        counts = self._counts.pop(progress["batchId"], None)
        if counts is None:
            return  # nothing was there to do
        rows_in = rows_read(progress) if counts.rows_in is None else counts.rows_in
        self.summary.rows_in += rows_in
        now = self._clock()
        elapsed_s = max(now - self._batch_ended, 0.001)
        self._batch_ended = now
        parts = [
            f"batch {progress['batchId']}",
            f"{plural(round(rows_in / elapsed_s), 'row')}/s in",
            *([] if counts.rows_out is None else [f"{counts.rows_out / elapsed_s:,.0f} out"]),
            span(progress["durationMs"].get("triggerExecution", 0) / 1000),
            *_lag(progress, now),
            *_watermark(progress),
            *_figures(self.summary.figures),
        ]
        self._last_batch = " · ".join(parts)
        self._tell(now, f"{self.summary.name}: {self._last_batch}")

    def batch_runs(self, batch_id: int, for_s: float) -> None:
        """Shows that a long batch is still running; on a terminal only."""
        if self._in_place and for_s >= REDRAW_INTERVAL_S:
            before = f" · {self._last_batch}" if self._last_batch else ""
            self._tell(self._clock(), f"{self.summary.name}: batch {batch_id} runs for {span(for_s)}{before}")

    def waits(self) -> None:
        """Shows that the job waits for the first batch; on a terminal only."""
        if self._in_place:
            self._write(f"{CLEAR}{self.summary.name}: waiting for the first batch …")

    def say(self, text: str) -> None:
        say(text, self._output)

    def finish(self, *, stopped: bool = False) -> Summary:
        self.summary.elapsed_s = self._clock() - self._began
        self.summary.stopped = stopped
        self.say(self.summary.line())
        return self.summary

    def abandon(self) -> None:
        """Leaves the terminal's line to what has to be said instead."""
        if self._in_place:
            self._write(CLEAR)

    def _tell(self, now: float, line: str) -> None:
        if now - self._told < self._interval_s:
            return
        self._told = now
        if self._in_place:
            width = self._columns() - 1  # the last column would wrap on some terminals
            self._write(CLEAR + (line if len(line) <= width else f"{line[: width - 1]}…"))
        else:
            self._write(f"{datetime.fromtimestamp(now).astimezone().isoformat(timespec='seconds')} {line}\n")

    def _columns(self) -> int:
        """Returns the width of the terminal that is written to: stdout may be a file."""
        try:
            return os.get_terminal_size(self._output.fileno()).columns
        except (OSError, ValueError):
            return shutil.get_terminal_size().columns

    def _write(self, text: str) -> None:
        _write(self._output, text)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def span(seconds: float) -> str:
    """Shows seconds in the two largest units that say something."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes}m {int(seconds % 60)}s"
    return f"{hours}h {minutes % 60}m" if days < 1 else f"{days}d {hours % 24}h"


def rows_read(progress: dict[str, Any]) -> int:
    """Counts by offsets if need be: Spark counts a row again each time a job reads the batch."""
    spans = [
        (_total(source["endOffset"]) - _total(source["startOffset"]))
        for source in progress["sources"]
        if _offsets(source.get("startOffset")) and _offsets(source.get("endOffset"))
    ]
    rows: int = progress["numInputRows"]
    return min(rows, sum(spans)) if len(spans) == len(progress["sources"]) else rows


def lag_records(progress: dict[str, Any]) -> int | None:
    """Returns None if no source reports offsets by topic and partition, as Kafka's does."""
    behind = [
        _total(source.get("latestOffset")) - _total(source.get("endOffset"))
        for source in progress["sources"]
        if _offsets(source.get("latestOffset")) and _offsets(source.get("endOffset"))
    ]
    return max(0, sum(behind)) if behind else None


def newest_timestamp_s(progress: dict[str, Any]) -> float | None:
    observed = progress.get("observedMetrics", {}).get(NEWEST, {}).get("newest_ms")
    return None if observed is None else float(observed) / 1000


def _lag(progress: dict[str, Any], now: float) -> list[str]:
    records = lag_records(progress)
    if records is None:
        return []
    newest_s = newest_timestamp_s(progress)
    if records == 0:
        return ["no lag"]
    return [f"lag {plural(records, 'record')}" + ("" if newest_s is None else f", {span(max(0.0, now - newest_s))}")]


def _watermark(progress: dict[str, Any]) -> list[str]:
    watermark = progress.get("eventTime", {}).get("watermark")
    return [] if watermark is None or watermark.startswith("1970-") else [f"watermark {watermark}"]


def _figures(figures: dict[str, int]) -> list[str]:
    told = {name: figure for name, figure in figures.items() if figure}
    return [f"{figure:,} {name.removesuffix('s') if figure == 1 else name}" for name, figure in told.items()]


def _offsets(told: Any) -> dict[str, dict[str, int]]:
    """Returns {topic: {partition: offset}}, which comes as an object or as its text."""
    value = json.loads(told) if isinstance(told, str) else told
    return value if isinstance(value, dict) else {}


def _total(told: Any) -> int:
    return sum(sum(partitions.values()) for partitions in _offsets(told).values())
