"""CreateTopics: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: Sequence[int] = array(int32)


@struct
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable=True)


@struct
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(api_key=19, versions=range(2, 8), flexible_since=5)
class CreateTopicsRequest:
    topics: Sequence[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


@struct
class CreatableTopicConfigs:
    name: str = string(since=5, default="")
    value: str | None = string(since=5, nullable=True, default="")
    read_only: bool = boolean(since=5, default=False)
    config_source: int = int8(since=5, default=-1)
    is_sensitive: bool = boolean(since=5, default=False)


@struct
class CreatableTopicResult:
    name: str = string()
    topic_id: Uuid = uuid(since=7, default=ZERO_UUID)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    topic_config_error_code: int = int16(since=5, default=0, tag=0)
    num_partitions: int = int32(since=5, default=-1)
    replication_factor: int = int16(since=5, default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, since=5, nullable=True, default=())


@message(api_key=19, versions=range(2, 8), flexible_since=5)
class CreateTopicsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult)
