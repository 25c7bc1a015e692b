"""FindCoordinator: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, message, string, struct


@message(api_key=10, versions=range(0, 7), flexible_since=3)
class FindCoordinatorRequest:
    key: str = string(until=3, default="")
    key_type: int = int8(since=1, default=0)
    coordinator_keys: Sequence[str] = array(string, since=4, default=())


@struct
class Coordinator:
    key: str = string(since=4, default="")
    node_id: int = int32(since=4, default=0)
    host: str = string(since=4, default="")
    port: int = int32(since=4, default=0)
    error_code: int = int16(since=4, default=0)
    error_message: str | None = string(since=4, nullable=True, default="")


@message(api_key=10, versions=range(0, 7), flexible_since=3)
class FindCoordinatorResponse:
    throttle_time_ms: int = int32(since=1, default=0)
    error_code: int = int16(until=3, default=0)
    error_message: str | None = string(since=1, until=3, nullable=True, default="")
    node_id: int = int32(until=3, default=0)
    host: str = string(until=3, default="")
    port: int = int32(until=3, default=0)
    coordinators: Sequence[Coordinator] = array(Coordinator, since=4, default=())
