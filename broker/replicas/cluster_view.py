"""The cluster as the leaders of this broker see it: who is active, in which life, and who is asked for changes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.replication.metadata.image import MetadataImage

if TYPE_CHECKING:
    from barnabas.broker.replicas.leader import LeaderPartition
    from barnabas.replication.isr import IsrChange

Propose = Callable[["LeaderPartition", "IsrChange"], None]


class ClusterView:
    """Implements `Cluster` of `leader.py`."""

    __slots__ = ("image", "node_id", "propose", "replica_lag_time_max_ms")

    def __init__(self, node_id: int, image: MetadataImage, propose: Propose, *, replica_lag_time_max_ms: int) -> None:
        self.node_id = node_id
        self.image = image
        self.propose = propose
        self.replica_lag_time_max_ms = replica_lag_time_max_ms

    def active_epoch(self, broker_id: int) -> int | None:
        broker = self.image.brokers.get(broker_id)
        return broker.broker_epoch if broker is not None and broker.is_active else None

    def broker_epoch(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return -1 if broker is None else broker.broker_epoch
