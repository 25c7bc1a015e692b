"""The quorum's requests and responses: each names one topic with one partition, the metadata log."""

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from barnabas.replication.metadata.image import CLUSTER_METADATA_TOPIC
from barnabas.replication.metadata.log import METADATA_TOPIC_ID
from barnabas.replication.quorum.exchange.comparison import Diverging, NeedsSnapshot
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.settings import Identity, QuorumConfig
from barnabas.replication.quorum.voters import NO_NODE, Address, ReplicaKey

NO_SNAPSHOT = OffsetAndEpoch(-1, -1)


def partition_of(message: Any) -> Any | None:
    """Returns what a request or a response says about the metadata log; None if it speaks of anything else."""
    kind = type(message)
    topics = message.responses if kind is fetch.FetchResponse else message.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    (topic,) = topics
    (partition,) = topic.partitions
    if kind in _BY_TOPIC_ID:
        is_metadata = topic.topic_id == METADATA_TOPIC_ID or topic.topic == CLUSTER_METADATA_TOPIC
    else:
        is_metadata = getattr(topic, _NAMES.get(kind, "topic_name")) == CLUSTER_METADATA_TOPIC
    return partition if is_metadata and getattr(partition, _INDEXES.get(kind, "partition_index")) == 0 else None


_BY_TOPIC_ID = (fetch.FetchRequest, fetch.FetchResponse)
# Kafka's schemas do not agree on names.
_NAMES: dict[type, str] = {fetch_snapshot.FetchSnapshotRequest: "name", fetch_snapshot.FetchSnapshotResponse: "name"}
_INDEXES: dict[type, str] = {
    fetch.FetchRequest: "partition",
    fetch_snapshot.FetchSnapshotRequest: "partition",
    fetch_snapshot.FetchSnapshotResponse: "index",
}


# ---- requests


def vote_request(
    me: Identity, voter: ReplicaKey, epoch: int, end: OffsetAndEpoch, *, pre_vote: bool
) -> vote.VoteRequest:
    partition = vote.VotePartition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=me.key.node_id,
        replica_directory_id=me.key.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=end.epoch,
        last_offset=end.offset,
        pre_vote=pre_vote,
    )
    topic = vote.VoteTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=me.cluster_id, voter_id=voter.node_id, topics=[topic])


def begin_quorum_epoch_request(
    me: Identity, voter: ReplicaKey, epoch: int
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    partition = begin_quorum_epoch.BeginQuorumEpochPartition(
        partition_index=0, voter_directory_id=voter.directory_id, leader_id=me.key.node_id, leader_epoch=epoch
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=me.cluster_id,
        voter_id=voter.node_id,
        topics=[begin_quorum_epoch.BeginQuorumEpochTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin_quorum_epoch.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in me.addresses
        ],
    )


def end_quorum_epoch_request(
    me: Identity, epoch: int, preferred: Sequence[ReplicaKey]
) -> end_quorum_epoch.EndQuorumEpochRequest:
    partition = end_quorum_epoch.EndQuorumEpochPartition(
        partition_index=0,
        leader_id=me.key.node_id,
        leader_epoch=epoch,
        preferred_successors=[key.node_id for key in preferred],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in preferred
        ],
    )
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=me.cluster_id,
        topics=[end_quorum_epoch.EndQuorumEpochTopic(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[
            end_quorum_epoch.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in me.addresses
        ],
    )


def fetch_request(
    me: Identity, config: QuorumConfig, epoch: int, end: OffsetAndEpoch, high_watermark: int
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=end.offset,
        last_fetched_epoch=end.epoch,
        partition_max_bytes=0,
        replica_directory_id=me.key.directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=me.cluster_id,
        replica_state=fetch.ReplicaState(replica_id=me.key.node_id),
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=0,
        max_bytes=config.fetch_max_bytes,
        topics=[fetch.FetchTopic(topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetch_snapshot_request(
    me: Identity, config: QuorumConfig, epoch: int, snapshot: OffsetAndEpoch, position: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.FetchSnapshotPartition(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=me.key.directory_id,
    )
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=me.cluster_id,
        replica_id=me.key.node_id,
        max_bytes=config.snapshot_max_bytes,
        topics=[fetch_snapshot.FetchSnapshotTopic(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )


# ---- responses


def vote_response(
    leader_id: int, epoch: int, address: Address | None, error: ErrorCode, granted: bool
) -> vote.VoteResponse:
    partition = vote.VotePartitionResponse(
        partition_index=0, error_code=error, leader_id=leader_id, leader_epoch=epoch, vote_granted=granted
    )
    return vote.VoteResponse(
        error_code=0,
        topics=[vote.VoteTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(vote.NodeEndpoint, leader_id, address),
    )


def begin_quorum_epoch_response(
    leader_id: int, epoch: int, address: Address | None, error: ErrorCode
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.BeginQuorumEpochPartitionResponse(
        partition_index=0, error_code=error, leader_id=leader_id, leader_epoch=epoch
    )
    topic = begin_quorum_epoch.BeginQuorumEpochTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return begin_quorum_epoch.BeginQuorumEpochResponse(
        error_code=0,
        topics=[topic],
        node_endpoints=_endpoints(begin_quorum_epoch.NodeEndpoint, leader_id, address),
    )


def end_quorum_epoch_response(
    leader_id: int, epoch: int, address: Address | None, error: ErrorCode
) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.EndQuorumEpochPartitionResponse(
        partition_index=0, error_code=error, leader_id=leader_id, leader_epoch=epoch
    )
    topic = end_quorum_epoch.EndQuorumEpochTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochResponse(
        error_code=0,
        topics=[topic],
        node_endpoints=_endpoints(end_quorum_epoch.NodeEndpoint, leader_id, address),
    )


class LogState:
    """What a Fetch response says besides its records."""

    __slots__ = ("high_watermark", "start_offset")

    def __init__(self, high_watermark: int = -1, start_offset: int = -1) -> None:
        self.high_watermark = high_watermark
        self.start_offset = start_offset


def fetch_response(
    leader: tuple[int, int, Address | None],
    error: ErrorCode,
    log: LogState,
    found: object = None,
) -> fetch.FetchResponse:
    leader_id, epoch, address = leader
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=log.high_watermark,
        log_start_offset=log.start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        aborted_transactions=None,
        records=None,
    )
    if isinstance(found, Diverging):
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=found.end.epoch, end_offset=found.end.offset)
    elif isinstance(found, NeedsSnapshot):
        partition.snapshot_id = fetch.SnapshotId(end_offset=found.snapshot.offset, epoch=found.snapshot.epoch)
    topic = fetch.FetchableTopicResponse(
        topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    return fetch.FetchResponse(
        error_code=0, responses=[topic], node_endpoints=_endpoints(fetch.NodeEndpoint, leader_id, address)
    )


def fetch_snapshot_response(
    leader: tuple[int, int, Address | None],
    error: ErrorCode,
    snapshot: OffsetAndEpoch = NO_SNAPSHOT,
    size: int = 0,
    position: int = 0,
) -> fetch_snapshot.FetchSnapshotResponse:
    leader_id, epoch, address = leader
    partition = fetch_snapshot.FetchSnapshotPartitionResponse(
        index=0,
        error_code=error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        size=size,
        position=position,
        unaligned_records=b"",
    )
    return fetch_snapshot.FetchSnapshotResponse(
        error_code=0,
        topics=[fetch_snapshot.FetchSnapshotTopicResponse(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_endpoints(fetch_snapshot.NodeEndpoint, leader_id, address),
    )


def put_records(response: Any, records: Any) -> None:
    """Completes a Fetch or FetchSnapshot response with what the shell has read for it."""
    partition = partition_of(response)
    if isinstance(partition, fetch.PartitionData):
        partition.records = records
    elif isinstance(partition, fetch_snapshot.FetchSnapshotPartitionResponse):
        partition.unaligned_records = records


def keep_records(response: Any) -> None:
    """Copies what a response brings: its bytes belong to the connection, and effects may have to wait."""
    if isinstance(response, fetch.FetchResponse | fetch_snapshot.FetchSnapshotResponse):
        partition = partition_of(response)
        if partition is not None:
            is_fetch = isinstance(response, fetch.FetchResponse)
            put_records(response, bytes((partition.records if is_fetch else partition.unaligned_records) or b""))


def _endpoints(kind: Any, leader_id: int, address: Address | None) -> list[Any]:
    if leader_id == NO_NODE or address is None:
        return []
    return [kind(node_id=leader_id, host=address.host, port=address.port)]
