"""What is changed in the real code when a defect of transactions is planted."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

from barnabas.base.promise import Promise, resolved
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.broker.groups.offset_store import OffsetStore
from barnabas.broker.transactions import rules
from barnabas.broker.transactions.flushed_first import FlushedFirst
from barnabas.broker.transactions.machine import TransactionShard
from barnabas.broker.transactions.markers.sender import MarkerSender, Sending
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.broker.transactions.records import TransactionSerde
from barnabas.broker.transactions.rules import Coordination
from barnabas.broker.transactions.transaction import NO_EPOCH, ProducerIdAndEpoch, Transaction
from barnabas.protocol.batch_header import NO_PRODUCER_ID, BatchHeader
from barnabas.protocol.errors import InvalidProducerEpoch, InvalidTxnState, ProducerFenced, TransactionCoordinatorFenced
from barnabas.protocol.types import TopicPartition
from barnabas.storage import producer_snapshot
from barnabas.storage.opening.recovery import LogLoader
from barnabas.storage.producer_state import NO_TRANSACTION, ProducerEntry, ProducerState
from barnabas.storage.segments.transaction_index import AbortedTransaction, AbortedTransactions
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from barnabas.storage.transactions.unstable import UnstableTransactions

# ---- the coordinator


@contextmanager
def ends_are_answered_at_once() -> Iterator[None]:
    carry_out = ShardRuntime._carry_out

    def carried_out(shard: ShardRuntime[Any], decision: Decision[Any], transaction: Any = None) -> Promise[Any]:
        promise = carry_out(shard, decision, transaction)
        is_end = isinstance(shard.machine, TransactionShard) and decision.on_committed is not None
        if is_end and isinstance(decision.response, ProducerIdAndEpoch) and promise.error is None:
            return resolved(decision.response)
        return promise

    with patch.object(ShardRuntime, "_carry_out", carried_out):
        yield


@contextmanager
def markers_leave_before_the_decision_is_committed() -> Iterator[None]:
    carry_out = ShardRuntime._carry_out

    def carried_out(shard: ShardRuntime[Any], decision: Decision[Any], transaction: Any = None) -> Promise[Any]:
        on_committed = decision.on_committed
        if on_committed is None or not isinstance(shard.machine, TransactionShard):
            return carry_out(shard, decision, transaction)
        decision.on_committed = None
        promise = carry_out(shard, decision, transaction)
        on_committed(None)
        return promise

    with patch.object(ShardRuntime, "_carry_out", carried_out):
        yield


def sent_at_once(self: FlushedFirst, markers: TransactionMarkers, _decided_in: Any) -> Promise[None]:
    return self._sender.send(markers)


def done_with_the_first(self: MarkerSender, sending: Sending, _partition: TopicPartition) -> None:
    sending.left.clear()
    self._end_if_done(sending)


@contextmanager
def the_next_producer_id_is_not_stored() -> Iterator[None]:
    encode = TransactionSerde.encode_value

    def encoded(self: TransactionSerde, transaction: Transaction) -> bytes:
        return encode(self, transaction._replace(next_producer_id=NO_PRODUCER_ID))

    with patch.object(TransactionSerde, "encode_value", encoded):
        yield


@contextmanager
def who_has_expired_is_fenced() -> Iterator[None]:
    init = TransactionShard.init_producer_id

    def checked(
        self: TransactionShard, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Any:
        if expected is not None and transactional_id not in self._transactions:
            raise ProducerFenced("nobody knows this transactional id")
        return init(self, transactional_id, timeout_ms, expected)

    with patch.object(TransactionShard, "init_producer_id", checked):
        yield


@contextmanager
def retries_are_taken_for_requests() -> Iterator[None]:
    def check(transaction: Transaction, producer: ProducerIdAndEpoch) -> None:
        if producer.producer_id != transaction.producer_id:
            raise rules._unknown(producer)
        if producer.producer_epoch < transaction.producer_epoch - 1:
            raise rules._fenced(transaction, producer)

    with patch.object(rules, "_is_retry", lambda *_: False), patch.object(rules, "_check_producer", check):
        yield


def abort_in_the_same_epoch(transaction: Transaction, coordination: Coordination) -> Transaction:
    return transaction.ended(
        is_commit=False, producer_epoch=transaction.producer_epoch, last_epoch=NO_EPOCH, now_ms=coordination.now_ms
    )


# ---- logs


def any_guard_will_do(
    _: ProducerState, entry: ProducerEntry | None, header: BatchHeader, guard: VerificationGuard | None
) -> None:
    is_open = entry is not None and entry.has_open_transaction(header.producer_epoch)
    if not is_open and guard is None:
        raise InvalidTxnState("the batch is not part of an ongoing transaction")


@contextmanager
def former_coordinators_are_obeyed() -> Iterator[None]:
    check = ProducerState.check_marker

    def checked(self: ProducerState, marker: TransactionMarker) -> None:
        with suppress(TransactionCoordinatorFenced):
            check(self, marker)

    with patch.object(ProducerState, "check_marker", checked):
        yield


@contextmanager
def a_marker_is_taken_once() -> Iterator[None]:
    check = ProducerState.check_marker

    def checked(self: ProducerState, marker: TransactionMarker) -> None:
        entry = self.by_id.get(marker.producer_id)
        if marker.has_own_epoch and entry is not None and entry.producer_epoch == marker.producer_epoch:
            raise InvalidProducerEpoch("its epoch was seen")
        check(self, marker)

    with patch.object(ProducerState, "check_marker", checked):
        yield


@contextmanager
def what_is_marked_is_stable() -> Iterator[None]:
    end = UnstableTransactions.end

    def ended(self: UnstableTransactions, first_offset: int, marker_offset: int) -> None:
        end(self, first_offset, marker_offset)
        self.on_high_watermark(marker_offset + 1)

    with patch.object(UnstableTransactions, "end", ended):
        yield


@contextmanager
def snapshots_forget_what_is_open() -> Iterator[None]:
    entry_of_row = producer_snapshot._entry_of_row

    def without(*row: int) -> tuple[int, ProducerEntry]:
        producer_id, entry = entry_of_row(*row)
        entry.current_txn_first_offset = NO_TRANSACTION
        return producer_id, entry

    with patch.object(producer_snapshot, "_entry_of_row", without):
        yield


def keep_the_rows_that_are_there(_: LogLoader, _segment: Any, _rows: list[AbortedTransaction]) -> None:
    """A crash has taken those that were not written."""


@contextmanager
def rows_begin_one_marker_too_early() -> Iterator[None]:
    between = AbortedTransactions.between

    def earlier(self: AbortedTransactions, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        return between(self, max(start_offset - 1, 0), end_offset)

    with patch.object(AbortedTransactions, "between", earlier):
        yield


# ---- groups


@contextmanager
def the_last_commit_wins() -> Iterator[None]:
    end = OffsetStore.end_transaction

    def ended(self: OffsetStore, producer_id: int, *, is_committed: bool) -> None:
        for group_id, topic, index in self._pending.get(producer_id, ()) if is_committed else ():
            self._committed.get(group_id, {}).get(topic, {}).pop(index, None)
        end(self, producer_id, is_committed=is_committed)

    with patch.object(OffsetStore, "end_transaction", ended):
        yield
