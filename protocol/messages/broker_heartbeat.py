"""BrokerHeartbeat: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, uuid
from barnabas.protocol.types import Uuid


@message(api_key=63, versions=range(0, 3), flexible_since=0)
class BrokerHeartbeatRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: Sequence[Uuid] = array(uuid, since=1, tag=0, default=())
    cordoned_log_dirs: Sequence[Uuid] | None = array(uuid, since=2, tag=1, nullable=2, default=None)


@message(api_key=63, versions=range(0, 3), flexible_since=0)
class BrokerHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    is_caught_up: bool = boolean(default=False)
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()
