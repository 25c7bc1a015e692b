"""Compaction in a process of its own: it shares no lock with the loop, and what happens to it happens to nobody else.

The process is started when there is something to compact and ends when there has been nothing for a while. It ends with
the broker, however that ends: its standard input is closed then. Killing it only leaves its job undone.
"""

import os
import sys
from typing import TYPE_CHECKING

from barnabas.base.network import READ
from barnabas.base.promise import Promise
from barnabas.broker.system.loop import Loop
from barnabas.broker.system.workers import ThreadWorkers
from barnabas.storage.compaction.cleaner import OnCleaned, OnDone

if TYPE_CHECKING:
    from subprocess import Popen

    from barnabas.broker.system.loop import Timer
    from barnabas.storage.compaction.job import CompactionJob, CompactionStats

_IDLE_MS = 10_000
_READ_BYTES = 65_536
_ENDED = "the process that did it ended"
_MODULE = "barnabas.broker.system.compaction_worker"


class CompactionProcess:
    """A `Compactor`. The loop reads what the process writes; a worker starts it and writes to it, which may block."""

    def __init__(self, loop: Loop, workers: ThreadWorkers) -> None:
        self._loop = loop
        self._workers = workers
        self._process: Popen[bytes] | None = None
        self._received = b""
        self._callbacks: tuple[OnCleaned, OnDone] | None = None
        self._idle: Timer | None = None

    def start(self, job: "CompactionJob", on_cleaned: OnCleaned, on_done: OnDone) -> None:
        callbacks = self._callbacks = (on_cleaned, on_done)
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
        if process is not None:
            self._loop.unregister(_output(process))

        def given(started: "Promise[Popen[bytes] | None]") -> None:
            process = started.value if started.error is None else None
            if self._callbacks is not callbacks:
                self._end(process)
            elif process is None:
                self._finish(None, started.error)
            else:
                self._process = process
                self._loop.register(_output(process), READ, self._read)

        def give() -> "Popen[bytes] | None":
            started = _given(process, job)
            if self._callbacks is callbacks:
                return started
            _reap(started)  # cancelled meanwhile, perhaps because the loop stops and would not hear of it any more
            return None

        self._workers.run(give).when_done(given)

    def cancel(self) -> None:
        self._callbacks = None
        self._stop()

    def _stop(self) -> None:
        process, self._process = self._process, None
        self._received = b""
        if process is not None:
            self._loop.unregister(_output(process))
            self._end(process)

    def _end(self, process: "Popen[bytes] | None") -> None:
        """Kills the process, whether or not it is gone already: it writes nothing more."""
        if process is not None:
            process.kill()
            self._workers.run(lambda: _reap(process))

    def _read(self, _events: int) -> None:
        if self._process is None:
            return  # it was given up earlier in this turn
        data = os.read(_output(self._process), _READ_BYTES)
        if not data:
            self._died()
            return
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            self._answered(line)

    def _died(self) -> None:
        from barnabas.storage.compaction.job import CompactionFailed

        self._stop()
        self._finish(None, CompactionFailed(_ENDED, is_corrupt=False))

    def _answered(self, line: bytes) -> None:
        import json

        from barnabas.storage.compaction.job import CleanedSegment, CompactionFailed, CompactionStats

        if self._callbacks is None:
            return
        answer = json.loads(line)
        if "cleaned" in answer:
            base_offset, replaced, *sizes = answer["cleaned"]
            self._callbacks[0](CleanedSegment(base_offset, tuple(replaced), *sizes))
        elif "done" in answer:
            self._finish(CompactionStats(*answer["done"]), None)
        elif "corrupt" in answer:
            self._finish(None, CompactionFailed(answer["corrupt"], is_corrupt=True))
        else:
            self._finish(None, CompactionFailed(answer["failed"], is_corrupt=False, error_number=answer["errno"]))

    def _finish(self, stats: "CompactionStats | None", error: Exception | None) -> None:
        callbacks, self._callbacks = self._callbacks, None
        if self._process is not None:
            self._idle = self._loop.call_later(_IDLE_MS, self._stop)
        if callbacks is not None:
            callbacks[1](stats, error)


def _given(process: "Popen[bytes] | None", job: "CompactionJob") -> "Popen[bytes]":
    """Gives the process the job. Starts a new process if there is none, or if it is gone."""
    from barnabas.broker.system.compaction_worker import encode_job

    line = encode_job(job)
    if process is not None:
        try:
            return _written(process, line)
        except BrokenPipeError:
            _reap(process)
    process = _started()
    try:
        return _written(process, line)
    except BrokenPipeError:
        from barnabas.storage.compaction.job import CompactionFailed

        _reap(process)
        raise CompactionFailed(_ENDED, is_corrupt=False) from None


def _started() -> "Popen[bytes]":
    from subprocess import PIPE, Popen

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "random"}
    return Popen([sys.executable, "-m", _MODULE], stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True)


def _written(process: "Popen[bytes]", line: bytes) -> "Popen[bytes]":
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()
    return process


def _reap(process: "Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def _output(process: "Popen[bytes]") -> int:
    assert process.stdout is not None
    return process.stdout.fileno()
