"""DeleteTopics: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class DeleteTopicState:
    name: str | None = string(since=6, nullable=True, default=None)
    topic_id: Uuid = uuid(since=6, default=ZERO_UUID)


@message(api_key=20, versions=range(1, 7), flexible_since=4)
class DeleteTopicsRequest:
    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, since=6, default=())
    topic_names: Sequence[str] = array(string, until=5, default=())
    timeout_ms: int = int32()


@struct
class DeletableTopicResult:
    name: str | None = string(nullable=6)
    topic_id: Uuid = uuid(since=6, default=ZERO_UUID)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable=True, default=None)


@message(api_key=20, versions=range(1, 7), flexible_since=4)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult)
