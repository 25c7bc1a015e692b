"""Time, workers and the report as values: they move only when a test moves them."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

Then = Callable[[Any, BaseException | None], None]


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._numbers = count()

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._soon.append(lambda: callback(*args))

    call_when_idle = call_soon

    def call_later(self, delay_ms: float, callback: Callable[..., None], *args: Any) -> FakeTimer:
        timer = FakeTimer(lambda: callback(*args))
        heappush(self._timers, (self._now_ms + delay_ms, next(self._numbers), timer))
        return timer

    def turn(self) -> None:
        """The end of the loop's turn: what was to be called soon is called."""
        while self._soon:
            self._soon.popleft()()

    def advance(self, delay_ms: int) -> None:
        end_ms = self._now_ms + delay_ms
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heappop(self._timers)
            self._now_ms = max(self._now_ms, int(due_ms))
            if timer.callback is not None:
                timer.callback()
            self.turn()
        self._now_ms = end_ms

    @property
    def pending_timers(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._timers)


class InlineWorkers:
    """Work is done before `run` returns."""

    def run(self, job: Callable[[], Any], then: Then) -> None:
        _do(job, then)


class QueuedWorkers:
    """Work waits until the test says that it is done."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Then]] = []

    def run(self, job: Callable[[], Any], then: Then) -> None:
        self.jobs.append((job, then))

    def do(self, number: int = 0) -> None:
        _do(*self.jobs.pop(number))

    def do_all(self) -> None:
        while self.jobs:
            self.do()


def _do(job: Callable[[], Any], then: Then) -> None:
    try:
        result = job()
    except Exception as error:
        then(None, error)
    else:
        then(result, None)


class FakeReport:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str, **fields: object) -> None:
        self.lines.append(f"info {text}")

    def warning(self, text: str, **fields: object) -> None:
        self.lines.append(f"warning {text}")

    def error(self, text: str, **fields: object) -> None:
        self.lines.append(f"error {text}")

    def having(self, part: str) -> list[str]:
        return [line for line in self.lines if part in line]
