"""What the coordinator hands over when a transaction is decided: the markers that have to be written."""

from typing import Protocol

from barnabas.base.promise import Promise
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition


class TransactionMarkers(NamedTuple):
    """The markers of one transaction, one for each of its partitions. `transaction_version` is that by whose rules it
    was ended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


class MarkerSender(Protocol):
    """Has markers written by the leaders of their partitions, however long that takes."""

    def send(self, markers: TransactionMarkers) -> Promise[None]:
        """Returns a promise that is kept when every partition has its marker, committed, or is gone. It fails with
        TransactionCoordinatorFenced or InvalidProducerEpoch where a newer coordinator is at work."""
        ...

    def left(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        """Returns the partitions without a marker so far; None if markers of this id are not being sent."""
        ...

    def forget(self, transactional_ids: frozenset[str]) -> None:
        """Sends no more markers of these: another broker coordinates them now. Their promises are never kept."""
        ...
