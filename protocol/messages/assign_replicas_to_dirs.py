"""AssignReplicasToDirs: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, int64, message, struct, uuid
from barnabas.protocol.types import Uuid


@struct
class AssignedPartition:
    partition_index: int = int32()


@struct
class AssignedTopic:
    topic_id: Uuid = uuid()
    partitions: Sequence[AssignedPartition] = array(AssignedPartition)


@struct
class AssignedDirectory:
    id: Uuid = uuid()
    topics: Sequence[AssignedTopic] = array(AssignedTopic)


@message(api_key=73, versions=range(0, 1), flexible_since=0)
class AssignReplicasToDirsRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: Sequence[AssignedDirectory] = array(AssignedDirectory)


@struct
class PartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class TopicResult:
    topic_id: Uuid = uuid()
    partitions: Sequence[PartitionResult] = array(PartitionResult)


@struct
class DirectoryResult:
    id: Uuid = uuid()
    topics: Sequence[TopicResult] = array(TopicResult)


@message(api_key=73, versions=range(0, 1), flexible_since=0)
class AssignReplicasToDirsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    directories: Sequence[DirectoryResult] = array(DirectoryResult, default=())
