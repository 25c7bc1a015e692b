"""The event loop: sockets that are ready, timers that are due, calls from other threads. Nothing else.

It is smaller than the loop of asyncio and starts in no time, which is all a broker needs: there is no Task per request,
a handler is a plain call. Whatever waits is a callback here, so a simulator can put its own loop in this one's place.
"""

import heapq
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from barnabas.base.network import READ
from barnabas.broker.system.poller import Poller

Callback = Callable[..., None]
_COMPACT_ABOVE = 1_000
_BUSY_TURNS_MAX = 8
_SPIN_S = 100e-6  # a core that fell asleep takes about as long to wake up
_LONGEST_WAIT_S = 3_600  # the system takes no more than 24 days, and a timer may well be due after that


class Time(Protocol):
    """The functions of the module `time` that the loop uses. A test may hand in a time that it can move."""

    def time_ns(self) -> int: ...

    def monotonic(self) -> float: ...


def _nothing() -> None:
    pass


class Timer:
    """One entry of the heap. A cancelled one stays there until it is due or the heap is compacted."""

    __slots__ = ("args", "callback", "cancelled", "due", "earliest", "loop")

    def __init__(self, loop: "Loop", due: float, callback: Callback, args: tuple[Any, ...]) -> None:
        self.loop = loop
        self.due = due
        self.earliest = due
        """From when on it may be called, if the loop is awake."""
        self.callback = callback
        self.args = args
        self.cancelled = False

    def __lt__(self, other: "Timer") -> bool:
        return self.due < other.due

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self.callback, self.args = _nothing, ()  # what it would have called may go before it does
            self.loop.timer_cancelled()


class Loop:
    def __init__(
        self, on_error: Callable[[BaseException], None], *, system_time: Time = time, spins: bool = False
    ) -> None:
        """Takes `on_error`, which is called with an exception of a callback: our bug, which must not stop the others.

        A loop that spins looks a few times more before it goes to sleep, if its last wait was a short one and small
        requests were answered since: a client that sends one after the other is answered in two thirds of the time, and
        for no more CPU time than putting a core to sleep and waking it takes. Spin only in a process of your own:
        spinning holds the GIL.
        """
        self._on_error = on_error
        self._time_ns = system_time.time_ns
        self._monotonic = system_time.monotonic
        self._poller = Poller()
        self._timers: list[Timer] = []
        self._cancelled = 0
        self._soon: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._from_threads: deque[tuple[Callback, tuple[Any, ...]]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._wake_lock = threading.RLock()  # a signal may come while the handler of the one before holds it
        self._poller.register(self._wake_read, READ, self._drain_wake_ups)
        self._when_idle: list[tuple[Callback, tuple[Any, ...]]] = []
        self._busy_turns = 0
        self._spins = spins
        self._waited_briefly = False
        self.expects_more = False
        """Whether small requests came since the last wait: their clients may well send the next ones at once."""
        self.jobs = 0
        """The number of jobs of other threads that this loop waits for. It does not spin then: they need the GIL."""
        self._running = False
        self._is_closed = False

    # ---- time

    def now_ms(self) -> int:
        return self._time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return int(self._monotonic() * 1_000)

    def call_later(self, delay_ms: float, callback: Callback, *args: Any) -> Timer:
        timer = Timer(self, self._monotonic() + delay_ms / 1_000, callback, args)
        heapq.heappush(self._timers, timer)
        return timer

    def call_when_awake(self, delay_ms: float, callback: Callback, *args: Any) -> Timer:
        timer = self.call_later(delay_ms * 9 / 8, callback, *args)
        timer.earliest -= delay_ms / 8_000
        return timer

    def call_soon(self, callback: Callback, *args: Any) -> None:
        self._soon.append((callback, args))

    def call_when_idle(self, callback: Callback, *args: Any) -> None:
        """Calls back once a turn brings no more from sockets and threads, or after `_BUSY_TURNS_MAX` that did."""
        self._when_idle.append((callback, args))

    def call_from_thread(self, callback: Callback, *args: Any) -> None:
        """Calls back on the loop's thread. This is the only method that another thread may call."""
        self._from_threads.append((callback, args))
        with self._wake_lock:
            if self._is_closed:
                return  # nobody is left to hear it, and the descriptor may be another file's by now
            try:
                os.write(self._wake_write, b"\0")
            except BlockingIOError:
                pass  # the pipe is full of wake-ups already

    def timer_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _COMPACT_ABOVE and self._cancelled > len(self._timers) // 2:
            self._timers = [timer for timer in self._timers if not timer.cancelled]
            heapq.heapify(self._timers)
            self._cancelled = 0

    # ---- sockets

    def register(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        self._poller.register(fd, events, callback)

    def modify(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        self._poller.modify(fd, events, callback)

    def unregister(self, fd: int) -> None:
        self._poller.unregister(fd)

    # ---- running

    def run(self) -> None:
        """Runs until `stop` is called."""
        self._running = True
        while self._running:
            self.run_once()

    def run_once(self) -> None:
        ready = self._wait()
        for callback, events in ready:
            try:
                callback(events)
            except Exception as error:
                self._on_error(error)
        self._run_due_timers()
        self._run_queue(self._soon)
        if self._soon:  # what these have queued, such as sending an answer, before the sockets bring more
            self._run_queue(self._soon)
        if self._when_idle:
            self._call_if_idle(bool(ready))

    def _wait(self) -> list[tuple[Callable[[int], None], int]]:
        timeout = self._timeout()
        if timeout == 0 or not self._spins or self.jobs:
            return self._poller.poll(timeout)
        started = self._monotonic()
        expects_more, self.expects_more = self.expects_more, False
        if expects_more and self._waited_briefly:
            until = started + (_SPIN_S if timeout is None else min(timeout, _SPIN_S))
            while (now := self._monotonic()) < until:
                if ready := self._poller.poll(0):
                    return ready
            timeout = None if timeout is None else max(0.0, timeout - (now - started))
        ready = self._poller.poll(timeout)
        self._waited_briefly = self._monotonic() - started < _SPIN_S
        return ready

    def stop(self) -> None:
        self._running = False

    def close(self) -> None:
        with self._wake_lock:
            self._is_closed = True
            self._poller.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _timeout(self) -> float | None:
        if self._soon or self._when_idle:
            return 0
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
            self._cancelled -= 1
        return min(max(0.0, self._timers[0].due - self._monotonic()), _LONGEST_WAIT_S) if self._timers else None

    def _run_due_timers(self) -> None:
        timers = self._timers
        if not timers or timers[0].earliest > self._monotonic():
            return
        now = self._monotonic()
        while self._timers and self._timers[0].earliest <= now:
            timer = heapq.heappop(self._timers)
            if timer.cancelled:
                self._cancelled -= 1
            else:
                timer.cancelled = True  # a cancel after this must not be counted
                self._call(timer.callback, timer.args)

    def _run_queue(self, queue: deque[tuple[Callback, tuple[Any, ...]]]) -> None:
        """Runs what is in the queue now: a callback that queues another must not keep the sockets waiting."""
        for _ in range(len(queue)):
            self._call(*queue.popleft())

    def _call_if_idle(self, is_busy: bool) -> None:
        if is_busy and self._busy_turns < _BUSY_TURNS_MAX:
            self._busy_turns += 1
            return
        self._busy_turns = 0
        waiting, self._when_idle = self._when_idle, []
        for callback, args in waiting:
            self._call(callback, args)

    def _call(self, callback: Callback, args: tuple[Any, ...]) -> None:
        try:
            callback(*args)
        except Exception as error:
            self._on_error(error)

    def _drain_wake_ups(self, _events: int) -> None:
        try:
            os.read(self._wake_read, 4_096)
        except BlockingIOError:
            pass
        self._run_queue(self._from_threads)
