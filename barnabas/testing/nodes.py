"""The nodes of a cluster together: which of them move, who controls, and what they agree on."""

from collections.abc import Collection, Iterator

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import MetadataImage, PartitionImage
from barnabas.testing.node import ClusterNode
from barnabas.testing.runtime import Runtime


class Nodes:
    """What it says is true on the nodes' thread, in the turn in which it is asked."""

    def __init__(self, runtime: Runtime, voters: Collection[int], open_files_max: int) -> None:
        self.runtime = runtime
        self.open_files_max = open_files_max
        self._voters = voters
        self.by_id: dict[int, ClusterNode] = {}

    @property
    def moving(self) -> Iterator[ClusterNode]:
        """Yields the nodes that run and are not paused."""
        return (node for node in self.by_id.values() if node.is_running and not node.is_paused)

    def reachable_from(self, node: ClusterNode) -> list[ClusterNode]:
        return [other for other in self.moving if self.runtime.hub.can_reach(node.node_id, other.node_id)]

    def can_elect(self, node: ClusterNode) -> bool:
        """Returns whether this node is among a majority of the voters: it has a controller, or will have one."""
        voters = [other for other in self.reachable_from(node) if other.node_id in self._voters]
        return len(voters) > len(self._voters) // 2

    def has_joined(self, node: ClusterNode) -> bool:
        """Returns whether the node serves clients, and every node that it can reach knows. Raises the error that ended
        it meanwhile."""
        if node.process is None or not node.process.is_alive:
            raise (node.process and node.process.error) or RuntimeError(f"node {node.node_id} does not run any more")
        broker_epoch = node.process.broker_epoch
        return node.process.is_ready and all(
            other.process is not None and other.process.is_ready and other.process.knows(node.node_id, broker_epoch)
            for other in self.reachable_from(node)
        )

    @property
    def controller_id(self) -> int | None:
        """Returns the active controller; of several who think they are, the one of the latest epoch."""
        epochs = {node.process.controller_epoch: node.node_id for node in self.moving if node.process is not None}
        latest = max(epochs, default=-1)
        return epochs[latest] if latest >= 0 else None

    @property
    def image(self) -> MetadataImage:
        """Returns the newest metadata that any node has applied."""
        images = [node.process.image for node in self.moving if node.process is not None]
        found = [image for image in images if image is not None]
        if not found:
            raise RuntimeError("no node of the cluster moves")
        return max(found, key=lambda image: image.end_offset)

    @property
    def images(self) -> list[MetadataImage]:
        """Returns the metadata of each node that moves and is not cut off, as far as it has some."""
        images = [node.process.image for node in self.moving if self.can_elect(node) and node.process is not None]
        return [image for image in images if image is not None]

    @property
    def out_of_sync(self) -> dict[TopicPartition, set[int]]:
        """Returns the replicas that are not in sync, by partition. Those of a node that does not move are not, even if
        the others have not noticed so far."""
        moving = {node.node_id for node in self.moving}
        return {
            TopicPartition(topic.name, index): missing
            for topic in self.image.topics.values()
            for index, partition in enumerate(topic.partitions)
            if (missing := {*partition.replicas} - ({*partition.isr} & moving))
        }

    def partition(self, topic: str, partition: int) -> PartitionImage:
        found = self.image.topic(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            raise KafkaError(f"there is no partition {topic}-{partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return found.partitions[partition]
