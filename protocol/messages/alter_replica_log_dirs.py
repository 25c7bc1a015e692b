"""AlterReplicaLogDirs: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int16, int32, message, string, struct


@struct
class AlterReplicaLogDirTopic:
    name: str = string()
    partitions: Sequence[int] = array(int32)


@struct
class AlterReplicaLogDir:
    path: str = string()
    topics: Sequence[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(api_key=34, versions=range(1, 3), flexible_since=2)
class AlterReplicaLogDirsRequest:
    dirs: Sequence[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str = string()
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(api_key=34, versions=range(1, 3), flexible_since=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    results: Sequence[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
