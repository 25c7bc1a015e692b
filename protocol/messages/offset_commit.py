"""OffsetCommit: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1)
    committed_metadata: str | None = string(nullable=True)


@struct
class OffsetCommitRequestTopic:
    name: str = string(until=9, default="")
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID)
    partitions: Sequence[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(api_key=8, versions=range(2, 11), flexible_since=8)
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=7, nullable=True, default=None)
    retention_time_ms: int = int64(until=4, default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    name: str = string(until=9, default="")
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID)
    partitions: Sequence[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(api_key=8, versions=range(2, 11), flexible_since=8)
class OffsetCommitResponse:
    throttle_time_ms: int = int32(since=3, default=0)
    topics: Sequence[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
