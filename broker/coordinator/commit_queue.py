"""Answers that wait until everything they depend on is committed, in the order of the offsets that they wait for.

- An answer leaves when the high watermark has reached its offset, and never before one with a lower offset.
- An answer that waits too long fails with REQUEST_TIMED_OUT. Its records may still be committed, as in Kafka.
- When the queue fails, every waiting answer fails at that moment. A later call from the partition finds none.
"""

from collections import deque
from collections.abc import Callable

from barnabas.base.environment import Clock, Timer
from barnabas.base.promise import Promise
from barnabas.broker.coordinator.definition import CoordinatorPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.named_tuple import NamedTuple


class _Waiting(NamedTuple):
    end_offset: int
    deadline_ms: int
    committed: Promise[None]


class CommitQueue:
    __slots__ = ("_clock", "_is_watching", "_on_failed", "_partition", "_timeout_ms", "_timer", "_waiting")

    def __init__(
        self,
        partition: CoordinatorPartition,
        clock: Clock,
        timeout_ms: int,
        on_failed: Callable[[KafkaError], None],
    ) -> None:
        """Takes `on_failed`, which is called when the partition cannot commit any more, and which must call `fail`."""
        self._partition = partition
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._on_failed = on_failed
        self._waiting: deque[_Waiting] = deque()
        self._is_watching = False
        self._timer: Timer | None = None

    def add(self, end_offset: int) -> Promise[None]:
        """Returns a promise that is kept when everything before `end_offset` is committed; it fails with a KafkaError.
        The offset must be above the high watermark, and not below that of an answer that waits already."""
        committed: Promise[None] = Promise()
        self._waiting.append(_Waiting(end_offset, self._clock.monotonic_ms() + self._timeout_ms, committed))
        if not self._is_watching:
            self._watch()
        if self._timer is None:
            self._timer = self._clock.call_later(self._timeout_ms, self._on_timeout)
        return committed

    def _watch(self) -> None:
        """Waits for the first answer's offset only: when it leaves, others may have to wait longer."""
        self._is_watching = True
        self._partition.when_committed(self._waiting[0].end_offset).when_done(self._on_committed)

    def _on_committed(self, committed: Promise[None]) -> None:
        if self._waiting and committed.error is not None:
            assert isinstance(committed.error, KafkaError), repr(committed.error)
            self._on_failed(committed.error)
        while self._waiting and self._waiting[0].end_offset <= self._partition.high_watermark:
            self._waiting.popleft().committed.resolve(None)  # whoever gets it may add another answer
        self._is_watching = False
        if self._waiting:
            self._watch()

    def _on_timeout(self) -> None:
        """Fails the answers that are due. The timer was set for an answer that may have left long ago."""
        self._timer = None
        now_ms = self._clock.monotonic_ms()
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            name, waited = self._partition.topic_partition, self._waiting.popleft()
            text = f"{name}: offset {waited.end_offset - 1} was not committed in {self._timeout_ms} ms"
            waited.committed.fail(KafkaError(text, ErrorCode.REQUEST_TIMED_OUT))
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(self._waiting[0].deadline_ms - now_ms, self._on_timeout)

    def fail(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for one in waiting:
            one.committed.fail(error)
