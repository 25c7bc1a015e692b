"""What the nodes of a cluster share: the thread that they run on, the network between them, and the time."""

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from barnabas.base.environment import Report, report_bug
from barnabas.base.promise import Promise, resolved
from barnabas.testing.calls import TIMEOUT_S, call_and_wait
from barnabas.testing.loops import Loops
from barnabas.testing.movable_time import MovableTime
from barnabas.testing.network import Hub

T = TypeVar("T")
_STEP_S = 0.5
"""How far the clocks of a cluster may move before its nodes have heard from each other again: less than the shortest of
the times after which they give each other up."""
_STEPS_S_MAX = 60.0
_AFTER_JUMP_S = 10.0
_QUIET_TURNS = 2
_TURNS_MAX = 300
_JOB_MS = 0.5


class Runtime:
    def __init__(self, hub: Hub, report: Report) -> None:
        """Starts the thread."""
        self.hub = hub
        self.report = report
        self.time = MovableTime()
        self.loops = Loops(partial(report_bug, report), system_time=self.time)
        self._thread = threading.Thread(target=self.loops.run, name="barnabas-cluster", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.loops.call_from_thread(self.loops.stop)
        self._thread.join()
        self.loops.close()

    # ---- calls from the test's thread

    def ask(self, ask: Callable[[], Promise[T]], what: str, timeout_s: float = TIMEOUT_S) -> T:
        """Calls on the nodes' thread, and waits for the promise."""
        return call_and_wait(self.loops.call_from_thread, ask, what, timeout_s)

    def call(self, function: Callable[[], T]) -> T:
        """Calls on the nodes' thread; returns what the function returns."""
        return self.ask(lambda: resolved(function()), "the thread of the cluster did not answer")

    def wait_until(self, is_so: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Returns when `is_so`, which is called on the nodes' thread after each of its turns, has returned True."""
        self.ask(lambda: self.loops.until(is_so), what, timeout_s)

    def advance(self, seconds: float) -> None:
        """Moves the clocks of all nodes. They move in steps, and between them the nodes hear from each other: otherwise
        each would think that the others had been silent all the time. What is longer than a minute begins with a
        jump."""
        jump_s = seconds - _AFTER_JUMP_S if seconds > _STEPS_S_MAX else 0.0
        self.time.ahead_s += jump_s
        self.ask(lambda: _Steps(self.loops, self.time, seconds - jump_s).done, "the clocks did not arrive")


class _Steps:
    """Moves the time, a step whenever the nodes have done all that was due."""

    def __init__(self, loops: Loops, time: MovableTime, seconds: float) -> None:
        self.done: Promise[None] = Promise()
        self._loops = loops
        self._time = time
        self._left_s = seconds
        self._quiet = self._turns = 0
        loops.call_soon(self._turn)

    def _turn(self) -> None:
        self._turns += 1
        self._quiet = self._quiet + 1 if self._loops.is_quiet else 0
        if self._quiet >= _QUIET_TURNS or self._turns >= _TURNS_MAX:  # clients may never be quiet
            self._quiet = self._turns = 0
            if self._left_s <= 0:
                return self.done.resolve(None)
            step_s = min(self._left_s, _STEP_S)
            self._left_s -= step_s
            self._time.ahead_s += step_s
        if self._loops.has_jobs:
            self._loops.call_later(_JOB_MS, self._turn)  # other threads need the GIL
        else:
            self._loops.call_soon(self._turn)
