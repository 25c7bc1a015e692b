"""ConsumerGroupDescribe: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, message, nested, string, struct, uuid
from barnabas.protocol.types import Uuid


@message(api_key=69, versions=range(0, 2), flexible_since=0)
class ConsumerGroupDescribeRequest:
    group_ids: Sequence[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: Sequence[int] = array(int32)


@struct
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions)


@struct
class Member:
    member_id: str = string()
    instance_id: str | None = string(nullable=True, default=None)
    rack_id: str | None = string(nullable=True, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True, default=None)
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    member_type: int = int8(since=1, default=-1)


@struct
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: Sequence[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@message(api_key=69, versions=range(0, 2), flexible_since=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = int32(default=0)
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
