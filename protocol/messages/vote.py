"""Vote: the request and the response. Version 2 asks for pre-votes as well (KIP-996)."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, string, struct, uint16, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class VotePartition:
    partition_index: int = int32()
    replica_epoch: int = int32()
    replica_id: int = int32()
    replica_directory_id: Uuid = uuid(since=1, default=ZERO_UUID)
    voter_directory_id: Uuid = uuid(since=1, default=ZERO_UUID)
    last_offset_epoch: int = int32()
    last_offset: int = int64()
    pre_vote: bool = boolean(since=2, default=False)


@struct
class VoteTopic:
    topic_name: str = string()
    partitions: Sequence[VotePartition] = array(VotePartition)


@message(api_key=52, versions=range(0, 3), flexible_since=0)
class VoteRequest:
    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(since=1, default=-1)
    topics: Sequence[VoteTopic] = array(VoteTopic)


@struct
class VotePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    vote_granted: bool = boolean()


@struct
class VoteTopicResponse:
    topic_name: str = string()
    partitions: Sequence[VotePartitionResponse] = array(VotePartitionResponse)


@struct
class NodeEndpoint:
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


@message(api_key=52, versions=range(0, 3), flexible_since=0)
class VoteResponse:
    error_code: int = int16()
    topics: Sequence[VoteTopicResponse] = array(VoteTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, default=(), tag=0)
