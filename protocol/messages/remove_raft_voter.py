"""RemoveRaftVoter: the request and the response (KIP-853)."""

from barnabas.protocol.schema import int16, int32, message, string, uuid
from barnabas.protocol.types import Uuid


@message(api_key=81, versions=range(0, 1), flexible_since=0)
class RemoveRaftVoterRequest:
    cluster_id: str | None = string(nullable=True)
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()


@message(api_key=81, versions=range(0, 1), flexible_since=0)
class RemoveRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
