"""What a request makes of a transactional id. Each rule returns the next transaction, or raises the error for the
client.

By the first rules, those of clients before KIP-890, an epoch lasts for many transactions. By the second, every EndTxn
raises it. A request is judged by its own version; what the coordinator does by itself, by the cluster's level.

The order of checks is Kafka's:
- An id that is ending takes nothing. The second rules say so before they look at the producer id, because the one that
  the client was promised takes over only when the transaction is complete.
- EndTxn by the first rules must be of the current epoch. By the second, one of the epoch before is repeated, and is
  answered again with what it has led to.
"""

from collections.abc import Callable, Iterable

from barnabas.broker.transactions.transaction import (
    EPOCH_BUMP_SINCE,
    LAST_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    ProducerIdAndEpoch,
    State,
    Transaction,
)
from barnabas.protocol.batch_header import NO_PRODUCER_ID
from barnabas.protocol.errors import (
    ConcurrentTransactions,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition


class Coordination(NamedTuple):
    """What a rule needs to know besides the transaction. `new_producer_id` raises if none is at hand."""

    now_ms: int
    transaction_version: int
    new_producer_id: Callable[[], int]


# ---- InitProducerId


def initialize(
    transaction: Transaction, timeout_ms: int, expected: ProducerIdAndEpoch | None, coordination: Coordination
) -> Transaction:
    """Returns the transaction with a later epoch, or another producer id. An open transaction is ended first, and the
    producer must ask again. `expected` is what a producer has that goes on after an error (KIP-360)."""
    if transaction.is_ending:
        raise _is_ending(transaction)
    if expected is not None and not _is_expected(transaction, expected):
        raise _fenced(transaction, expected)
    if not transaction.is_idle:
        return fence(transaction, coordination)
    now_ms = coordination.now_ms
    expected_epoch = None if expected is None else expected.producer_epoch
    if transaction.is_epoch_exhausted and expected_epoch in (None, transaction.producer_epoch):
        producer = ProducerIdAndEpoch(coordination.new_producer_id(), 0)
        return transaction.initialized(timeout_ms, producer, _last_epoch(transaction, expected), now_ms)
    if transaction.producer_epoch == NO_EPOCH or expected_epoch in (None, transaction.producer_epoch):
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch + 1)
        return transaction.initialized(timeout_ms, producer, _last_epoch(transaction, expected), now_ms)
    if expected is None or expected_epoch != transaction.last_producer_epoch:
        raise _fenced(transaction, expected)
    return transaction.initialized(timeout_ms, transaction.producer, transaction.last_producer_epoch, now_ms)


def _is_expected(transaction: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Returns whether the producer may be the current one, or that one before its producer id was replaced. If the id
    is new, it had expired, and its producer goes on with another one."""
    return (
        transaction.producer_epoch == NO_EPOCH
        or expected.producer_id == transaction.producer_id
        or (expected.producer_id == transaction.previous_producer_id and expected.producer_epoch >= LAST_EPOCH)
    )


def _last_epoch(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> int:
    """Returns the epoch with which the same producer may ask again: it has said which one it has."""
    return NO_EPOCH if expected is None else transaction.producer_epoch


def fence(transaction: Transaction, coordination: Coordination) -> Transaction:
    """Returns an open transaction aborted in a later epoch, so that its producer can do nothing more."""
    if coordination.transaction_version >= EPOCH_BUMP_SINCE:
        return _end_in_next_epoch(transaction, coordination.transaction_version, coordination, is_commit=False)
    fencing_epoch = min(transaction.producer_epoch + 1, MAX_EPOCH)
    return transaction.ended(
        is_commit=False, producer_epoch=fencing_epoch, last_epoch=NO_EPOCH, now_ms=coordination.now_ms
    )


# ---- AddPartitionsToTxn


def add_partitions(
    transaction: Transaction | None,
    producer: ProducerIdAndEpoch,
    partitions: Iterable[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Transaction | None:
    """Returns the transaction with the partitions, or None if it has them already."""
    if transaction is None:
        raise _unknown(producer)
    if transaction.is_ending:
        raise _is_ending(transaction)
    _check_producer(transaction, producer)
    if transaction.state is State.ONGOING and transaction.partitions.issuperset(partitions):
        return None
    return transaction.with_partitions(partitions, client_version, now_ms)


def verify_partitions(
    transaction: Transaction | None, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Returns for each partition whether the producer has a transaction open that it belongs to."""
    if transaction is None:
        raise _unknown(producer)
    _check_producer(transaction, producer)
    if transaction.is_ending:
        raise _is_ending(transaction)
    return {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


# ---- EndTxn


def end(
    transaction: Transaction | None,
    producer: ProducerIdAndEpoch,
    *,
    is_commit: bool,
    client_version: int,
    coordination: Coordination,
) -> Transaction | None:
    """Returns the transaction decided, or None if this was decided before."""
    if transaction is None:
        raise _unknown(producer)
    if client_version < EPOCH_BUMP_SINCE:
        return _end_by_first_rules(transaction, producer, coordination.now_ms, is_commit=is_commit)
    if transaction.is_ending:
        raise _is_ending(transaction)
    if not _is_retry(transaction, producer):
        _check_producer(transaction, producer)
        if transaction.state is not State.ONGOING and is_commit:
            raise _wrong_state(transaction, is_commit=is_commit)
        return _end_in_next_epoch(transaction, client_version, coordination, is_commit=is_commit)
    if transaction.state not in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        raise _fenced(transaction, producer)
    if transaction.is_committed != is_commit:
        raise _wrong_state(transaction, is_commit=is_commit)
    return None


def _end_by_first_rules(
    transaction: Transaction, producer: ProducerIdAndEpoch, now_ms: int, *, is_commit: bool
) -> Transaction | None:
    _check_producer(transaction, producer)
    if transaction.is_ending:
        raise _is_ending(transaction)
    if transaction.state is State.ONGOING:
        epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
        return transaction.ended(is_commit=is_commit, producer_epoch=epoch, last_epoch=last_epoch, now_ms=now_ms)
    if transaction.state is State.EMPTY or transaction.is_committed != is_commit:
        raise _wrong_state(transaction, is_commit=is_commit)
    return None


def _is_retry(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Returns whether the producer has the epoch that the latest transaction was written in, which has ended in the
    next. The next may be the first of another producer id."""
    id_, epoch = producer
    if id_ == transaction.producer_id and epoch == transaction.producer_epoch - 1:
        return True
    return id_ == transaction.previous_producer_id and epoch == LAST_EPOCH and transaction.producer_epoch == 0


def _end_in_next_epoch(
    transaction: Transaction, client_version: int, coordination: Coordination, *, is_commit: bool
) -> Transaction:
    return transaction.ended_in_next_epoch(
        is_commit=is_commit,
        next_producer_id=coordination.new_producer_id() if transaction.is_epoch_exhausted else NO_PRODUCER_ID,
        client_transaction_version=client_version,
        now_ms=coordination.now_ms,
    )


# ---- checks and errors


def _check_producer(transaction: Transaction, producer: ProducerIdAndEpoch) -> None:
    if producer.producer_id != transaction.producer_id:
        raise _unknown(producer)
    if producer.producer_epoch != transaction.producer_epoch:
        raise _fenced(transaction, producer)


def _unknown(producer: ProducerIdAndEpoch) -> InvalidProducerIdMapping:
    return InvalidProducerIdMapping(f"producer {producer.producer_id} is not the one of this transactional id")


def _fenced(transaction: Transaction, producer: ProducerIdAndEpoch | None) -> ProducerFenced:
    asked = "" if producer is None else f", not {producer.producer_id} in epoch {producer.producer_epoch}"
    is_now = f"producer {transaction.producer_id} in epoch {transaction.producer_epoch}"
    return ProducerFenced(f"{transaction.transactional_id} belongs to {is_now}{asked}")


def _is_ending(transaction: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(f"the markers of {transaction.transactional_id} are being written")


def _wrong_state(transaction: Transaction, *, is_commit: bool) -> InvalidTxnState:
    asked = "committed" if is_commit else "aborted"
    return InvalidTxnState(f"{transaction.transactional_id} cannot be {asked} in state {transaction.state.label}")
