"""A consumer group as ConsumerGroupDescribe shows it."""

from collections.abc import Iterable

from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from barnabas.replication.metadata.image import MetadataImage

_CLASSIC, _CONSUMER = 0, 1
_NO_PARTITIONS: Partitions = {}


def describe(group: ConsumerGroup, default_assignor: str, image: MetadataImage) -> DescribedGroup:
    members = [
        _member(member, group.target_assignment.get(member.member_id, _NO_PARTITIONS), image)
        for member in group.members.values()
    ]
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=members,
    )


def _member(member: ConsumerMember, target: Partitions, image: MetadataImage) -> Member:
    """Shows partitions that a member is about to give up as its own: it may still be reading them."""
    has: dict[bytes, set[int]] = {}
    for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
        for topic_id, numbers in partitions.items():
            has.setdefault(topic_id, set()).update(numbers)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(has.items(), image),
        target_assignment=_assignment(target.items(), image),
        member_type=_CLASSIC if member.uses_classic_protocol else _CONSUMER,
    )


def _assignment(partitions: Iterable[tuple[bytes, Iterable[int]]], image: MetadataImage) -> Assignment:
    """Leaves out topics that are gone: they have no name."""
    found = [(image.topic_by_id(topic_id), numbers) for topic_id, numbers in partitions]
    topics = [
        TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=sorted(numbers))
        for topic, numbers in found
        if topic is not None
    ]
    return Assignment(topic_partitions=topics)
