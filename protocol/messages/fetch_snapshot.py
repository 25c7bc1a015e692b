"""FetchSnapshot: the request and the response (KIP-630)."""

from collections.abc import Sequence

from barnabas.protocol.schema import (
    EMPTY,
    Records,
    array,
    batches,
    int16,
    int32,
    int64,
    message,
    nested,
    string,
    struct,
    uint16,
    uuid,
)
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class SnapshotId:
    end_offset: int = int64()
    epoch: int = int32()


@struct
class FetchSnapshotPartition:
    partition: int = int32()
    current_leader_epoch: int = int32()
    snapshot_id: SnapshotId = nested(SnapshotId)
    position: int = int64()
    replica_directory_id: Uuid = uuid(since=1, default=ZERO_UUID, tag=0)


@struct
class FetchSnapshotTopic:
    name: str = string()
    partitions: Sequence[FetchSnapshotPartition] = array(FetchSnapshotPartition)


@message(api_key=59, versions=range(0, 2), flexible_since=0)
class FetchSnapshotRequest:
    cluster_id: str | None = string(nullable=True, default=None, tag=0)
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2147483647)
    topics: Sequence[FetchSnapshotTopic] = array(FetchSnapshotTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(default=0)
    leader_epoch: int = int32(default=0)


@struct
class FetchSnapshotPartitionResponse:
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = nested(SnapshotId)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, default=EMPTY, tag=0)
    size: int = int64()
    position: int = int64()
    unaligned_records: Records = batches()


@struct
class FetchSnapshotTopicResponse:
    name: str = string()
    partitions: Sequence[FetchSnapshotPartitionResponse] = array(FetchSnapshotPartitionResponse)


@struct
class NodeEndpoint:
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


@message(api_key=59, versions=range(0, 2), flexible_since=0)
class FetchSnapshotResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    topics: Sequence[FetchSnapshotTopicResponse] = array(FetchSnapshotTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, default=(), tag=0)
