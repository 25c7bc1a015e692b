"""DescribeTopicPartitions: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, message, nested, string, struct, uuid
from barnabas.protocol.types import Uuid


@struct
class TopicRequest:
    name: str = string()


@struct
class Cursor:
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, versions=range(0, 1), flexible_since=0)
class DescribeTopicPartitionsRequest:
    topics: Sequence[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = nested(Cursor, nullable=True, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: Sequence[int] = array(int32)
    isr_nodes: Sequence[int] = array(int32)
    eligible_leader_replicas: Sequence[int] | None = array(int32, nullable=True, default=None)
    last_known_elr: Sequence[int] | None = array(int32, nullable=True, default=None)
    offline_replicas: Sequence[int] = array(int32)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable=True)
    topic_id: Uuid = uuid()
    is_internal: bool = boolean(default=False)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-2147483648)


@message(api_key=75, versions=range(0, 1), flexible_since=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nested(Cursor, nullable=True, default=None)
