"""JoinGroup: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, blob, boolean, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = blob()


@message(api_key=11, versions=range(0, 10), flexible_since=6)
class JoinGroupRequest:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None)
    protocol_type: str = string()
    protocols: Sequence[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable=True, default=None)


@struct
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable=True, default=None)
    metadata: bytes = blob()


@message(api_key=11, versions=range(0, 10), flexible_since=6)
class JoinGroupResponse:
    throttle_time_ms: int = int32(since=2, default=0)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable=True, default=None)
    protocol_name: str | None = string(nullable=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9, default=False)
    member_id: str = string()
    members: Sequence[JoinGroupResponseMember] = array(JoinGroupResponseMember)
