"""Events for rollup, and the same windows computed in plain Python."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.pipelines.records import Record

NOON_S = 1_763_294_400  # 2025-11-16T12:00:00Z


class Event(NamedTuple):
    user: str
    second: int
    amount: float | None
    item: str = "tea"

    def record(self, partition: int) -> Record:
        value = {"at": NOON_S + self.second, "user": {"id": self.user}, "amount": self.amount, "item": self.item}
        return Record(value=json.dumps(value).encode(), partition=partition)


@dataclass
class Window:
    start: int
    end: int
    events: list[Event] = field(default_factory=list)

    def row(self, user: str) -> dict[str, Any]:
        """As the job gives it out."""
        amounts = sorted(event.amount for event in self.events if event.amount is not None)
        return {
            "window_start": NOON_S + self.start,
            "window_end": NOON_S + self.end,
            "user": user,
            "count": len(self.events),
            "amount_count": len(amounts),
            "amount_sum": sum(amounts) if amounts else None,
            "amount_min": amounts[0] if amounts else None,
            "amount_max": amounts[-1] if amounts else None,
            "amount_p50": amounts[math.ceil(0.5 * len(amounts)) - 1] if amounts else None,
            "item_distinct": len({event.item for event in self.events}),
        }


class Expected:
    """The rules of event time, in seconds after noon: give it batches in the order in which the job reads them."""

    def __init__(self, watermark: int, *, length: int = 0, slide: int = 0, gap: int = 0) -> None:
        self.delay, self.length, self.slide, self.gap = watermark, length, slide or length, gap
        self.watermark = -NOON_S
        self.late = self.partly_late = 0
        self.open: dict[str, list[Window]] = defaultdict(list)
        self.given_out: list[dict[str, Any]] = []

    def batch(self, events: Iterable[Event]) -> None:
        newest = self.watermark
        for event in events:
            newest = max(newest, event.second - self.delay)
            windows = [Window(*bounds) for bounds in self._bounds(event.second)]
            missed = [window for window in windows if window.end <= self.watermark]
            self.late += len(missed) == len(windows)
            self.partly_late += 0 < len(missed) < len(windows)
            for window in windows:
                if window.end > self.watermark:
                    window.events.append(event)
                    self._add(event.user, window)
        self.watermark = newest
        self._give_out()

    def _bounds(self, second: int) -> Iterator[tuple[int, int]]:
        if self.gap:
            yield second, second + self.gap
            return
        start = second - second % self.slide
        while start + self.length > second:
            yield start, start + self.length
            start -= self.slide

    def _add(self, user: str, window: Window) -> None:
        """Windows are the same if they have the same bounds; sessions grow together if they touch."""

        def same(other: Window) -> bool:
            if self.gap:
                return other.start <= window.end and window.start <= other.end
            return other.start == window.start

        merged = [window, *filter(same, self.open[user])]
        self.open[user] = [other for other in self.open[user] if not same(other)]
        start, end = min(each.start for each in merged), max(each.end for each in merged)
        self.open[user].append(Window(start, end, [event for each in merged for event in each.events]))

    def _give_out(self) -> None:
        for user, windows in self.open.items():
            closed = [window for window in windows if window.end <= self.watermark]
            self.given_out += [window.row(user) for window in closed]
            self.open[user] = [window for window in windows if window not in closed]


def by_window(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["window_start"], row["user"]))
