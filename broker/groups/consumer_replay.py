"""Replays the records of consumer groups: the only way in which these groups change.

A tombstone of what is not there says nothing: compaction may have taken what it removes. Nor does one for a group that
has become a classic one.
"""

from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.consumer_group import NO_ASSIGNMENT_EPOCH, ConsumerGroup
from barnabas.broker.groups.consumer_member import LEAVE_GROUP_MEMBER_EPOCH, ConsumerMember
from barnabas.broker.groups.group import Group
from barnabas.broker.groups.subscriptions import ResolvedRegularExpression
from barnabas.protocol.group_record_serde import GroupKey, GroupValue
from barnabas.protocol.group_records import (
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
    GroupMetadataKey,
    OffsetCommitKey,
)


def replay(groups: dict[str, Group], key: GroupKey, value: GroupValue | None) -> None:
    assert not isinstance(key, OffsetCommitKey | GroupMetadataKey), "not a record of consumer groups"
    if value is None:
        group = groups.get(key.group_id)
        if isinstance(group, ConsumerGroup):
            _replay_tombstone(groups, group, key)
    else:
        _replay_value(_get_or_create(groups, key.group_id), key, value)


def _get_or_create(groups: dict[str, Group], group_id: str) -> ConsumerGroup:
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    is_simple = isinstance(group, ClassicGroup) and group.is_empty and not group.protocol_type
    assert group is None or is_simple, f"{group_id} is a classic group, and no record has removed it"
    groups[group_id] = created = ConsumerGroup(group_id)
    return created


def _replay_value(group: ConsumerGroup, key: GroupKey, value: GroupValue) -> None:
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


def _replay_tombstone(groups: dict[str, Group], group: ConsumerGroup, key: GroupKey) -> None:
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
            del groups[group.group_id]
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
