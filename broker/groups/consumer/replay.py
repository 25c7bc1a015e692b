"""Replays the records of consumer groups: the only way in which these groups change.

A tombstone of something that is not there is ignored: compaction may have removed it before. So is one for a group that
has become a classic one.
"""

from barnabas.broker.groups.consumer.group import NO_ASSIGNMENT_EPOCH, ConsumerGroup
from barnabas.broker.groups.consumer.member import LEAVE_GROUP_MEMBER_EPOCH, ConsumerMember
from barnabas.broker.groups.consumer.subscriptions import ResolvedRegularExpression
from barnabas.broker.groups.context import GroupContext
from barnabas.protocol.stored.group_record_serde import GroupValue
from barnabas.protocol.stored.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)

ConsumerGroupKey = (
    ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupRegularExpressionKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupTargetAssignmentMetadataKey
)
RECORD_KEYS: tuple[type, ...] = ConsumerGroupKey.__args__


def replay(context: GroupContext, key: ConsumerGroupKey, value: GroupValue | None) -> None:
    if value is not None:
        _replay_value(_get_or_create(context, key.group_id), key, value)
    elif (group := context.find(key.group_id, ConsumerGroup)) is not None:
        _replay_tombstone(context, group, key)


def _get_or_create(context: GroupContext, group_id: str) -> ConsumerGroup:
    group = context.find(group_id, ConsumerGroup)
    if group is None:
        other = context.groups.get(group_id)
        is_simple = other is not None and other.is_empty and not other.protocol_type
        assert other is None or is_simple, f"{group_id} is a group of another kind, and no record has removed it"
        context.groups[group_id] = group = ConsumerGroup(group_id)
    return group


def _replay_value(group: ConsumerGroup, key: ConsumerGroupKey, value: GroupValue) -> None:
    match key, value:
        case ConsumerGroupCurrentMemberAssignmentKey(), ConsumerGroupCurrentMemberAssignmentValue():
            group.update_member(_member(group, key.member_id).with_assignment(value))
        case ConsumerGroupMemberMetadataKey(), ConsumerGroupMemberMetadataValue():
            group.update_member(_member(group, key.member_id).with_metadata(value))
        case ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue():
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case ConsumerGroupTargetAssignmentMemberKey(), ConsumerGroupTargetAssignmentMemberValue():
            topics = value.topic_partitions
            group.target_assignment[key.member_id] = {
                topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions
            }
        case ConsumerGroupTargetAssignmentMetadataKey(), ConsumerGroupTargetAssignmentMetadataValue():
            group.assignment_epoch = value.assignment_epoch
            group.assignment_timestamp_ms = value.assignment_timestamp
        case ConsumerGroupRegularExpressionKey(), ConsumerGroupRegularExpressionValue():
            resolved = ResolvedRegularExpression(frozenset(value.topics), value.version, value.timestamp)
            group.subscriptions.resolved[key.regular_expression] = resolved
        case ConsumerGroupPartitionMetadataKey(), ConsumerGroupPartitionMetadataValue():
            group.has_partition_metadata_record = True
        case _:
            raise AssertionError(f"{type(key).__name__} with {type(value).__name__}")


def _replay_tombstone(context: GroupContext, group: ConsumerGroup, key: ConsumerGroupKey) -> None:
    match key:
        case ConsumerGroupCurrentMemberAssignmentKey():
            if (member := group.members.get(key.member_id)) is not None:
                group.update_member(member.without_assignment())
        case ConsumerGroupMemberMetadataKey():
            if (member := group.members.get(key.member_id)) is not None:
                assert member.member_epoch == LEAVE_GROUP_MEMBER_EPOCH, "its assignment is removed first"
                assert key.member_id not in group.target_assignment, "its target is removed first"
                group.remove_member(key.member_id)
        case ConsumerGroupMetadataKey():
            assert not group.members, f"{group.group_id} is removed, and still has members"
            assert not group.target_assignment, f"{group.group_id} is removed, and still has a target"
            assert group.assignment_epoch == NO_ASSIGNMENT_EPOCH, "the target is removed first"
            del context.groups[group.group_id]
        case ConsumerGroupTargetAssignmentMemberKey():
            group.target_assignment.pop(key.member_id, None)
        case ConsumerGroupTargetAssignmentMetadataKey():
            assert not group.target_assignment, f"the target of {group.group_id} is removed, and some have one"
            group.assignment_epoch = NO_ASSIGNMENT_EPOCH
            group.assignment_timestamp_ms = 0
        case ConsumerGroupRegularExpressionKey():
            group.subscriptions.resolved.pop(key.regular_expression, None)
        case ConsumerGroupPartitionMetadataKey():
            group.has_partition_metadata_record = False


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)
