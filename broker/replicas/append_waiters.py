"""Appends that wait until their partition has come as far as they have.

- They wait in the order in which they were made, and leave in that order.
- All of them share one timer, for the deadline that comes first: a timer for each would cost as much as an append.
"""

from collections import deque
from typing import Protocol

from barnabas.base.environment import Clock, Timer
from barnabas.base.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError, NotEnoughReplicasAfterAppend

_NEVER = float("inf")


class AppendWaiter(Protocol):
    def on_append_done(self, error: KafkaError | None) -> None:
        """Is called once: the append may be acknowledged, or answered with this error."""
        ...


class Committed(Promise[None]):
    """A promise that waits like an append. Whoever appended it looked at the in-sync replicas then."""

    __slots__ = ()

    def on_append_done(self, error: KafkaError | None) -> None:
        if error is None or isinstance(error, NotEnoughReplicasAfterAppend):
            self.resolve(None)
        else:
            self.fail(error)


_Waiting = tuple[int, float, AppendWaiter]
"""The last offset, the deadline and the one who waits. Every append with acks=-1 makes one: a plain tuple is made in a
third of the time that a named one takes."""


class AppendWaiters:
    __slots__ = ("_clock", "_due_ms", "_timer", "waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: deque[_Waiting] = deque()
        self._timer: Timer | None = None
        self._due_ms = _NEVER

    def add(self, last_offset: int, waiter: AppendWaiter, timeout_ms: float = _NEVER) -> None:
        """Keeps the waiter until its last offset is reached, or fails it with REQUEST_TIMED_OUT."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self.waiting.append((last_offset, deadline_ms, waiter))
        if deadline_ms < self._due_ms:
            self._expire_at(deadline_ms)

    def reached(self, offset: int, error: KafkaError | None = None) -> None:
        """Lets those go whose last offset lies below this one."""
        waiting = self.waiting
        while waiting and waiting[0][0] < offset:
            waiting.popleft()[2].on_append_done(error)

    def fail(self, error: KafkaError) -> None:
        waiting, self.waiting = self.waiting, deque()
        for _, _, waiter in waiting:
            waiter.on_append_done(error)

    def _expire_at(self, deadline_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_ms = deadline_ms
        self._timer = self._clock.call_later(max(0, deadline_ms - self._clock.monotonic_ms()), self._expire)

    def _expire(self) -> None:
        """Fails those who are due. The timer may have been set for one that left long ago."""
        self._timer, self._due_ms = None, _NEVER
        now_ms = self._clock.monotonic_ms()
        late = [waiter for _, deadline_ms, waiter in self.waiting if deadline_ms <= now_ms]
        self.waiting = deque(one for one in self.waiting if one[1] > now_ms)
        next_ms = min((deadline_ms for _, deadline_ms, _ in self.waiting), default=_NEVER)
        if next_ms != _NEVER:
            self._expire_at(next_ms)
        for waiter in late:
            waiter.on_append_done(too_late_error())


def too_late_error() -> KafkaError:
    return KafkaError("not committed within the request's timeout", ErrorCode.REQUEST_TIMED_OUT)
