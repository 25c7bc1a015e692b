"""Writes the markers of transactions whose partitions this broker leads."""

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise, resolved
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.protocol.errors import UnknownTopicOrPartition
from barnabas.storage.transactions.marker import TransactionMarker


class LocalMarkers:
    """Implements `MarkerSender`."""

    def __init__(self, replicas: ReplicaManager, clock: Clock) -> None:
        self._replicas = replicas
        self._clock = clock

    def send(self, markers: TransactionMarkers) -> Promise[None]:
        marker = TransactionMarker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            coordinator_epoch=markers.coordinator_epoch,
            is_committed=markers.is_committed,
            transaction_version=markers.transaction_version,
        )
        for topic, index in sorted(markers.partitions):
            try:
                self._replicas.partition(topic, index).end_transaction(marker, self._clock.now_ms())
            except UnknownTopicOrPartition:
                continue  # deleted meanwhile
        return resolved(None)

    def forget(self, transactional_ids: frozenset[str]) -> None:
        """Does nothing: nothing waits."""
