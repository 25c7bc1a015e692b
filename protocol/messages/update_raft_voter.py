"""UpdateRaftVoter: the request and the response (KIP-853)."""

from collections.abc import Sequence

from barnabas.protocol.schema import EMPTY, array, int16, int32, message, nested, string, struct, uint16, uuid
from barnabas.protocol.types import Uuid


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class KRaftVersionFeature:
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=82, versions=range(0, 1), flexible_since=0)
class UpdateRaftVoterRequest:
    cluster_id: str | None = string(nullable=True)
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: Sequence[Listener] = array(Listener)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


@struct
class CurrentLeader:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string(default="")
    port: int = int32(default=0)


@message(api_key=82, versions=range(0, 1), flexible_since=0)
class UpdateRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    current_leader: CurrentLeader = nested(CurrentLeader, default=EMPTY, tag=0)
