"""BeginQuorumEpoch: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct, uint16, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class BeginQuorumEpochPartition:
    partition_index: int = int32()
    voter_directory_id: Uuid = uuid(since=1, default=ZERO_UUID)
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class BeginQuorumEpochTopic:
    topic_name: str = string()
    partitions: Sequence[BeginQuorumEpochPartition] = array(BeginQuorumEpochPartition)


@struct
class LeaderEndpoint:
    name: str = string(since=1, default="")
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


@message(api_key=53, versions=range(0, 2), flexible_since=1)
class BeginQuorumEpochRequest:
    cluster_id: str | None = string(nullable=True, default=None)
    voter_id: int = int32(since=1, default=-1)
    topics: Sequence[BeginQuorumEpochTopic] = array(BeginQuorumEpochTopic)
    leader_endpoints: Sequence[LeaderEndpoint] = array(LeaderEndpoint, since=1, default=())


@struct
class BeginQuorumEpochPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class BeginQuorumEpochTopicResponse:
    topic_name: str = string()
    partitions: Sequence[BeginQuorumEpochPartitionResponse] = array(BeginQuorumEpochPartitionResponse)


@struct
class NodeEndpoint:
    node_id: int = int32(since=1, default=0)
    host: str = string(since=1, default="")
    port: int = uint16(since=1, default=0)


@message(api_key=53, versions=range(0, 2), flexible_since=1)
class BeginQuorumEpochResponse:
    error_code: int = int16()
    topics: Sequence[BeginQuorumEpochTopicResponse] = array(BeginQuorumEpochTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=1, default=(), tag=0)
