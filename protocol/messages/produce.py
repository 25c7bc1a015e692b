"""Produce: the request and the response."""

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
    uuid,
)
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class PartitionProduceData:
    index: int = int32()
    records: Records = batches(nullable=True)


@struct
class TopicProduceData:
    name: str = string(until=12, default="")
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID)
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, versions=range(3, 14), flexible_since=9)
class ProduceRequest:
    transactional_id: str | None = string(nullable=True, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32(since=8, default=0)
    batch_index_error_message: str | None = string(since=8, nullable=True, default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(since=10, default=-1)
    leader_epoch: int = int32(since=10, default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8, default=())
    error_message: str | None = string(since=8, nullable=True, default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch, since=10, default=EMPTY, tag=0)


@struct
class TopicProduceResponse:
    name: str = string(until=12, default="")
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID)
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    node_id: int = int32(since=10, default=0)
    host: str = string(since=10, default="")
    port: int = int32(since=10, default=0)
    rack: str | None = string(since=10, nullable=True, default=None)


@message(api_key=0, versions=range(3, 14), flexible_since=9)
class ProduceResponse:
    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=10, default=(), tag=0)
