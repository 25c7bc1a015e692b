"""The control records of a Raft log: what its batches say about the log itself."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, nested, string, struct, uint16, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class Voter:
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid(since=1, default=ZERO_UUID)


@message(versions=range(0, 2), flexible_since=0)
class LeaderChangeMessage:
    version: int = int16()
    leader_id: int = int32()
    voters: Sequence[Voter] = array(Voter)
    granting_voters: Sequence[Voter] = array(Voter)


@message(versions=range(0, 1), flexible_since=0)
class SnapshotHeaderRecord:
    version: int = int16()
    last_contained_log_timestamp: int = int64()


@message(versions=range(0, 1), flexible_since=0)
class SnapshotFooterRecord:
    version: int = int16()


@message(versions=range(0, 1), flexible_since=0)
class KRaftVersionRecord:
    version: int = int16()
    kraft_version: int = int16()


@struct
class Endpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class KRaftVersionFeature:
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@struct
class RegisteredVoter:
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    endpoints: Sequence[Endpoint] = array(Endpoint)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


@message(versions=range(0, 1), flexible_since=0)
class VotersRecord:
    version: int = int16()
    voters: Sequence[RegisteredVoter] = array(RegisteredVoter)
