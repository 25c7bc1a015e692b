"""The timers of groups: sessions, rebalances, members that never came back.

- A timer has a key; setting it again moves it, and costs no more than a dictionary entry: a heartbeat does it.
- What a timer does is a decision like any other, and may write records.
- Time is the loop's monotonic one. A clock that is set right must not end anybody's session.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple, Protocol

from barnabas.broker.groups.result import Result
from barnabas.storage.seams import Clock, Timer

Operation = Callable[[], Result[Any] | None]


class TimerKey(NamedTuple):
    kind: str
    group_id: str
    member_id: str = ""


class Timers(Protocol):
    """What a state machine sees."""

    def schedule(self, key: TimerKey, delay_ms: int, operation: Operation) -> None:
        """Sets the timer, or sets it anew."""
        ...

    def cancel(self, key: TimerKey) -> None:
        """No error if there is none."""
        ...

    def is_scheduled(self, key: TimerKey) -> bool: ...


class _Scheduled:
    """`queued_ms` is when its entry in the heap comes up; `due_ms` is when it is due, and may have moved on since."""

    __slots__ = ("due_ms", "key", "operation", "queued_ms")

    def __init__(self, key: TimerKey, due_ms: int) -> None:
        self.key = key
        self.due_ms = self.queued_ms = due_ms
        self.operation: Operation

    def __lt__(self, other: "_Scheduled") -> bool:
        return self.queued_ms < other.queued_ms


class GroupTimers:
    """All timers of one shard behind one timer of the loop."""

    def __init__(self, clock: Clock, run: Callable[[TimerKey, Operation], None]) -> None:
        self._clock = clock
        self._run = run
        self._by_key: dict[TimerKey, _Scheduled] = {}
        self._heap: list[tuple[int, _Scheduled]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def keys(self) -> list[TimerKey]:
        return list(self._by_key)

    def schedule(self, key: TimerKey, delay_ms: int, operation: Operation) -> None:
        due_ms = self._clock.monotonic_ms() + delay_ms
        scheduled = self._by_key.get(key)
        if scheduled is None or due_ms < scheduled.queued_ms:  # the entry that it has in the heap would be too late
            scheduled = self._by_key[key] = _Scheduled(key, due_ms)
            heappush(self._heap, (due_ms, scheduled))
            if self._timer is None or due_ms < self._timer_ms:
                self._arm()
        scheduled.due_ms = due_ms
        scheduled.operation = operation

    def cancel(self, key: TimerKey) -> None:
        self._by_key.pop(key, None)

    def is_scheduled(self, key: TimerKey) -> bool:
        return key in self._by_key

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
            self._timer = self._clock.call_later(max(self._timer_ms - self._clock.monotonic_ms(), 0), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            _, scheduled = heappop(self._heap)
            if self._by_key.get(scheduled.key) is not scheduled:
                continue  # cancelled, or set anew to an earlier time
            if scheduled.due_ms > now_ms:
                scheduled.queued_ms = scheduled.due_ms
                heappush(self._heap, (scheduled.due_ms, scheduled))
            else:
                del self._by_key[scheduled.key]
                self._run(scheduled.key, scheduled.operation)
        self._arm()
