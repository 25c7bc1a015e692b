"""DescribeProducers: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct


@struct
class TopicRequest:
    name: str = string()
    partition_indexes: Sequence[int] = array(int32)


@message(api_key=61, versions=range(0, 1), flexible_since=0)
class DescribeProducersRequest:
    topics: Sequence[TopicRequest] = array(TopicRequest)


@struct
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@struct
class PartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    active_producers: Sequence[ProducerState] = array(ProducerState)


@struct
class TopicResponse:
    name: str = string()
    partitions: Sequence[PartitionResponse] = array(PartitionResponse)


@message(api_key=61, versions=range(0, 1), flexible_since=0)
class DescribeProducersResponse:
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[TopicResponse] = array(TopicResponse)
