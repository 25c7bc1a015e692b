"""ListPartitionReassignments: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: Sequence[int] = array(int32)


@message(api_key=46, versions=range(0, 1), flexible_since=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60_000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable=True, default=None
    )


@struct
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: Sequence[int] = array(int32)
    adding_replicas: Sequence[int] = array(int32)
    removing_replicas: Sequence[int] = array(int32)


@struct
class OngoingTopicReassignment:
    name: str = string()
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(api_key=46, versions=range(0, 1), flexible_since=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment)
