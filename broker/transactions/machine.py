"""The transactions of one partition of `__transaction_state`: a state machine of the coordinator runtime.

Rules:
- A request is judged by `rules.py`. What it makes of the transaction is one record; the answer leaves when it is
  committed. That goes for the decision to commit or abort as well: markers follow, and nobody waits for them.
- The first marker leaves after the decision is committed, and the end of the transaction is recorded after the last
  one. So whoever loads this partition knows what was decided, and sends all markers again.
- A transaction that takes longer than its timeout is aborted, in a later epoch. The time is measured exactly.
- What does not succeed at once is tried again: a decision that is not committed so far, a record that cannot be
  written.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

from barnabas.base.environment import Report
from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import Timers
from barnabas.broker.transactions import rules
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.broker.transactions.rules import Coordination
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch, State, Transaction
from barnabas.protocol.errors import ConcurrentTransactions, ErrorCode, KafkaError, TransactionalIdNotFound
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

_RETRY_MS = 500
"""The wait before a timed-out transaction is looked at again that could not be aborted, or a decision not committed."""
_FORGOTTEN_AT_ONCE = 200
"""How many ids expire in one turn of the loop: where a million do, everybody else would wait for ten seconds."""
_EXPIRY = ("expiry",)
"""The key of its timer; those of transactions are their ids."""


class TransactionContext(NamedTuple):
    """What a shard knows of its broker. Everything is asked each time, because it changes."""

    timers: Timers
    report: Report
    now_ms: Callable[[], int]
    transaction_version: Callable[[], int]
    """Returns the level of that feature."""
    new_producer_id: Callable[[], int]
    """Returns one that is at hand. Raises KafkaError if there is none."""
    coordinator_epoch: Callable[[], int]
    """Returns the epoch in which this broker leads the partition."""
    send_markers: Callable[[TransactionMarkers], Promise[None]]
    markers_left: Callable[[str], frozenset[TopicPartition] | None]
    """Returns the partitions that wait for their marker, if markers are being sent."""
    left_to_others: Callable[[frozenset[str]], None]
    """Is told of the transactional ids whose transactions another coordinator ends."""
    on_ended: Callable[[str], None]
    """Is told of each transactional id whose next transaction can begin."""
    first_epoch: int
    """The epoch in which new transactional ids begin."""


class TransactionShard:
    def __init__(self, context: TransactionContext) -> None:
        self._context = context
        self._transactions: dict[str, Transaction] = {}
        self._is_loaded = False

    # ---- requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Decision[ProducerIdAndEpoch | KafkaError]:
        """Decides on the producer's id and epoch, or aborts the transaction that is open: then it must ask again."""
        coordination = self._coordination()
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            created = Transaction(transactional_id, coordination.new_producer_id(), timeout_ms)
            initialized = rules.initialize(created, timeout_ms, expected, coordination)
            return self._decide(initialized._replace(producer_epoch=self._context.first_epoch))
        after = rules.initialize(transaction, timeout_ms, expected, coordination)
        if after.is_ending:
            text = f"{transactional_id} had an open transaction, which is being aborted"
            return Decision([_record(after)], ConcurrentTransactions(text), on_committed=self._finisher(after))
        return self._decide(after)

    def _decide(self, after: Transaction) -> Decision[ProducerIdAndEpoch | KafkaError]:
        return Decision([_record(after)], after.producer)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> Decision[None]:
        after = rules.add_partitions(
            self._transactions.get(transactional_id),
            producer,
            partitions,
            client_version=client_version,
            now_ms=self._context.now_ms(),
        )
        return Decision([] if after is None else [_record(after)], None)

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> Decision[dict[TopicPartition, ErrorCode]]:
        transaction = self._transactions.get(transactional_id)
        return Decision((), rules.verify_partitions(transaction, producer, partitions))

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, is_commit: bool, client_version: int
    ) -> Decision[ProducerIdAndEpoch]:
        """Decides that the transaction is committed or aborted; answers with what its producer goes on with."""
        transaction = self._transactions.get(transactional_id)
        after = rules.end(
            transaction,
            producer,
            is_commit=is_commit,
            client_version=client_version,
            coordination=self._coordination(),
        )
        if after is None:
            assert transaction is not None, "what is not known was not ended before"
            return Decision((), transaction.producer)
        now_ms = self._context.now_ms()
        return Decision([_record(after)], after.completed(now_ms).producer, on_committed=self._finisher(after))

    def describe(self, transactional_id: str) -> Transaction:
        """Returns the transaction; once it is decided, with those of its partitions only that wait for their marker."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise TransactionalIdNotFound(f"there is no transactional id {transactional_id}")
        left = self._context.markers_left(transactional_id) if transaction.is_ending else None
        return transaction if left is None else transaction._replace(partitions=left)

    def transactions(self) -> list[Transaction]:
        return list(self._transactions.values())

    def _coordination(self) -> Coordination:
        context = self._context
        return Coordination(context.now_ms(), context.transaction_version(), context.new_producer_id)

    # ---- what is decided

    def _finisher(self, decided: Transaction) -> Callable[[KafkaError | None], None]:
        def on_committed(error: KafkaError | None) -> None:
            if self._transactions.get(decided.transactional_id) is not decided:
                return  # it could not be written
            if error is None:
                self._send_markers(decided)
            else:  # it may be committed later
                self._finish_later(decided, _RETRY_MS)

        return on_committed

    def _finish_later(self, decided: Transaction, delay_ms: int) -> None:
        """Goes on when everything that is in the log is committed."""

        def operation() -> Decision[None] | None:
            return Decision((), None, on_committed=self._finisher(decided))

        self._context.timers.schedule(decided.transactional_id, delay_ms, operation)

    def _send_markers(self, decided: Transaction) -> None:
        if not decided.partitions:
            return self._complete(decided)
        markers = TransactionMarkers(
            transactional_id=decided.transactional_id,
            producer_id=decided.producer_id,
            producer_epoch=decided.producer_epoch,
            coordinator_epoch=self._context.coordinator_epoch(),
            is_committed=decided.is_committed,
            transaction_version=decided.client_transaction_version,
            partitions=decided.partitions,
        )

        def done(sent: Promise[None]) -> None:
            if sent.error is None:
                self._complete(decided)
            elif isinstance(sent.error, KafkaError):
                text = f"the markers of {decided.transactional_id} are left to another coordinator: {sent.error}"
                self._context.report.warning(text, transactional_id=decided.transactional_id)
            else:
                raise sent.error

        self._context.send_markers(markers).when_done(done)

    def _complete(self, decided: Transaction) -> None:
        def operation() -> Decision[None] | None:
            if self._transactions.get(decided.transactional_id) is not decided:
                return None
            completed = decided.completed(self._context.now_ms())
            return Decision([_record(completed)], None, on_committed=on_committed)

        def on_committed(_error: KafkaError | None) -> None:
            self._tell_if_ended(decided.transactional_id)  # it may be written only at a later try

        self._context.timers.run(decided.transactional_id, operation)
        self._tell_if_ended(decided.transactional_id)

    def _tell_if_ended(self, transactional_id: str) -> None:
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not transaction.is_ending:
            self._context.on_ended(transactional_id)

    # ---- timeout and expiry

    def _watch(self, transaction: Transaction) -> None:
        """Sets the timer of an open transaction, and takes it back from one that is open no more. Where the wall clock
        was ahead when it began, it gets its timeout from now on, not what is left and the difference of the clocks."""
        timers, transactional_id = self._context.timers, transaction.transactional_id
        if transaction.state is not State.ONGOING:
            return timers.cancel(transactional_id)
        age_ms = max(self._context.now_ms() - transaction.start_timestamp_ms, 0)
        left_ms = max(transaction.timeout_ms - age_ms, 0)
        timers.schedule(transactional_id, left_ms, lambda: self._time_out(transaction))

    def _time_out(self, transaction: Transaction) -> Decision[None] | None:
        transactional_id, context = transaction.transactional_id, self._context
        if self._transactions.get(transactional_id) is not transaction:
            return None
        try:
            aborted = rules.fence(transaction, self._coordination())
        except KafkaError:  # no producer id is at hand to go on with
            context.timers.schedule(transactional_id, _RETRY_MS, lambda: self._time_out(transaction))
            return None

        def on_appended() -> None:
            text = f"the transaction of {transactional_id} took longer than {transaction.timeout_ms} ms: aborted"
            context.report.info(text, transactional_id=transactional_id)

        finish = self._finisher(aborted)
        return Decision([_record(aborted)], None, on_appended=on_appended, on_committed=finish)

    def expire(self, expiration_ms: int) -> Decision[None]:
        """Forgets the ids without a transaction that nobody has used for so long: some now, the others in later turns
        of the loop."""
        last_ms = self._context.now_ms() - expiration_ms
        expired = deque(one for one in self._transactions.values() if one.is_idle_since(last_ms))
        return self._forget(expired, 0)

    def _forget(self, expired: deque[Transaction], forgotten: int) -> Decision[None]:
        some = [expired.popleft() for _ in range(min(len(expired), _FORGOTTEN_AT_ONCE))]
        names = [one.transactional_id for one in some if self._transactions.get(one.transactional_id) is one]
        forgotten += len(names)

        def on_appended() -> None:
            if expired:
                self._context.timers.schedule(_EXPIRY, 1, lambda: self._forget(expired, forgotten))
            elif forgotten:
                text = f"{forgotten} transactional ids have expired"
                self._context.report.info(text, transactional_ids=forgotten)

        return Decision([(name, None) for name in names], None, on_appended=on_appended)

    # ---- records

    def replay(self, key: Any, value: Any, _offset: int, _producer_id: int) -> None:
        if value is None:
            self._transactions.pop(key, None)
            return
        self._transactions[key] = value
        if self._is_loaded:
            self._watch(value)

    def end_transaction(self, _producer_id: int, *, is_committed: bool) -> None:
        """Does nothing: the records of this log belong to no transaction."""

    def on_loaded(self) -> None:
        """Goes on with what was under way: open transactions time out, decided ones get their markers."""
        self._is_loaded = True
        for transaction in self._transactions.values():
            if transaction.is_ending:
                self._finish_later(transaction, 0)
            else:
                self._watch(transaction)

    def on_unloaded(self) -> None:
        ending = frozenset(one.transactional_id for one in self._transactions.values() if one.is_ending)
        self._transactions.clear()
        if ending:
            self._context.left_to_others(ending)

    def counts(self) -> Mapping[str, int]:
        return {"transactions": len(self._transactions)}


def _record(transaction: Transaction) -> tuple[str, Transaction]:
    return transaction.transactional_id, transaction
