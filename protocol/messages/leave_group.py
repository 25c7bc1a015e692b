"""LeaveGroup: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct


@struct
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True, default=None)
    reason: str | None = string(since=5, nullable=True, default=None)


@message(api_key=13, versions=range(0, 6), flexible_since=4)
class LeaveGroupRequest:
    group_id: str = string()
    member_id: str = string(until=2, default="")
    members: Sequence[MemberIdentity] = array(MemberIdentity, since=3, default=())


@struct
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable=True)
    error_code: int = int16()


@message(api_key=13, versions=range(0, 6), flexible_since=4)
class LeaveGroupResponse:
    throttle_time_ms: int = int32(since=1, default=0)
    error_code: int = int16()
    members: Sequence[MemberResponse] = array(MemberResponse, since=3, default=())
