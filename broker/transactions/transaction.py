"""What the coordinator knows of a transactional id, and what becomes of it step by step.

Epochs, which fence producers (KIP-360, KIP-890):
- LAST_EPOCH is the last that a client ever has. The one above it is kept for fencing; then the id gets another producer
  id.
- By the second rules each transaction ends in an epoch of its own, one above that in which it was written: nothing that
  is late can touch the next one. By the first rules the epoch stays, and only fencing raises it.
- When an epoch is used up at the end of a transaction, the next producer id is stored with the decision, before the
  client learns of it, and takes over when the transaction is complete.
"""

from collections.abc import Iterable
from enum import IntEnum

from barnabas.protocol.batch_header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

MAX_EPOCH = 2**15 - 1
LAST_EPOCH = MAX_EPOCH - 1
NO_EPOCH = NO_PRODUCER_EPOCH
NO_TIMESTAMP = -1
EPOCH_BUMP_SINCE = 2
"""The level of transaction.version from which on each transaction ends in an epoch of its own."""


class State(IntEnum):
    """Stored as a number, told by name. That an id is dead, or about to be fenced, is never stored and never seen."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def label(self) -> str:
        """Returns the name that clients know."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class Transaction(NamedTuple):
    """A transactional id and its latest transaction. `last_producer_epoch` is what a producer had that repeats its
    request; `start_timestamp_ms` is when the transaction began."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = 0
    client_transaction_version: int = 0

    @property
    def is_ending(self) -> bool:
        """Returns whether it is decided, and markers are on their way. It takes no other change until it is
        complete."""
        return self.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Returns whether no transaction is under way."""
        return self.state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

    def is_idle_since(self, time_ms: int) -> bool:
        """Returns whether nothing has happened to it after this time, and no transaction is under way."""
        return self.last_update_timestamp_ms <= time_ms and self.is_idle

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    @property
    def is_committed(self) -> bool:
        return self.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    # ---- steps

    def _step(self, state: State, now_ms: int) -> "Transaction":
        """Returns the transaction in its next state. Its last update never goes back, even if the clock does."""
        return self._replace(
            state=state,
            previous_producer_id=self.producer_id,
            last_update_timestamp_ms=max(now_ms, self.last_update_timestamp_ms),
        )

    def initialized(self, timeout_ms: int, producer: ProducerIdAndEpoch, last_epoch: int, now_ms: int) -> "Transaction":
        """Returns it without a transaction, for a producer that begins with this id and epoch."""
        return self._step(State.EMPTY, now_ms)._replace(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp_ms=NO_TIMESTAMP,
        )

    def with_partitions(
        self, partitions: Iterable[TopicPartition], client_transaction_version: int, now_ms: int
    ) -> "Transaction":
        """Returns it with partitions added, which begins a transaction if there is none."""
        is_begun = self.state is State.ONGOING
        before = self.partitions if is_begun else frozenset()
        return self._step(State.ONGOING, now_ms)._replace(
            partitions=before.union(partitions),
            start_timestamp_ms=self.start_timestamp_ms if is_begun else now_ms,
            client_transaction_version=client_transaction_version,
        )

    def ended(self, *, is_commit: bool, producer_epoch: int, last_epoch: int, now_ms: int) -> "Transaction":
        """Returns it decided by the first rules, in this epoch."""
        return self._step(State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT, now_ms)._replace(
            producer_epoch=producer_epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=NO_PRODUCER_ID,
            client_transaction_version=0,
        )

    def ended_in_next_epoch(
        self, *, is_commit: bool, next_producer_id: int, client_transaction_version: int, now_ms: int
    ) -> "Transaction":
        """Returns it decided by the second rules. `next_producer_id` takes over where the epoch is exhausted. An epoch
        that is the very last already, by a defect of another broker, stays as it is."""
        step = self._step(State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT, now_ms)
        return step._replace(
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
            last_producer_epoch=self.producer_epoch,
            next_producer_id=next_producer_id,
            start_timestamp_ms=now_ms if self.is_idle else self.start_timestamp_ms,
            client_transaction_version=client_transaction_version,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Returns it as it is once every marker is written."""
        is_rotated = self.client_transaction_version >= EPOCH_BUMP_SINCE and self.next_producer_id != NO_PRODUCER_ID
        step = self._step(State.COMPLETE_COMMIT if self.is_committed else State.COMPLETE_ABORT, now_ms)
        return step._replace(
            producer_id=self.next_producer_id if is_rotated else self.producer_id,
            producer_epoch=0 if is_rotated else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )
