"""The cluster around a leader, as its tests arrange it, and those who wait for its appends."""

from collections.abc import Callable

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.errors import KafkaError
from barnabas.replication.isr import IsrChange
from barnabas.replication.metadata.image import PartitionImage

ALONE = PartitionImage(leader=1, leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,))


class Brokers:
    """Implements `Cluster`: the brokers that are active, by their epochs, and what was asked of the controller."""

    node_id = 1
    replica_lag_time_max_ms = 30_000

    def __init__(self, epochs: dict[int, int] | None = None) -> None:
        self.active = dict(epochs or {})
        self.proposed: list[IsrChange] = []

    def active_epoch(self, broker_id: int) -> int | None:
        return self.active.get(broker_id)

    def broker_epoch(self, broker_id: int) -> int:
        return self.active.get(broker_id, -1)

    def propose(self, _partition: LeaderPartition, change: IsrChange) -> None:
        self.proposed.append(change)


class Appended:
    """Waits for an append."""

    def __init__(self, told: Callable[[KafkaError | None], None]) -> None:
        self.on_append_done = told
