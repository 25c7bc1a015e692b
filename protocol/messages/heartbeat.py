"""Heartbeat: the request and the response."""

from barnabas.protocol.schema import int16, int32, message, string


@message(api_key=12, versions=range(0, 5), flexible_since=4)
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)


@message(api_key=12, versions=range(0, 5), flexible_since=4)
class HeartbeatResponse:
    throttle_time_ms: int = int32(since=1, default=0)
    error_code: int = int16()
