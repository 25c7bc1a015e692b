"""Has the markers of decided transactions written by the leaders of their partitions, however long that takes.

Rules:
- What this broker leads is written at once, in the turn in which the decision was committed.
- There is one request in flight to each other broker, with the markers of many transactions; what is decided meanwhile
  goes into the next.
- A marker counts when it is committed there. A partition that does not exist any more counts as well. Whatever else
  goes wrong, the marker is sent again, to whoever leads the partition then.
- A leader that has seen a newer epoch of the producer or of the coordinator refuses the marker for good: somebody else
  acts for this transactional id by now, and nothing more is sent for the transaction.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.base.environment import Report
from barnabas.base.promise import Promise
from barnabas.broker.transactions.brokers import Brokers
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import NO_LEADER, ImageChanges
from barnabas.storage.transactions.marker import TransactionMarker

if TYPE_CHECKING:
    from barnabas.broker.transactions.markers.remote_writers import RemoteWriters

_RETRY_MS = 100
_FINAL = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
_PASSING = frozenset(
    (
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""What a move of leaders, a stop or a start can be the reason of. Nobody needs to be told."""


class Sending:
    """The markers of one transaction on their way."""

    __slots__ = ("is_over", "is_reported", "left", "marker", "promise", "transactional_id")

    def __init__(self, markers: TransactionMarkers) -> None:
        self.transactional_id = markers.transactional_id
        self.marker = TransactionMarker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            coordinator_epoch=markers.coordinator_epoch,
            is_committed=markers.is_committed,
            transaction_version=markers.transaction_version,
        )
        self.left = set(markers.partitions)
        """The partitions without a marker so far."""
        self.is_over = False
        """Whether every partition has its marker, or the others are to get none from here."""
        self.is_reported = False
        self.promise: Promise[None] = Promise()


Unsent = tuple[Sending, TopicPartition]


class Writer(Protocol):
    def write(self, partition: TopicPartition, marker: TransactionMarker) -> Promise[None]:
        """Writes the marker to a partition that is led here."""
        ...


class MarkerSender:
    """Implements `MarkerSender` of `marking.py`."""

    def __init__(self, brokers: Brokers, writer: Writer, report: Report) -> None:
        self._brokers = brokers
        self._writer = writer
        self._report = report
        self._sendings: dict[str, Sending] = {}
        self._remote: RemoteWriters | None = None
        self._paused: deque[Unsent] = deque()
        self._has_timer = False
        self._is_closed = False

    def send(self, markers: TransactionMarkers) -> Promise[None]:
        self.forget((markers.transactional_id,))  # the same decision, found again by a coordinator that has loaded it
        sending = Sending(markers)
        self._sendings[markers.transactional_id] = sending
        self._end_if_done(sending)
        for partition in sorted(markers.partitions):
            self._dispatch(sending, partition)
        return sending.promise

    def left(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        sending = self._sendings.get(transactional_id)
        return None if sending is None else frozenset(sending.left)

    def forget(self, transactional_ids: Iterable[str]) -> None:
        for transactional_id in transactional_ids:
            if (sending := self._sendings.pop(transactional_id, None)) is not None:
                sending.is_over = True

    def apply(self, changes: ImageChanges) -> None:
        """Follows a committed image: what waited may have a leader now."""
        if self._paused and (changes.changed_topics or changes.deleted_topics or changes.brokers):
            self._brokers.clock.call_soon(self._try_paused)

    def close(self) -> None:
        """Sends no more. Whoever coordinates these transactions next sends all their markers again."""
        self._is_closed = True
        self.forget(list(self._sendings))
        self._paused.clear()
        if self._remote is not None:
            self._remote.close()

    # ---- one partition

    def _dispatch(self, sending: Sending, partition: TopicPartition) -> None:
        if sending.is_over or self._is_closed:
            return
        described = self._brokers.image().partition(*partition)
        if described is None:
            self._done(sending, partition)
        elif described.leader == self._brokers.node_id:
            written = self._writer.write(partition, sending.marker)
            if written.done:  # nearly always: most need no closure
                self.settle(sending, partition, written.error)
            else:
                written.when_done(lambda kept: self.settle(sending, partition, kept.error))
        elif described.leader == NO_LEADER:
            self._pause(sending, partition)
        else:
            self._remote_writers().add(described.leader, sending, partition)

    def _remote_writers(self) -> "RemoteWriters":
        if self._remote is None:
            from barnabas.broker.transactions.markers.remote_writers import RemoteWriters

            self._remote = RemoteWriters(self._brokers, self.settle)
        return self._remote

    def settle(self, sending: Sending, partition: TopicPartition, error: Exception | None) -> None:
        """Takes what became of a marker."""
        if sending.is_over or partition not in sending.left:
            return
        if error is None:
            return self._done(sending, partition)
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if code in _FINAL:
            self.forget((sending.transactional_id,))
            return sending.promise.fail(error)
        if code not in _PASSING and not sending.is_reported:
            sending.is_reported = True
            text = (
                f"the marker of transactional id {sending.transactional_id} is refused in {partition}, and sent again"
            )
            self._report.warning(f"{text}: {error}", topic_partition=str(partition))
        self._pause(sending, partition)

    def _done(self, sending: Sending, partition: TopicPartition) -> None:
        sending.left.discard(partition)
        self._end_if_done(sending)

    def _end_if_done(self, sending: Sending) -> None:
        if not sending.left and not sending.is_over:
            self.forget((sending.transactional_id,))
            sending.promise.resolve(None)

    # ---- again

    def _pause(self, sending: Sending, partition: TopicPartition) -> None:
        self._paused.append((sending, partition))
        if not self._has_timer:
            self._has_timer = True
            self._brokers.clock.call_later(_RETRY_MS, self._on_timer)

    def _on_timer(self) -> None:
        self._has_timer = False
        self._try_paused()

    def _try_paused(self) -> None:
        paused, self._paused = self._paused, deque()
        for sending, partition in paused:
            self._dispatch(sending, partition)
