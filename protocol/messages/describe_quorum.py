"""DescribeQuorum: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, string, struct, uint16, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class DescribeQuorumPartition:
    partition_index: int = int32()


@struct
class DescribeQuorumTopic:
    topic_name: str = string()
    partitions: Sequence[DescribeQuorumPartition] = array(DescribeQuorumPartition)


@message(api_key=55, versions=range(0, 3), flexible_since=0)
class DescribeQuorumRequest:
    topics: Sequence[DescribeQuorumTopic] = array(DescribeQuorumTopic)


@struct
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: Uuid = uuid(since=2, default=ZERO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(since=1, default=-1)
    last_caught_up_timestamp: int = int64(since=1, default=-1)


@struct
class DescribeQuorumPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=True, default="")
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: Sequence[ReplicaState] = array(ReplicaState)
    observers: Sequence[ReplicaState] = array(ReplicaState)


@struct
class DescribeQuorumTopicResponse:
    topic_name: str = string()
    partitions: Sequence[DescribeQuorumPartitionResponse] = array(DescribeQuorumPartitionResponse)


@struct
class Listener:
    name: str = string(since=2, default="")
    host: str = string(since=2, default="")
    port: int = uint16(since=2, default=0)


@struct
class Node:
    node_id: int = int32(since=2, default=0)
    listeners: Sequence[Listener] = array(Listener, since=2, default=())


@message(api_key=55, versions=range(0, 3), flexible_since=0)
class DescribeQuorumResponse:
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable=True, default="")
    topics: Sequence[DescribeQuorumTopicResponse] = array(DescribeQuorumTopicResponse)
    nodes: Sequence[Node] = array(Node, since=2, default=())
