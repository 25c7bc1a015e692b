"""CreatePartitions: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, message, string, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = array(int32)


@struct
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: Sequence[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable=True)


@message(api_key=37, versions=range(0, 4), flexible_since=2)
class CreatePartitionsRequest:
    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True, default=None)


@message(api_key=37, versions=range(0, 4), flexible_since=2)
class CreatePartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
