"""OffsetForLeaderEpoch: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct


@struct
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: Sequence[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(api_key=23, versions=range(2, 5), flexible_since=4)
class OffsetForLeaderEpochRequest:
    replica_id: int = int32(since=3, default=-2)
    topics: Sequence[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: Sequence[EpochEndOffset] = array(EpochEndOffset)


@message(api_key=23, versions=range(2, 5), flexible_since=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
