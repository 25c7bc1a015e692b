"""A cluster as a client sees it: what Metadata answers, as values."""

from collections.abc import Iterable
from typing import Any

from barnabas.base.network import Address
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition, Uuid


class Partition(NamedTuple):
    partition_index: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: ErrorCode


class Topic(NamedTuple):
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[Partition, ...]
    """In the order of their indexes."""


class Cluster(NamedTuple):
    cluster_id: str | None
    controller_id: int
    brokers: dict[int, Address]
    topics: dict[str, Topic]
    errors: dict[str, ErrorCode]
    """Why topics that were asked for are not in `topics`, by name."""


def partitions_of(cluster: Cluster) -> dict[TopicPartition, Partition]:
    """Returns all partitions, by name and in order."""
    return {
        TopicPartition(name, partition.partition_index): partition
        for name, topic in sorted(cluster.topics.items())
        for partition in topic.partitions
    }


def by_leader(partitions: Iterable[Partition]) -> dict[int, list[Partition]]:
    groups: dict[int, list[Partition]] = {}
    for partition in partitions:
        groups.setdefault(partition.leader_id, []).append(partition)
    return groups


def partitions_by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Groups the partitions that have a leader by that leader."""
    leaders: dict[int, list[TopicPartition]] = {}
    wanted = set(partitions)
    for name in sorted({partition.topic for partition in wanted} & set(cluster.topics)):
        for partition in cluster.topics[name].partitions:
            each = TopicPartition(name, partition.partition_index)
            if each in wanted and partition.leader_id >= 0:
                leaders.setdefault(partition.leader_id, []).append(each)
    return leaders


def cluster_of(response: MetadataResponse, brokers: dict[int, Address]) -> Cluster:
    topics: dict[str, Topic] = {}
    errors: dict[str, ErrorCode] = {}
    for topic in response.topics:
        name = topic.name or ""
        if topic.error_code:
            errors[name] = ErrorCode(topic.error_code)
            continue
        partitions = sorted(map(_partition, topic.partitions))
        topics[name] = Topic(name, topic.topic_id, topic.is_internal, tuple(partitions))
    return Cluster(response.cluster_id, response.controller_id, brokers, topics, errors)


def _partition(partition: Any) -> Partition:
    return Partition(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        ErrorCode(partition.error_code),
    )
