"""Fakes of what an environment holds, as values: they move only when a test moves them."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeVar

from barnabas.base.environment import Clock, Environment, Report, Workers
from barnabas.base.files import Files
from barnabas.base.network import Address, ServerSocket, SocketOptions, Transport
from barnabas.base.promise import Promise
from tests.inline_compactor import InlineCompactor

T = TypeVar("T")


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._soon: deque[Callable[[], None]] = deque()
        self._when_idle: list[Callable[[], None]] = []
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._numbers = count()
        self.expects_more = False
        self.correction_ms = 0
        """How far somebody has set the wall clock on, or back."""

    def now_ms(self) -> int:
        return self._now_ms + self.correction_ms

    def monotonic_ms(self) -> int:
        return self._now_ms

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self._soon.append(lambda: callback(*args))

    def call_when_idle(self, callback: Callable[..., None], *args: Any) -> None:
        self._when_idle.append(lambda: callback(*args))

    def call_later(self, delay_ms: float, callback: Callable[..., None], *args: Any) -> FakeTimer:
        timer = FakeTimer(lambda: callback(*args))
        heappush(self._timers, (self._now_ms + delay_ms, next(self._numbers), timer))
        return timer

    def call_when_awake(self, delay_ms: float, callback: Callable[..., None], *args: Any) -> FakeTimer:
        return self.call_later(delay_ms, callback, *args)

    def turn(self) -> None:
        """The end of the loop's turn: calls what was to be called soon and then, with nothing left to do, what waits
        for that."""
        while self._soon or self._when_idle:
            while self._soon:
                self._soon.popleft()()
            waiting, self._when_idle = self._when_idle, []
            for callback in waiting:
                callback()

    def advance(self, delay_ms: int) -> None:
        end_ms = self._now_ms + delay_ms
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heappop(self._timers)
            self._now_ms = max(self._now_ms, int(due_ms))
            if timer.callback is not None:
                timer.callback()
            self.turn()
        self._now_ms = end_ms

    def jump(self, delay_ms: int) -> None:
        """Like a process that did not run for so long: all timers that are due come at once, late."""
        self._now_ms += delay_ms
        self.advance(0)

    @property
    def pending_timers(self) -> int:
        return sum(timer.callback is not None for _, _, timer in self._timers)


class InlineWorkers:
    """Work is done before `run` returns."""

    def run(self, job: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()
        _do(job, promise)
        return promise


class QueuedWorkers:
    """Work waits until the test says that it is done."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Callable[[], Any], Promise[Any]]] = []

    def run(self, job: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()
        self.jobs.append((job, promise))
        return promise

    def do(self, number: int = 0) -> None:
        _do(*self.jobs.pop(number))

    def do_all(self) -> None:
        while self.jobs:
            self.do()


def _do(job: Callable[[], T], promise: Promise[T]) -> None:
    """Raises what is no Exception, such as a crash: with the process the promise is gone, too."""
    try:
        result = job()
    except Exception as error:
        promise.fail(error)
    else:
        promise.resolve(result)


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


class NoNetwork:
    """For what never leaves its process."""

    def bind(self, host: str, port: int, options: SocketOptions) -> ServerSocket:
        raise AssertionError(f"nobody listens here, on {host}:{port}")

    def connect(self, address: Address) -> Transport:
        raise AssertionError(f"nobody connects here, to {address}")


def fake_environment(
    files: Files,
    *,
    clock: Clock | None = None,
    workers: Workers | None = None,
    report: Report | None = None,
    seed: int = 0,
) -> Environment:
    """Everything that a broker's parts are handed: whatever is not named is a fake of its own."""
    workers = workers or InlineWorkers()
    return Environment(
        clock=clock or FakeClock(),
        network=NoNetwork(),
        files=files,
        workers=workers,
        random=Random(seed),
        report=report or FakeReport(),
        compactor=InlineCompactor(files, workers),
    )
