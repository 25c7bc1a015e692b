"""The leader's address in the answer to a client that asked another broker (KIP-951): it need not ask for metadata.

As in Kafka, Produce says it with NOT_LEADER_OR_FOLLOWER since version 10, Fetch also with FENCED_LEADER_EPOCH and since
version 16.
"""

from barnabas.broker.network.session import Session
from barnabas.broker.node import Node
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage

_LEADERS_SINCE = 10


def described_partition(image: MetadataImage, topic: str | Uuid, index: int) -> PartitionImage | None:
    """Returns the partition of a topic that is given by its name or its id, if there is one."""
    found = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
    return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


def name_leaders(node: Node, session: Session, api_version: int, response: ProduceResponse) -> None:
    """Adds to the answer of a Produce who leads the partitions that are not led here."""
    if api_version < _LEADERS_SINCE:
        return
    leaders = set()
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            described = described_partition(node.image, topic.name or topic.topic_id, partition.index)
            if described is not None:
                partition.current_leader = LeaderIdAndEpoch(
                    leader_id=described.leader, leader_epoch=described.leader_epoch
                )
                leaders.add(described.leader)
    if leaders - {NO_LEADER}:
        response.node_endpoints = [
            NodeEndpoint(node_id=registered.broker_id, host=host, port=port, rack=registered.rack)
            for registered, host, port in node.endpoints(session)
            if registered.broker_id in leaders
        ]
