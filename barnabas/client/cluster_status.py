"""The state of a cluster: its nodes, the quorum of its controllers, who leads what, and how far replicas are."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from barnabas.base.network import Address
from barnabas.client.admin import Resource, describe_configs
from barnabas.client.client import Client
from barnabas.client.cluster import Partition, partitions_of
from barnabas.client.errors import check
from barnabas.client.replicas.eligible import eligible_leaders
from barnabas.client.replicas.failed_dirs import failed_log_dirs
from barnabas.client.replicas.log_ends import LogEnds, lags, log_ends
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    ReplicaState,
)
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

Partitions = Mapping[TopicPartition, Partition]
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
    lag: int | None = None
    """How many records its replicas are behind their leaders, together; None if it was not asked."""


class PartitionTrouble(NamedTuple):
    """A partition that lacks a leader, or a replica that is in sync."""

    name: TopicPartition
    partition: Partition
    min_in_sync: int
    """How many replicas must be in sync before anything is acknowledged to acks=all."""
    eligible: tuple[int, ...]
    """Those that may lead although they are not in sync (KIP-966)."""
    lags: dict[int, int | None]
    """How many records each follower is behind the leader; None where nobody knows."""

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.partition.isr) < self.min_in_sync


class ClusterStatus(NamedTuple):
    cluster_id: str
    controller_id: int
    """The leader of the quorum; where that is not told, a broker that passes requests on to it."""
    nodes: list[NodeStatus]
    quorum: Quorum | None
    why_no_quorum: str
    partitions: int
    troubles: list[PartitionTrouble]
    failed_log_dirs: dict[int, list[str]]
    """The paths of log dirs that have failed, by broker."""

    @property
    def leaderless(self) -> list[TopicPartition]:
        return [trouble.name for trouble in self.troubles if trouble.partition.leader_id < 0]

    @property
    def under_replicated(self) -> list[TopicPartition]:
        return [each.name for each in self.troubles if len(each.partition.isr) < len(each.partition.replicas)]

    @property
    def under_min_isr(self) -> list[TopicPartition]:
        return [trouble.name for trouble in self.troubles if trouble.is_under_min_isr]


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
    partitions = partitions_of(cluster)
    ends = log_ends(client, cluster, partitions)
    return ClusterStatus(
        described.cluster_id,
        quorum.leader_id if quorum is not None else described.controller_id,
        _nodes(described, quorum, partitions, ends),
        quorum,
        why_not,
        len(partitions),
        _troubles(client, partitions, ends),
        failed_log_dirs(client, cluster.brokers),
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


def _nodes(
    described: DescribeClusterResponse, quorum: Quorum | None, partitions: Partitions, ends: LogEnds
) -> list[NodeStatus]:
    voters = {voter.node_id for voter in quorum.voters} if quorum is not None else set()
    brokers = {broker.broker_id: broker for broker in described.brokers}
    leads = Counter(partition.leader_id for partition in partitions.values())
    replicas = Counter(node_id for partition in partitions.values() for node_id in partition.replicas)
    behind = _lags_of_brokers(partitions, ends)
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
                behind.get(node_id),
            )
        )
    return nodes


def _lags_of_brokers(partitions: Partitions, ends: LogEnds) -> dict[int, int]:
    """Returns how many records each broker that answered is behind, in all partitions together."""
    behind = dict.fromkeys({broker_id for each in ends.values() for broker_id in each}, 0)
    for name, partition in partitions.items():
        for broker_id, lag in lags(partition, ends[name]).items():
            if broker_id in behind:
                behind[broker_id] += lag or 0
    return behind


def _troubles(client: Client, partitions: Partitions, ends: LogEnds) -> list[PartitionTrouble]:
    troubled = {
        name: partition
        for name, partition in partitions.items()
        if partition.leader_id < 0 or len(partition.isr) < len(partition.replicas)
    }
    topics = {name.topic for name in troubled}
    minima = _min_in_sync(client, topics)
    eligible = eligible_leaders(client, topics)
    return [
        PartitionTrouble(
            name,
            partition,
            min(minima.get(name.topic, 1), len(partition.replicas)),
            eligible.get(name, ()),
            lags(partition, ends[name]),
        )
        for name, partition in troubled.items()
    ]


def _min_in_sync(client: Client, topics: Collection[str]) -> dict[str, int]:
    if not topics:
        return {}
    resources = [Resource(ResourceType.TOPIC, topic) for topic in sorted(topics)]
    return {
        resource.name: int(entry.value)
        for resource, entries in describe_configs(client, resources, keys=["min.insync.replicas"]).items()
        for entry in entries
        if entry.value is not None
    }
