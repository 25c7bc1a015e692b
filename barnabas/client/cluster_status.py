"""The state of a cluster: its nodes, the quorum of its controllers, and who leads what."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.cluster import Cluster
from barnabas.client.errors import check
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    ReplicaState,
)
from barnabas.protocol.types import TopicPartition

_METADATA_TOPIC = "__cluster_metadata"


class QuorumReplica(NamedTuple):
    node_id: int
    log_end_offset: int
    lag: int
    """How many records it is behind the leader."""
    last_caught_up_ms: int
    """When it was last caught up, by the leader's clock; -1 for the leader, and where nobody knows."""


class Quorum(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    addresses: dict[int, Address]
    """Where the voters listen for each other, if that is told."""


class NodeStatus(NamedTuple):
    node_id: int
    address: Address | None
    """Where clients find it; None for a node that is a controller only."""
    rack: str | None
    roles: tuple[str, ...]
    is_fenced: bool
    leads: int
    """The partitions that it leads."""
    replicas: int
    """The partitions that it has a replica of."""


class ClusterStatus(NamedTuple):
    cluster_id: str
    controller_id: int
    """The leader of the quorum; where that is not told, a broker that passes requests on to it."""
    nodes: list[NodeStatus]
    quorum: Quorum | None
    why_no_quorum: str
    partitions: int
    leaderless: list[TopicPartition]
    under_replicated: list[TopicPartition]


def cluster_status(client: Client) -> ClusterStatus:
    cluster = client.metadata()
    described = client.request(
        DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True),
        DescribeClusterResponse,
    )
    check(described.error_code, described.error_message, "the cluster cannot be described")
    quorum, why_not = None, ""
    try:
        quorum = describe_quorum(client)
    except KafkaError as error:  # an older broker, or one that finds no controller: the rest is worth showing
        why_not = f"{error.message} ({error.code.name})"
    return ClusterStatus(
        described.cluster_id,
        quorum.leader_id if quorum is not None else described.controller_id,
        _nodes(described, quorum, cluster),
        quorum,
        why_not,
        sum(len(topic.partitions) for topic in cluster.topics.values()),
        *_in_trouble(cluster),
    )


def describe_quorum(client: Client) -> Quorum:
    topic = DescribeQuorumTopic(topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)])
    response = client.request(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    check(response.error_code, response.error_message, "the quorum cannot be described")
    (partition,) = (partition for topic in response.topics for partition in topic.partitions)
    check(partition.error_code, partition.error_message, "the quorum cannot be described")
    end = max((each.log_end_offset for each in partition.current_voters), default=0)
    listeners = {node.node_id: node.listeners[0] for node in response.nodes if node.listeners}
    return Quorum(
        partition.leader_id,
        partition.leader_epoch,
        partition.high_watermark,
        _replicas(partition.current_voters, end),
        _replicas(partition.observers, end),
        {node_id: Address(listener.host, listener.port) for node_id, listener in listeners.items()},
    )


def _replicas(states: Iterable[ReplicaState], end: int) -> list[QuorumReplica]:
    return sorted(
        QuorumReplica(
            state.replica_id,
            state.log_end_offset,
            max(0, end - max(0, state.log_end_offset)),
            state.last_caught_up_timestamp,
        )
        for state in states
    )


def _nodes(described: DescribeClusterResponse, quorum: Quorum | None, cluster: Cluster) -> list[NodeStatus]:
    voters = {voter.node_id for voter in quorum.voters} if quorum is not None else set()
    brokers = {broker.broker_id: broker for broker in described.brokers}
    partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions]
    leads = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(node_id for partition in partitions for node_id in partition.replicas)
    nodes = []
    for node_id in sorted({*brokers, *voters}):
        broker = brokers.get(node_id)
        roles = (("broker",) if broker else ()) + (("controller",) if node_id in voters else ())
        nodes.append(
            NodeStatus(
                node_id,
                Address(broker.host, broker.port) if broker else None,
                broker.rack if broker else None,
                roles,
                broker.is_fenced if broker else False,
                leads[node_id],
                replicas[node_id],
            )
        )
    return nodes


def _in_trouble(cluster: Cluster) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Returns the partitions without a leader, and those some of whose replicas are not in sync."""
    leaderless, behind = [], []
    for name, topic in sorted(cluster.topics.items()):
        for partition in topic.partitions:
            if partition.leader_id < 0:
                leaderless.append(TopicPartition(name, partition.partition_index))
            if len(partition.isr) < len(partition.replicas):
                behind.append(TopicPartition(name, partition.partition_index))
    return leaderless, behind
