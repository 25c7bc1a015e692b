"""EndQuorumEpoch: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct, uint16, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class ReplicaInfo:
    candidate_id: int = int32(since=1, default=0)
    candidate_directory_id: Uuid = uuid(since=1, default=ZERO_UUID)


@struct
class EndQuorumEpochPartition:
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32()
    preferred_successors: Sequence[int] = array(int32, until=0, default=())
    preferred_candidates: Sequence[ReplicaInfo] = array(ReplicaInfo, since=1, default=())


@struct
class EndQuorumEpochTopic:
    topic_name: str = string()
    partitions: Sequence[EndQuorumEpochPartition] = array(EndQuorumEpochPartition)


@struct
class LeaderEndpoint:
    name: str = string(since=1, default="")
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


@message(api_key=54, versions=range(0, 2), flexible_since=1)
class EndQuorumEpochRequest:
    cluster_id: str | None = string(nullable=True, default=None)
    topics: Sequence[EndQuorumEpochTopic] = array(EndQuorumEpochTopic)
    leader_endpoints: Sequence[LeaderEndpoint] = array(LeaderEndpoint, since=1, default=())


@struct
class EndQuorumEpochPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class EndQuorumEpochTopicResponse:
    topic_name: str = string()
    partitions: Sequence[EndQuorumEpochPartitionResponse] = array(EndQuorumEpochPartitionResponse)


@struct
class NodeEndpoint:
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


@message(api_key=54, versions=range(0, 2), flexible_since=1)
class EndQuorumEpochResponse:
    error_code: int = int16()
    topics: Sequence[EndQuorumEpochTopicResponse] = array(EndQuorumEpochTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, default=(), tag=0)
