"""What Metadata and DescribeTopicPartitions say of leaders and replicas, to the clients of one listener.

As in Kafka, a replica is offline if its broker is not registered, fenced, without this listener, or has lost the log
dir that it is in; and a leader that clients of this listener cannot reach is none. Ours: a broker that is suspected to
be dead counts as if it were not registered.
"""

from collections.abc import Collection, Sequence

from barnabas.replication.controller.partitions.directories import UNASSIGNED_DIRECTORY, is_online
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage


class ReplicaStates:
    """The states in one image. It is asked for each partition of each topic, so it looks at every broker only once."""

    __slots__ = ("_online", "_reachable", "registered")

    def __init__(self, image: MetadataImage, listener: str, suspected: Collection[int] = ()) -> None:
        self.registered = {
            broker_id: broker for broker_id, broker in image.brokers.items() if broker_id not in suspected
        }
        self._reachable = {
            broker_id: broker for broker_id, broker in self.registered.items() if listener in broker.endpoints
        }
        self._online = {broker_id: broker for broker_id, broker in self._reachable.items() if not broker.fenced}

    def leader(self, partition: PartitionImage) -> int:
        return partition.leader if partition.leader in self._reachable else NO_LEADER

    def online(self, replicas: Sequence[int]) -> Sequence[int]:
        """Returns those whose broker is there, whatever became of its dirs."""
        return [replica for replica in replicas if replica in self._online]

    def offline(self, partition: PartitionImage) -> Sequence[int]:
        directories = partition.directories or (UNASSIGNED_DIRECTORY,) * len(partition.replicas)
        return [
            replica
            for replica, directory in zip(partition.replicas, directories)
            if (broker := self._online.get(replica)) is None or not is_online(broker, directory)
        ]
