"""Threads of a simulated process. A job runs at some instant after it was given, its result arrives some time later.

Between these a kill may fall: the job was done, and nobody knows. Jobs overtake each other, as fsyncs of several files
do. A `Crash` inside a job is the end of the process.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from barnabas.base.promise import Promise
from tests.simulation.files import Crash
from tests.simulation.loop import SimulatedLoop
from tests.simulation.scheduler import MS

T = TypeVar("T")


class SimulatedWorkers:
    def __init__(
        self,
        loop: SimulatedLoop,
        random: Random,
        *,
        duration_ms_max: float = 4,
        threads: int = 4,
    ) -> None:
        self.duration_ms_max = duration_ms_max
        """A job takes at most this long, from the moment at which a thread is free for it."""
        self.unfinished = 0
        self._loop = loop
        self._random = random
        self._waiting: deque[tuple[Callable[[], Any], Promise[Any]]] = deque()
        self._free_threads = threads

    def run(self, job: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()
        self.unfinished += 1
        if self._free_threads:
            self._free_threads -= 1
            self._take(job, promise)
        else:
            self._waiting.append((job, promise))
        return promise

    def _take(self, job: Callable[[], Any], promise: Promise[Any]) -> None:
        scheduler, duration_us = self._loop.scheduler, self.duration_ms_max * MS
        begin_us = scheduler.now_us + int(self._random.random() * duration_us)
        end_us = begin_us + int(self._random.random() * duration_us)
        scheduler.at(begin_us, self._random, self._do, end_us, job, promise)

    def _do(self, end_us: int, job: Callable[[], Any], promise: Promise[Any]) -> None:
        if self._loop.is_dead:
            return
        error: Exception | None = None
        result = None
        try:
            result = job()
        except Crash:
            if self._loop.on_crash is None:
                raise
            return self._loop.on_crash()
        except Exception as raised:
            error = raised
        self._loop.scheduler.at(end_us, self._random, self._done, promise, result, error)

    def _done(self, promise: Promise[Any], result: Any, error: Exception | None) -> None:
        if self._loop.is_dead:
            return
        if self._waiting:
            self._take(*self._waiting.popleft())
        else:
            self._free_threads += 1
        self._loop.call_from_thread(self._tell, promise, result, error)

    def _tell(self, promise: Promise[Any], result: Any, error: Exception | None) -> None:
        self.unfinished -= 1
        if error is not None:
            promise.fail(error)
        else:
            promise.resolve(result)
