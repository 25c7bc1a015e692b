"""DescribeQuorum: what the leader knows of voters and observers (KIP-836, KIP-853)."""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    Listener,
    Node,
    ReplicaState,
)
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.replication.quorum.leader import Leader
from barnabas.replication.quorum.messages import partition_of
from barnabas.replication.quorum.replica import QuorumReplica
from barnabas.replication.quorum.voters import ReplicaKey, VoterNode

OBSERVER_SESSION_MS = 5 * 60 * 1_000
"""An observer that has not fetched for so long is no longer listed."""


def handle_describe_quorum(
    replica: QuorumReplica, request: DescribeQuorumRequest, *, now_ms: int
) -> DescribeQuorumResponse:
    state = replica.state
    if partition_of(request) is None:
        return _refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not isinstance(state, Leader):
        return _refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    observers = [
        key
        for key, progress in state.progress.items()
        if key not in replica.voters.keys and progress.last_fetch_ms > now_ms - OBSERVER_SESSION_MS
    ]
    partition = DescribeQuorumPartitionResponse(
        partition_index=0,
        error_code=ErrorCode.NONE,
        leader_id=replica.node_id,
        leader_epoch=state.epoch,
        high_watermark=state.commit.high_watermark,
        current_voters=[_replica_state(replica, state, key, now_ms=now_ms) for key in replica.voters.keys],
        observers=[_replica_state(replica, state, key, now_ms=now_ms) for key in observers],
    )
    return _response(partition, [_node(voter) for voter in replica.voters])


def _node(voter: VoterNode) -> Node:
    listeners = [Listener(name=name, host=host, port=port) for name, host, port in voter.addresses]
    return Node(node_id=voter.key.node_id, listeners=listeners)


def _replica_state(replica: QuorumReplica, state: Leader, key: ReplicaKey, *, now_ms: int) -> ReplicaState:
    """Describes a replica. The leader itself is always caught up, as if it had just fetched."""
    is_leader = key.node_id == replica.node_id
    progress = state.progress.get(key)
    return ReplicaState(
        replica_id=key.node_id,
        replica_directory_id=key.directory_id,
        log_end_offset=replica.log.end_offset if is_leader else state.commit.durable_end(key),
        last_fetch_timestamp=now_ms if is_leader else -1 if progress is None else progress.last_fetch_ms,
        last_caught_up_timestamp=now_ms if is_leader else -1 if progress is None else progress.last_caught_up_ms,
    )


def _refused(error: ErrorCode) -> DescribeQuorumResponse:
    partition = DescribeQuorumPartitionResponse(
        partition_index=0,
        error_code=error,
        leader_id=-1,
        leader_epoch=-1,
        high_watermark=-1,
        current_voters=[],
        observers=[],
    )
    return _response(partition, [])


def _response(partition: DescribeQuorumPartitionResponse, nodes: list[Node]) -> DescribeQuorumResponse:
    topic = DescribeQuorumTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(error_code=ErrorCode.NONE, topics=[topic], nodes=nodes)


def put_off(response: DescribeQuorumResponse, ahead_ms: int) -> DescribeQuorumResponse:
    """Returns a description whose times people can read: the core knows only time that never jumps."""
    partitions = (partition for topic in response.topics for partition in topic.partitions)
    for state in (state for found in partitions for state in (*found.current_voters, *found.observers)):
        if state.last_fetch_timestamp >= 0:
            state.last_fetch_timestamp += ahead_ms
        if state.last_caught_up_timestamp >= 0:
            state.last_caught_up_timestamp += ahead_ms
    return response
