"""Writes the markers of partitions that this broker leads."""

from collections.abc import Callable
from typing import Protocol

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise, failed, resolved
from barnabas.broker.replicas.leader import ACKS_ALL
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.transactions.brokers import REQUEST_TIMEOUT_MS
from barnabas.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollower
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC
from barnabas.storage.transactions.marker import TransactionMarker

_OF_COORDINATORS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Groups(Protocol):
    """The group coordinator of this broker, which has to know what becomes of the offsets in its partitions."""

    def end_transaction(self, index: int, marker: TransactionMarker) -> Promise[None]:
        """Writes a marker to a partition of `__consumer_offsets`. Fails as the leader of any partition does."""
        ...


class MarkerWriter:
    def __init__(self, replicas: ReplicaManager, groups: Callable[[], Groups], clock: Clock) -> None:
        self._replicas = replicas
        self._groups = groups
        self._clock = clock

    def write(self, partition: TopicPartition, marker: TransactionMarker) -> Promise[None]:
        """Returns a promise that is kept when the marker is committed, often at once. It fails with a KafkaError."""
        if partition.topic == GROUP_METADATA_TOPIC:
            return _as_a_leader_says_it(self._groups().end_transaction(partition.partition, marker))
        try:
            leader = self._replicas.partition(*partition)
            info = leader.end_transaction(marker, self._clock.now_ms())
        except KafkaError as error:
            return failed(error)
        if leader.is_acknowledged(info, ACKS_ALL):
            return resolved(None)
        written = _Written()
        leader.when_acknowledged(info, ACKS_ALL, written, REQUEST_TIMEOUT_MS)
        return written


def _as_a_leader_says_it(ended: Promise[None]) -> Promise[None]:
    """Returns the promise with an error that senders of markers know: they ask for leaders, not for coordinators."""
    told: Promise[None] = Promise(ended.abandon)

    def settle(kept: Promise[None]) -> None:
        if kept.error is None:
            told.resolve(None)
        elif isinstance(kept.error, KafkaError) and kept.error.code in _OF_COORDINATORS:
            told.fail(NotLeaderOrFollower(kept.error.message))
        else:
            told.fail(kept.error)

    ended.when_done(settle)
    return told


class _Written(Promise[None]):
    """The promise of a marker, which waits like any append."""

    __slots__ = ()

    def on_append_done(self, error: KafkaError | None) -> None:
        if error is None:
            self.resolve(None)
        else:
            self.fail(error)
