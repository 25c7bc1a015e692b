"""The contents of the file `quorum-state`: how far a node has gone in the elections of the metadata quorum.

Kafka writes it as one line of JSON. Version 1 came with voters that are known by id and directory (KIP-853).
"""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int32, int64, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class Voter:
    voter_id: int = int32(until=0, default=0)


@message(versions=range(0, 2), flexible_since=0)
class QuorumStateData:
    cluster_id: str = string(until=0, default="")
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    voted_id: int = int32(default=-1)
    voted_directory_id: Uuid = uuid(since=1, default=ZERO_UUID)
    applied_offset: int = int64(until=0, default=0)
    current_voters: Sequence[Voter] | None = array(Voter, until=0, nullable=True, default=())
