"""SyncGroup: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, blob, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = blob()


@message(api_key=14, versions=range(0, 6), flexible_since=4)
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    protocol_type: str | None = string(since=5, nullable=True, default=None)
    protocol_name: str | None = string(since=5, nullable=True, default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(api_key=14, versions=range(0, 6), flexible_since=4)
class SyncGroupResponse:
    throttle_time_ms: int = int32(since=1, default=0)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable=True, default=None)
    protocol_name: str | None = string(since=5, nullable=True, default=None)
    assignment: bytes = blob()
