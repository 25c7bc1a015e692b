"""TxnOffsetCommit: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1)
    committed_metadata: str | None = string(nullable=True)


@struct
class TxnOffsetCommitRequestTopic:
    name: str = string(until=5, default="")
    topic_id: Uuid = uuid(since=6, default=ZERO_UUID)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message(api_key=28, versions=range(0, 7), flexible_since=3)
class TxnOffsetCommitRequest:
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(since=3, default=-1)
    member_id: str = string(since=3, default="")
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class TxnOffsetCommitResponseTopic:
    name: str = string(until=5, default="")
    topic_id: Uuid = uuid(since=6, default=ZERO_UUID)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message(api_key=28, versions=range(0, 7), flexible_since=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
