"""BrokerRegistration: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, string, struct, uint16, uuid
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


@message(api_key=62, versions=range(0, 5), flexible_since=0)
class BrokerRegistrationRequest:
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: Uuid = uuid()
    listeners: Sequence[Listener] = array(Listener)
    features: Sequence[Feature] = array(Feature)
    rack: str | None = string(nullable=True)
    is_migrating_zk_broker: bool = boolean(since=1, default=False)
    log_dirs: Sequence[Uuid] = array(uuid, since=2, default=())
    previous_broker_epoch: int = int64(since=3, default=-1)


@message(api_key=62, versions=range(0, 5), flexible_since=0)
class BrokerRegistrationResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)
