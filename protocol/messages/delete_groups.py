"""DeleteGroups: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct


@message(api_key=42, versions=range(0, 4), flexible_since=2)
class DeleteGroupsRequest:
    groups_names: Sequence[str] = array(string)


@struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string(since=3, nullable=True, default=None)


@message(api_key=42, versions=range(0, 4), flexible_since=2)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32(default=0)
    results: Sequence[DeletableGroupResult] = array(DeletableGroupResult)
