"""OffsetDelete: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: Sequence[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, versions=range(0, 1))
class OffsetDeleteRequest:
    group_id: str = string()
    topics: Sequence[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: Sequence[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(api_key=47, versions=range(0, 1))
class OffsetDeleteResponse:
    error_code: int = int16()
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
