"""Metadata: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, message, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@struct
class MetadataRequestTopic:
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID)
    name: str | None = string(nullable=10)


@message(api_key=3, versions=range(0, 14), flexible_since=9)
class MetadataRequest:
    topics: Sequence[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=True)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10, default=False)
    include_topic_authorized_operations: bool = boolean(since=8, default=False)


@struct
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable=True, default=None)


@struct
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: Sequence[int] = array(int32)
    isr_nodes: Sequence[int] = array(int32)
    offline_replicas: Sequence[int] = array(int32, since=5, default=())


@struct
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable=12)
    topic_id: Uuid = uuid(since=10, default=ZERO_UUID)
    is_internal: bool = boolean(since=1, default=False)
    partitions: Sequence[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


@message(api_key=3, versions=range(0, 14), flexible_since=9)
class MetadataResponse:
    throttle_time_ms: int = int32(since=3, default=0)
    brokers: Sequence[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable=True, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: Sequence[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
    error_code: int = int16(since=13, default=0)
