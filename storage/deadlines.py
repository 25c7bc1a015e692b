"""All deadlines of all logs in one heap, one timer for the earliest.

A log that asks for an earlier deadline leaves its later entry behind; the entry is dropped when it comes up, because
the log no longer waits for it.
"""

from collections.abc import Callable
from heapq import heappop, heappush

from barnabas.protocol.types import TopicPartition
from barnabas.storage.seams import Clock, Timer


class DeadlineHeap:
    __slots__ = ("_clock", "_fire", "_heap", "_timer", "_timer_ms")

    def __init__(self, clock: Clock, fire: Callable[[TopicPartition, int, int], None]) -> None:
        """`fire(topic_partition, deadline_ms, now_ms)` is called for every entry that came up."""
        self._clock = clock
        self._fire = fire
        self._heap: list[tuple[int, TopicPartition]] = []
        self._timer: Timer | None = None
        self._timer_ms = 0

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, topic_partition: TopicPartition, deadline_ms: int) -> None:
        heappush(self._heap, (deadline_ms, topic_partition))
        if self._timer is None or deadline_ms < self._timer_ms:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._heap:
            self._timer_ms = self._heap[0][0]
            self._timer = self._clock.call_later(max(self._timer_ms - self._clock.now_ms(), 0), self._run)

    def _run(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, topic_partition = heappop(self._heap)
            self._fire(topic_partition, deadline_ms, now_ms)
        self._arm()

    def clear(self) -> None:
        self._heap.clear()
        self._arm()
