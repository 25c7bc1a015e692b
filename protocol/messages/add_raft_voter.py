"""AddRaftVoter: the request and the response (KIP-853)."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, message, string, struct, uint16, uuid
from barnabas.protocol.types import Uuid


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=80, versions=range(0, 2), flexible_since=0)
class AddRaftVoterRequest:
    cluster_id: str | None = string(nullable=True)
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: Sequence[Listener] = array(Listener)
    ack_when_committed: bool = boolean(since=1, default=True)


@message(api_key=80, versions=range(0, 2), flexible_since=0)
class AddRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
