"""ConsumerGroupHeartbeat: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, nested, string, struct, uuid
from barnabas.protocol.types import Uuid


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array(int32)


@message(api_key=68, versions=range(0, 2), flexible_since=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: Sequence[str] | None = array(string, nullable=True, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable=True, default=None)
    server_assignor: str | None = string(nullable=True, default=None)
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable=True, default=None)


@struct
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


@message(api_key=68, versions=range(0, 2), flexible_since=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    member_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable=True, default=None)
