"""The records of `__consumer_offsets`: the key of each, and its value.

The api key of a record is its type, which the key carries on disk: see `group_record_serde`. Type 4 is only read: Kafka
has not written it since 4.0.
"""

from collections.abc import Sequence

from barnabas.protocol.schema import EMPTY, array, blob, int8, int32, int64, message, nested, string, struct, uuid
from barnabas.protocol.types import ZERO_UUID, Uuid


@message(api_key=1, versions=range(0, 1))
class OffsetCommitKey:
    group: str = string()
    topic: str = string()
    partition: int = int32()


@message(api_key=1, versions=range(0, 5), flexible_since=4)
class OffsetCommitValue:
    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1)
    topic_id: Uuid = uuid(since=4, default=ZERO_UUID, tag=0)


@message(api_key=2, versions=range(0, 1))
class GroupMetadataKey:
    group: str = string()


@struct
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable=True, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


@message(api_key=2, versions=range(0, 5), flexible_since=4)
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable=True)
    leader: str | None = string(nullable=True)
    current_state_timestamp: int = int64(since=2, default=-1)
    members: Sequence[MemberMetadata] = array(MemberMetadata)


@message(api_key=3, versions=range(0, 1))
class ConsumerGroupMetadataKey:
    group_id: str = string()


@message(api_key=3, versions=range(0, 1), flexible_since=0)
class ConsumerGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


@message(api_key=4, versions=range(0, 1))
class ConsumerGroupPartitionMetadataKey:
    group_id: str = string()


@struct
class PartitionMetadata:
    partition: int = int32()
    racks: Sequence[str] = array(string)


@struct
class TopicMetadata:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: Sequence[PartitionMetadata] = array(PartitionMetadata)


@message(api_key=4, versions=range(0, 1), flexible_since=0)
class ConsumerGroupPartitionMetadataValue:
    topics: Sequence[TopicMetadata] = array(TopicMetadata)


@message(api_key=5, versions=range(0, 1))
class ConsumerGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@struct
class ClassicProtocol:
    name: str = string()
    metadata: bytes = blob()


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = int32(default=0)
    supported_protocols: Sequence[ClassicProtocol] = array(ClassicProtocol, default=())


@message(api_key=5, versions=range(0, 1), flexible_since=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable=True)
    rack_id: str | None = string(nullable=True)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable=True)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable=True)
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable=True, default=EMPTY, tag=0
    )
    """None for a member of the consumer protocol. Kafka's default is an empty one, so None is written, not left out."""


@message(api_key=6, versions=range(0, 1))
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(api_key=6, versions=range(0, 1), flexible_since=0)
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0)


@message(api_key=7, versions=range(0, 1))
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition:
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array(int32)


@message(api_key=7, versions=range(0, 1), flexible_since=0)
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: Sequence[TopicPartition] = array(TopicPartition)


@message(api_key=8, versions=range(0, 1))
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    partitions: Sequence[int] = array(int32)
    assignment_epochs: Sequence[int] | None = array(int32, nullable=True, default=(), tag=0)


@message(api_key=8, versions=range(0, 1), flexible_since=0)
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: Sequence[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: Sequence[TopicPartitions] = array(TopicPartitions)


@message(api_key=16, versions=range(0, 1))
class ConsumerGroupRegularExpressionKey:
    group_id: str = string()
    regular_expression: str = string()


@message(api_key=16, versions=range(0, 1), flexible_since=0)
class ConsumerGroupRegularExpressionValue:
    topics: Sequence[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
