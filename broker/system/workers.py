"""Threads for blocking system calls: fsync and unlink release the GIL, so the loop goes on meanwhile."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from barnabas.base.promise import Promise
from barnabas.broker.system.loop import Loop

_Job = tuple[Callable[[], Any], Promise[Any]]
T = TypeVar("T")


class JobEnded(Exception):
    """A job raised something that is no Exception, such as SystemExit: its thread goes on, and its promise fails."""


class ThreadWorkers:
    """At most `size` threads, each started when there is work that no idle one can take."""

    def __init__(self, loop: Loop, size: int = 4, name: str = "barnabas-worker") -> None:
        self._loop = loop
        self._size = size
        self._name = name
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    def run(self, job: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()
        self._unfinished += 1
        self._loop.jobs += 1
        if self._unfinished > len(self._threads) and len(self._threads) < self._size:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put((job, promise))
        return promise

    def close(self) -> None:
        """Waits for the jobs that were given; their promises are not settled any more once the loop has stopped."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def abandon(self) -> None:
        """Lets the threads end without waiting for them: what a job still waits for may take long, and nobody asks."""
        for _ in self._threads:
            self._queue.put(None)

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            job, promise = item
            settle: Callable[[Any], None] = promise.resolve
            try:
                outcome = job()
            except Exception as error:
                settle, outcome = promise.fail, error
            except BaseException as raised:
                settle, outcome = promise.fail, _ended_by(raised)
            self._loop.call_from_thread(self._finished, settle, outcome)

    def _finished(self, settle: Callable[[Any], None], outcome: Any) -> None:
        self._unfinished -= 1
        self._loop.jobs -= 1
        settle(outcome)


def _ended_by(raised: BaseException) -> JobEnded:
    error = JobEnded(repr(raised))
    error.__cause__ = raised
    return error
