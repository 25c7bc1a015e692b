"""Deadlines, each under its key, all served by one timer of the loop.

- Moving a deadline to a later time costs a lookup and an assignment: every heartbeat does it. The entry in the
  heap stays where it is, and is put in again when it comes up too early.
- A deadline that is cancelled, or moves to an earlier time, leaves its old entry behind, which is dropped when it comes
  up, or earlier when most entries are such.
- The source of time is a parameter: the wall clock for times that are stored, the monotonic one for timeouts. A
  correction of the wall clock must not end a session.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from barnabas.base.environment import Clock, Timer

K = TypeVar("K", bound=Hashable)

_LEFT_BEHIND_MAX = 64


class _Deadline(Generic[K]):
    """`queued_ms` is when its entry in the heap comes up; `due_ms` is when it is due, and may have moved on since."""

    __slots__ = ("due_ms", "key", "queued_ms")

    def __init__(self, key: K, due_ms: int) -> None:
        self.key = key
        self.due_ms = self.queued_ms = due_ms

    def __lt__(self, other: "_Deadline[K]") -> bool:
        return self.queued_ms < other.queued_ms


class Deadlines(Generic[K]):
    __slots__ = ("_by_key", "_clock", "_fire", "_heap", "_now_ms", "_timer", "_timer_ms")

    def __init__(self, clock: Clock, now_ms: Callable[[], int], fire: Callable[[K, int, int], None]) -> None:
        """Calls `fire(key, due_ms, now_ms)` for everything that is due; it may set other deadlines. `now_ms` is
        `clock.now_ms` or `clock.monotonic_ms`."""
        self._clock = clock
        self._now_ms = now_ms
        self._fire = fire
        self._by_key: dict[K, _Deadline[K]] = {}
        self._heap: list[tuple[int, _Deadline[K]]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: K) -> bool:
        return key in self._by_key

    def keys(self) -> list[K]:
        return list(self._by_key)

    def schedule(self, key: K, due_ms: int) -> None:
        """Sets the deadline of this key, or moves it."""
        deadline = self._by_key.get(key)
        if deadline is None or due_ms < deadline.queued_ms:  # the entry that it has in the heap would be too late
            deadline = self._by_key[key] = _Deadline(key, due_ms)
            heappush(self._heap, (due_ms, deadline))
            if self._timer is None or due_ms < self._timer_ms:
                self._arm()
        deadline.due_ms = due_ms

    def cancel(self, key: K) -> None:
        """Cancels the deadline of this key. Does nothing if there is none."""
        self._by_key.pop(key, None)
        if len(self._heap) > 2 * len(self._by_key) + _LEFT_BEHIND_MAX:
            self._heap[:] = [entry for entry in self._heap if self._by_key.get(entry[1].key) is entry[1]]
            heapify(self._heap)

    def clear(self) -> None:
        self._by_key.clear()
        self._heap.clear()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer_ms = self._heap[0][0]
            self._timer = self._clock.call_later(max(self._timer_ms - self._now_ms(), 0), self._run)

    def _run(self) -> None:
        self._timer = None
        try:
            self._fire_due(self._now_ms())
        finally:
            self._arm()  # whatever one of them ran into

    def _fire_due(self, now_ms: int) -> None:
        while self._heap and self._heap[0][0] <= now_ms:
            _, deadline = heappop(self._heap)
            if self._by_key.get(deadline.key) is not deadline:
                continue  # it was cancelled, or has another entry that came up earlier
            if deadline.due_ms > now_ms:
                deadline.queued_ms = deadline.due_ms
                heappush(self._heap, (deadline.due_ms, deadline))
            else:
                del self._by_key[deadline.key]
                self._fire(deadline.key, deadline.due_ms, now_ms)
