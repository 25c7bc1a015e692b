"""AlterPartitionReassignments: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, message, string, struct


@struct
class ReassignablePartition:
    partition_index: int = int32()
    replicas: Sequence[int] | None = array(int32, nullable=True, default=None)


@struct
class ReassignableTopic:
    name: str = string()
    partitions: Sequence[ReassignablePartition] = array(ReassignablePartition)


@message(api_key=45, versions=range(0, 2), flexible_since=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60_000)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    topics: Sequence[ReassignableTopic] = array(ReassignableTopic)


@struct
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


@struct
class ReassignableTopicResponse:
    name: str = string()
    partitions: Sequence[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(api_key=45, versions=range(0, 2), flexible_since=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    responses: Sequence[ReassignableTopicResponse] = array(ReassignableTopicResponse)
