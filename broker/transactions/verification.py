"""Asks the coordinator of a transaction about partitions that are written to in it (KIP-890).

- A client of version 1 has added its partitions to the transaction before it writes to them: that is verified. A client
  of version 2 leaves it to us: the first write adds the partition.
- Where this broker coordinates the transactional id, the question is a call, and often answered by the time it returns.
  Otherwise it travels (`remote_coordinators.py`). What is asked, and what the answers mean, is the same.
- Nothing is remembered here. Whether a partition has an open transaction is known to its log, which hands out a guard
  before the question and wants it back with the append.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from typing import Protocol

from barnabas.base.promise import Promise, resolved
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.transactions.brokers import Brokers
from barnabas.broker.transactions.remote_coordinators import Outcome, RemoteCoordinators
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import NO_LEADER, TRANSACTION_STATE_TOPIC

Refusals = dict[TopicPartition, KafkaError]
"""Why partitions cannot be written to in the transaction; the others can."""

TRANSACTION_VERSION_2 = 2


class ClientVersion(IntEnum):
    """What a client knows of transactions; the version of its request tells."""

    OLD = 0
    """Adds partitions itself, and does not know TRANSACTION_ABORTABLE."""
    V1 = 1
    """Adds partitions itself."""
    V2 = 2
    """Has its partitions added by what it writes."""

    @classmethod
    def of_produce(cls, api_version: int) -> "ClientVersion":
        return cls.V2 if api_version >= 12 else cls.V1 if api_version == 11 else cls.OLD

    @classmethod
    def of_txn_offset_commit(cls, api_version: int) -> "ClientVersion":
        return cls.V2 if api_version >= 5 else cls.V1 if api_version == 4 else cls.OLD


class Coordinator(Protocol):
    """The transaction coordinator of this broker."""

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
    ) -> Promise[None]:
        """Adds all of them or, failing with a KafkaError, none."""
        ...

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> Promise[dict[TopicPartition, ErrorCode]]: ...


class TransactionVerifier:
    def __init__(self, brokers: Brokers, coordinator: Callable[[], Coordinator]) -> None:
        self._brokers = brokers
        self._coordinator = coordinator
        self._remote: RemoteCoordinators | None = None
        self._is_closed = False

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        client_version: ClientVersion,
    ) -> Promise[Refusals]:
        """Returns a promise of what cannot be written to: nothing if all partitions belong to the transaction, or were
        added to it. It does not fail."""
        leader = self._coordinator_of(transactional_id)
        asked = (transactional_id, producer_id, producer_epoch, partitions)
        if leader == NO_LEADER or self._is_closed:
            answer = resolved(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        elif leader == self._brokers.node_id:
            answer = self._ask_here(*asked, client_version=client_version)
        else:
            if self._remote is None:
                self._remote = RemoteCoordinators(self._brokers)
            answer = self._remote.ask(leader, *asked, verify_only=client_version < ClientVersion.V2)
        return answer.map(lambda outcome: _refusals(outcome, client_version))

    def close(self) -> None:
        """Answers what waits with an error after which the client asks another broker, or later."""
        self._is_closed = True
        if self._remote is not None:
            self._remote.close()

    def _coordinator_of(self, transactional_id: str) -> int:
        topic = self._brokers.image().topic(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        return topic.partitions[java_hash(transactional_id) % len(topic.partitions)].leader

    def _ask_here(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        client_version: ClientVersion,
    ) -> Promise[Outcome]:
        asked = (transactional_id, producer_id, producer_epoch, partitions)

        def refuse_all(error: KafkaError) -> Outcome:
            return dict.fromkeys(partitions, error.code)

        if client_version < ClientVersion.V2:
            return self._coordinator().verify_partitions(*asked).or_else(refuse_all)
        added = self._coordinator().add_partitions(*asked, client_version=TRANSACTION_VERSION_2)
        return added.map(lambda _: dict.fromkeys(partitions, ErrorCode.NONE)).or_else(refuse_all)


def _refusals(outcome: Mapping[TopicPartition, ErrorCode], client_version: ClientVersion) -> Refusals:
    return {name: _refusal(name, code, client_version) for name, code in outcome.items() if code != ErrorCode.NONE}


def _refusal(name: TopicPartition, code: ErrorCode, client_version: ClientVersion) -> KafkaError:
    """Returns what a client of this version is told. Partition leaders never answer PRODUCER_FENCED, as in Kafka: it
    would mean something else to clients."""
    text = f"the coordinator answers {code.name} for {name}"
    if code == ErrorCode.PRODUCER_FENCED:
        return KafkaError(text, ErrorCode.INVALID_PRODUCER_EPOCH)
    if code == ErrorCode.TRANSACTION_ABORTABLE and client_version == ClientVersion.OLD:
        return KafkaError(f"{name} was not added to the transaction", ErrorCode.INVALID_TXN_STATE)
    return KafkaError(text, code)
