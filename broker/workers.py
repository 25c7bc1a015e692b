"""Threads for blocking system calls: fsync and unlink release the GIL, so the loop goes on meanwhile."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from barnabas.broker.loop import Loop

Then = Callable[[Any, BaseException | None], None]
_Job = tuple[Callable[[], Any], Then]


class ThreadWorkers:
    """At most `size` threads, each started when there is work that no idle one can take."""

    def __init__(self, loop: Loop, size: int = 4, name: str = "barnabas-worker") -> None:
        self._loop = loop
        self._size = size
        self._name = name
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    def run(self, job: Callable[[], Any], then: Then) -> None:
        self._unfinished += 1
        self._loop.jobs += 1
        if self._unfinished > len(self._threads) and len(self._threads) < self._size:
            thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put((job, then))

    def close(self) -> None:
        """Waits for the jobs that were given; their `then` is not called any more once the loop has stopped."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            job, then = item
            try:
                result, error = job(), None
            except BaseException as raised:
                result, error = None, raised
            self._loop.call_from_thread(self._finished, then, result, error)

    def _finished(self, then: Then, result: Any, error: BaseException | None) -> None:
        self._unfinished -= 1
        self._loop.jobs -= 1
        then(result, error)
