"""ControllerRegistration: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, message, string, struct, uint16, uuid
from barnabas.protocol.types import Uuid


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class Feature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=70, versions=range(0, 1), flexible_since=0)
class ControllerRegistrationRequest:
    controller_id: int = int32()
    incarnation_id: Uuid = uuid()
    zk_migration_ready: bool = boolean(default=False)
    listeners: Sequence[Listener] = array(Listener)
    features: Sequence[Feature] = array(Feature)


@message(api_key=70, versions=range(0, 1), flexible_since=0)
class ControllerRegistrationResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
