"""Appends of transactional batches, each of them once it is known to belong to its transaction.

- A batch that goes on with an open transaction is appended at once. The first of a transaction in its partition gets a
  guard from the log, and the coordinator is asked (`verification.py`).
- Producers do not wait for one batch before they send the next. What arrives while the first is being verified queues
  behind it, for each producer and partition. Apache Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER, and it comes again.
- If the first is refused, those of the same epoch behind it are refused like it: none of them may take its place.
- By the rules of version 2 the next transaction begins while the markers of the last are still on their way. The answer
  CONCURRENT_TRANSACTIONS to that is not for the producer until `add.partitions.to.txn.retry.backoff.max.ms` are over.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.transactions.verification import ClientVersion, Refusals, TransactionVerifier
from barnabas.protocol.errors import ErrorCode, KafkaError, NotEnoughReplicas
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.transactions.guards import VerificationGuard

_COORDINATOR_IS_AWAY = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    )
)


class TransactionalProducer(NamedTuple):
    """Who sends batches in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    client_version: ClientVersion


class TransactionalBatch(Protocol):
    """A batch that is to be appended to a partition of this broker."""

    @property
    def partition(self) -> LeaderPartition: ...

    @property
    def base_sequence(self) -> int: ...

    def keep(self) -> None:
        """Copies the batch out of the buffer in which it came: the buffer is about to be used again."""
        ...

    def append(self, guard: VerificationGuard | None) -> None: ...

    def refuse(self, error: KafkaError) -> None: ...


class _Attempt(NamedTuple):
    number: int
    deadline_ms: int
    """Until when CONCURRENT_TRANSACTIONS is no answer."""


_Sent = tuple[TransactionalProducer, TransactionalBatch]
_Queue = tuple[LeaderPartition, int]
"""A partition and a producer id. A partition that is led again is another one."""
_Decided = tuple[TransactionalBatch, KafkaError | None]
"""A batch that was appended, or refused; and the coordinator's refusal, which holds for what comes after it."""


class VerifiedAppends:
    def __init__(self, verifier: TransactionVerifier, clock: Clock, config: Callable[[], BrokerConfig]) -> None:
        self._verifier = verifier
        self._clock = clock
        self._config = config
        self._queues: dict[_Queue, deque[_Sent]] = {}
        """What waits behind a batch that is being verified."""

    def append(self, producer: TransactionalProducer, batches: Sequence[TransactionalBatch]) -> None:
        """Appends or refuses each batch, now or later."""
        first = []
        for batch in batches:
            queue = self._queues.get((batch.partition, producer.producer_id))
            if queue is None:
                first.append(batch)
            else:
                batch.keep()
                queue.append((producer, batch))
        self._try(producer, first, self._first_attempt())

    def _first_attempt(self) -> _Attempt:
        return _Attempt(0, self._clock.monotonic_ms() + self._config().add_partitions_to_txn_retry_backoff_max_ms)

    def _try(
        self, producer: TransactionalProducer, batches: Sequence[TransactionalBatch], attempt: _Attempt
    ) -> list[_Decided]:
        """Asks about what the log alone cannot decide. Returns what is decided by now; the rest goes on by itself."""
        decided: list[_Decided] = []
        begun: list[tuple[TransactionalBatch, VerificationGuard]] = []
        must_ask = (
            producer.client_version >= ClientVersion.V2 or self._config().transaction_partition_verification_enable
        )
        for batch in batches:
            try:
                guard = self._begin(producer, batch)
            except KafkaError as error:
                batch.refuse(error)
                decided.append((batch, None))
                continue
            if guard is not None and must_ask:
                begun.append((batch, guard))
            else:
                batch.append(guard)
                decided.append((batch, None))
        if not begun:
            return decided
        answer = self._ask(producer, [batch for batch, _ in begun])
        if answer.done:
            return decided + self._settle(producer, begun, answer.value, attempt)
        self._hold(producer, [batch for batch, _ in begun])
        answer.when_done(lambda kept: self._go_on(producer, self._settle(producer, begun, kept.value, attempt)))
        return decided

    def _begin(self, producer: TransactionalProducer, batch: TransactionalBatch) -> VerificationGuard | None:
        return batch.partition.begin_verification(
            producer.producer_id,
            producer.producer_epoch,
            batch.base_sequence,
            is_v2=producer.client_version >= ClientVersion.V2,
        )

    def _ask(self, producer: TransactionalProducer, batches: Sequence[TransactionalBatch]) -> Promise[Refusals]:
        return self._verifier.verify(
            producer.transactional_id,
            producer.producer_id,
            producer.producer_epoch,
            [batch.partition.topic_partition for batch in batches],
            client_version=producer.client_version,
        )

    def _settle(
        self,
        producer: TransactionalProducer,
        begun: Sequence[tuple[TransactionalBatch, VerificationGuard]],
        refusals: Refusals,
        attempt: _Attempt,
    ) -> list[_Decided]:
        """Returns what the coordinator's answer decides; what it leaves open is asked again."""
        decided: list[_Decided] = []
        again = []
        may_ask_again = producer.client_version >= ClientVersion.V2 and self._clock.monotonic_ms() < attempt.deadline_ms
        for batch, guard in begun:
            refusal = refusals.get(batch.partition.topic_partition)
            if refusal is None:
                batch.append(guard)
            elif refusal.code == ErrorCode.CONCURRENT_TRANSACTIONS and may_ask_again:
                again.append(batch)
                continue
            else:
                refusal = _produce_error(refusal, producer.client_version)
                batch.refuse(refusal)
            decided.append((batch, refusal))
        if again:
            self._hold(producer, again)
            self._clock.call_later(self._pause_ms(attempt), self._try_again, producer, again, attempt)
        return decided

    def _pause_ms(self, attempt: _Attempt) -> int:
        """Returns how long to wait for the end of the last transaction. Most markers take less than a millisecond, so
        the first pauses are shorter than Kafka's."""
        return min(1 << attempt.number, self._config().add_partitions_to_txn_retry_backoff_ms)

    def _try_again(
        self, producer: TransactionalProducer, batches: Sequence[TransactionalBatch], attempt: _Attempt
    ) -> None:
        self._go_on(producer, self._try(producer, batches, attempt._replace(number=attempt.number + 1)))

    # ---- what waits behind it

    def _hold(self, producer: TransactionalProducer, batches: Sequence[TransactionalBatch]) -> None:
        """Lets what comes after these batches wait for them."""
        for batch in batches:
            batch.keep()
            self._queues.setdefault((batch.partition, producer.producer_id), deque())

    def _go_on(self, producer: TransactionalProducer, decided: Sequence[_Decided]) -> None:
        """Takes up what has waited for these batches."""
        for batch, refusal in decided:
            name, epoch = (batch.partition, producer.producer_id), producer.producer_epoch
            queue = self._queues.get(name)
            while queue:
                waiting, next_batch = queue.popleft()
                if refusal is not None and waiting.producer_epoch == epoch:
                    next_batch.refuse(refusal)
                    continue
                found = self._try(waiting, [next_batch], self._first_attempt())
                if not found:
                    break  # it is being verified itself, and the others wait for it now
                refusal, epoch = found[0][1], waiting.producer_epoch
            else:
                self._queues.pop(name, None)


def _produce_error(refusal: KafkaError, client_version: ClientVersion) -> KafkaError:
    """Returns what a producer is told. NOT_ENOUGH_REPLICAS has any client send the batch again, without asking for
    metadata first; a client of version 2 knows CONCURRENT_TRANSACTIONS itself."""
    is_early = refusal.code == ErrorCode.CONCURRENT_TRANSACTIONS and client_version < ClientVersion.V2
    if is_early or refusal.code in _COORDINATOR_IS_AWAY:
        return NotEnoughReplicas(f"the transaction could not be verified: {refusal.message}")
    return refusal
