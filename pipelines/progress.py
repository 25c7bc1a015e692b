"""What a running query tells: a line per batch, and a summary at the end."""

import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO


@dataclass
class Counts:
    """What a job knows better than Spark about one batch: rows out, and figures of its own by name."""

    rows_in: int | None = None
    rows_out: int | None = None
    figures: dict[str, int] = field(default_factory=dict)


@dataclass
class Summary:
    name: str
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    elapsed_s: float = 0.0
    stopped: bool = False
    """By Ctrl-C or SIGTERM, not because all was read."""


class Progress:
    def __init__(self, name: str, output: TextIO | None = None) -> None:
        self.summary = Summary(name)
        self.output = output or sys.stderr
        self._began = time.monotonic()

    def batch_done(self, counts: Counts) -> None:
        self.summary.batches += 1
        self.summary.rows_out += counts.rows_out or 0
        for name, figure in counts.figures.items():
            self.summary.figures[name] = self.summary.figures.get(name, 0) + figure

    def query_progressed(self, progress: dict[str, Any]) -> None:
        self.summary.rows_in += progress["numInputRows"]
        print(f"{self.summary.name}: batch {progress['batchId']}, {progress['numInputRows']} rows", file=self.output)

    def finish(self) -> Summary:
        self.summary.elapsed_s = time.monotonic() - self._began
        return self.summary
