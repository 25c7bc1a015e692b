"""OffsetFetch: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: Sequence[int] = array(int32)


@struct
class OffsetFetchRequestTopics:
    name: str = string(until=9, default="")
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID)
    partition_indexes: Sequence[int] = array(int32)


@struct
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string(since=9, nullable=True, default=None)
    member_epoch: int = int32(since=9, default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable=True)


@message(api_key=9, versions=range(1, 11), flexible_since=6)
class OffsetFetchRequest:
    group_id: str = string(until=7, default="")
    topics: Sequence[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, until=7, nullable=2, default=())
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8, default=())
    require_stable: bool = boolean(since=7, default=False)


@struct
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=5, default=-1)
    metadata: str | None = string(nullable=True)
    error_code: int = int16()


@struct
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: Sequence[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable=True)
    error_code: int = int16()


@struct
class OffsetFetchResponseTopics:
    name: str = string(until=9, default="")
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID)
    partitions: Sequence[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@struct
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: Sequence[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16(default=0)


@message(api_key=9, versions=range(1, 11), flexible_since=6)
class OffsetFetchResponse:
    throttle_time_ms: int = int32(since=3, default=0)
    topics: Sequence[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7, default=())
    error_code: int = int16(since=2, until=7, default=0)
    groups: Sequence[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8, default=())
