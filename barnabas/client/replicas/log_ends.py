"""How far each replica has come.

No API of Kafka says how far a follower is behind: DescribeLogDirs measures a replica against its own high watermark.
But a tool may ask any replica where its log ends (ListOffsets as replica -2), and the leader's log is the longest.
"""

from collections.abc import Iterable, Mapping

from barnabas.client.admin import LATEST
from barnabas.client.client import Client
from barnabas.client.cluster import Cluster, Partition
from barnabas.client.errors import Unreachable
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.protocol.types import TopicPartition

_ANY_REPLICA = -2

LogEnds = Mapping[TopicPartition, Mapping[int, int]]
"""Where the log of each replica ends, by partition and broker; without those that did not answer."""


def log_ends(client: Client, cluster: Cluster, partitions: Mapping[TopicPartition, Partition]) -> LogEnds:
    """Asks every broker once for all that it has of these partitions."""
    found: dict[TopicPartition, dict[int, int]] = {name: {} for name in partitions}
    for broker_id in cluster.brokers:
        theirs = [name for name, partition in partitions.items() if broker_id in partition.replicas]
        if theirs:
            for name, end_offset in _ends_on(client, broker_id, theirs):
                found[name][broker_id] = end_offset
    return found


def _ends_on(client: Client, broker_id: int, names: Iterable[TopicPartition]) -> list[tuple[TopicPartition, int]]:
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in names:
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    topics = [ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in by_topic.items()]
    request = ListOffsetsRequest(replica_id=_ANY_REPLICA, topics=topics, timeout_ms=int(client.timeout_s * 1000))
    try:
        response = client.node(broker_id).request(request, ListOffsetsResponse)
    except (Unreachable, KafkaError):  # it has gone since the metadata were read: then nobody knows
        client.forget(broker_id)
        return []
    return [
        (TopicPartition(topic.name, answer.partition_index), answer.offset)
        for topic in response.topics
        for answer in topic.partitions
        if not answer.error_code and answer.offset >= 0
    ]


def lags(partition: Partition, ends: Mapping[int, int]) -> dict[int, int | None]:
    """Returns how many records each follower is behind its leader; None where nobody knows."""
    leader_end = ends.get(partition.leader_id)
    return {
        replica: max(0, leader_end - ends[replica]) if leader_end is not None and replica in ends else None
        for replica in partition.replicas
        if replica != partition.leader_id
    }
