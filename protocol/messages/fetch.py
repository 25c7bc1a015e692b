"""Fetch: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import (
    EMPTY,
    Records,
    array,
    batches,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
    uuid,
)
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class ReplicaState:
    replica_id: int = int32(since=15, default=-1)
    replica_epoch: int = int64(since=15, default=-1)


@struct
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid(since=17, default=ZERO_UUID, tag=0)
    high_watermark: int = int64(since=18, default=9223372036854775807, tag=1)


@struct
class FetchTopic:
    topic: str = string(until=12, default="")
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID)
    partitions: Sequence[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    topic: str = string(since=7, until=12, default="")
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID)
    partitions: Sequence[int] = array(int32, since=7, default=())


@message(api_key=1, versions=range(4, 19), flexible_since=12)
class FetchRequest:
    cluster_id: str | None = string(since=12, nullable=True, default=None, tag=0)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState = nested(ReplicaState, since=15, default=EMPTY, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2147483647)
    isolation_level: int = int8(default=0)
    session_id: int = int32(since=7, default=0)
    session_epoch: int = int32(since=7, default=-1)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, since=7, default=())
    rack_id: str = string(since=11, default="")


@struct
class EpochEndOffset:
    epoch: int = int32(since=12, default=-1)
    end_offset: int = int64(since=12, default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(since=12, default=-1)
    leader_epoch: int = int32(since=12, default=-1)


@struct
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    diverging_epoch: EpochEndOffset = nested(EpochEndOffset, since=12, default=EMPTY, tag=0)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, since=12, default=EMPTY, tag=1)
    snapshot_id: SnapshotId = nested(SnapshotId, since=12, default=EMPTY, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = array(AbortedTransaction, nullable=True)
    preferred_read_replica: int = int32(since=11, default=-1)
    records: Records = batches(nullable=True)


@struct
class FetchableTopicResponse:
    topic: str = string(until=12, default="")
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID)
    partitions: Sequence[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32(since=16, default=0)
    host: str = string(since=16, default="")
    port: int = int32(since=16, default=0)
    rack: str | None = string(since=16, nullable=True, default=None)


@message(api_key=1, versions=range(4, 19), flexible_since=12)
class FetchResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=7, default=0)
    session_id: int = int32(since=7, default=0)
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=16, default=(), tag=0)
