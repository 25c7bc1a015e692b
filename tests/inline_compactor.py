"""Compaction step by step in workers of this process: for tests and simulations, which decide when a step is done."""

import threading

from barnabas.base.environment import Workers
from barnabas.base.files import Files
from barnabas.base.promise import Promise
from barnabas.protocol.errors import CorruptMessage, ProtocolError
from barnabas.storage.compaction.cleaner import OnCleaned, OnDone
from barnabas.storage.compaction.job import CleanedSegment, CompactionFailed, CompactionJob


class InlineCompactor:
    """A step is one cleaned segment."""

    def __init__(self, files: Files, workers: Workers) -> None:
        self._files = files
        self._workers = workers
        self._lock = threading.Lock()
        self._job: CompactionJob | None = None

    def start(self, job: CompactionJob, on_cleaned: OnCleaned, on_done: OnDone) -> None:
        from barnabas.storage.compaction.compaction import Compaction

        self._job = job
        compaction = Compaction(self._files, job)
        steps = compaction.run()

        def step() -> CleanedSegment | None:
            with self._lock:
                return next(steps, None) if self._job is job else None

        def stepped(promise: Promise[CleanedSegment | None]) -> None:
            if self._job is not job:
                return
            if promise.error is not None:
                on_done(None, _failure(promise.error))
            elif promise.value is None:
                on_done(compaction.stats, None)
            else:
                on_cleaned(promise.value)
                self._workers.run(step).when_done(stepped)

        self._workers.run(step).when_done(stepped)

    def cancel(self) -> None:
        with self._lock:
            self._job = None


def _failure(error: Exception) -> Exception:
    is_corrupt = isinstance(error, (CorruptMessage, ProtocolError))
    return CompactionFailed(str(error), is_corrupt=True) if is_corrupt else error
