"""A light queue of events in milliseconds, for runs that are over in a few milliseconds of CPU.

The same seed gives the same events in the same order: of those at one instant, the seed decides which comes first.
"""

from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any


class Events:
    def __init__(self, seed: int) -> None:
        self.now_ms = 0
        self.count = 0
        """How many have happened."""
        self.random = Random(seed)
        self.lines: list[tuple[int, str, tuple[object, ...]]] = []
        self._heap: list[tuple[int, float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0

    def after(self, delay_ms: int, callback: Callable[..., None], *args: Any) -> None:
        self._scheduled += 1
        heappush(self._heap, (self.now_ms + delay_ms, self.random.random(), self._scheduled, callback, args))

    def in_order(self, at_ms: int, callback: Callable[..., None], *args: Any) -> None:
        """Schedules what must come after all that was scheduled so for the same instant: the bytes of a stream."""
        self._scheduled += 1
        heappush(self._heap, (at_ms, 1.0, self._scheduled, callback, args))

    def run_until(self, end_ms: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_ms:
            self.now_ms, _, _, callback, args = heappop(heap)
            self.count += 1
            callback(*args)
        self.now_ms = max(self.now_ms, end_ms)

    def run_until_true(self, condition: Callable[[], bool], *, within_ms: int) -> bool:
        """Lets events happen until the condition holds; returns False if it does not become true in time."""
        end_ms = self.now_ms + within_ms
        while not condition():
            if not self._heap or self._heap[0][0] > end_ms:
                return False
            self.now_ms, _, _, callback, args = heappop(self._heap)
            self.count += 1
            callback(*args)
        return True

    # ---- the story

    def tell(self, what: str, *args: object) -> None:
        """Keeps a line of the story: a format string, and values that do not change."""
        self.lines.append((self.now_ms, what, args))

    def text(self, last: int | None = None) -> str:
        lines = self.lines if last is None else self.lines[-last:]
        return "\n".join(f"{now_ms:7d} ms  {what.format(*args)}" for now_ms, what, args in lines)

    def hash(self) -> str:
        """Two runs with the same hash told the same story, in as many events."""
        return blake2b(repr((self.count, self.now_ms, self.lines)).encode(), digest_size=16).hexdigest()
