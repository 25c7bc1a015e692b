"""DeleteRecords: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct


@struct
class DeleteRecordsPartition:
    partition_index: int = int32()
    offset: int = int64()


@struct
class DeleteRecordsTopic:
    name: str = string()
    partitions: Sequence[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(api_key=21, versions=range(0, 3), flexible_since=2)
class DeleteRecordsRequest:
    topics: Sequence[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult:
    name: str = string()
    partitions: Sequence[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(api_key=21, versions=range(0, 3), flexible_since=2)
class DeleteRecordsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
