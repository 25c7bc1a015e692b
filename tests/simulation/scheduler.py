"""Virtual time, and the order of everything that could happen at once.

Rules:
- Time is a number of microseconds. It moves only from one event to the next.
- Of events at the same instant any may come first. Whoever schedules one draws its place from randomness of its own, so
  that an event less somewhere does not reshuffle all others.
- The same seed gives the same events in the same order, whatever the hash seed of the process is: nothing here is in
  the order of a set, or of addresses in memory.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from tests.simulation.trace import Trace

MS = 1_000
SECOND = 1_000_000


def random_of(seed: int, who: str, use: str) -> Random:
    """Randomness for one purpose: what others draw does not change it."""
    return Random(f"{seed}/{who}/{use}")


class Scheduler:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.events = 0
        """How many have happened."""
        self.trace = Trace(self)
        self._heap: list[tuple[int, float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._scheduled = 0

    def at(self, when_us: int, random: Random, callback: Callable[..., None], *args: Any) -> None:
        assert when_us >= self.now_us, "nothing happens in the past"
        self._scheduled += 1
        heappush(self._heap, (when_us, random.random(), self._scheduled, callback, args))

    def step(self) -> bool:
        """Lets the next event happen; returns False if there is none."""
        if not self._heap:
            return False
        self.now_us, _, _, callback, args = heappop(self._heap)
        self.events += 1
        callback(*args)
        return True

    def run_until(self, end_us: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, _, callback, args = heappop(heap)
            self.events += 1
            callback(*args)
        self.now_us = max(self.now_us, end_us)

    def run_for(self, duration_ms: float) -> None:
        self.run_until(self.now_us + int(duration_ms * MS))

    def run_until_true(
        self, condition: Callable[[], bool], *, within_ms: float, what: str, looks_every_ms: float = 0
    ) -> None:
        """Lets events happen until the condition holds. Raises AssertionError if it does not become true in time. One
        that is costly is not looked at after every event."""
        end_us = self.now_us + int(within_ms * MS)
        while not condition():
            is_late = not self._heap or self._heap[0][0] > end_us
            assert not is_late, f"not within {within_ms / 1_000:g} s: {what}"
            self.step()
            if looks_every_ms:
                self.run_until(min(self.now_us + int(looks_every_ms * MS), end_us))
