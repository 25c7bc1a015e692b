"""The target assignment of a consumer group: which member shall have which partition once nothing moves any more."""

from collections.abc import Iterable

from barnabas.broker.groups.assignors import ASSIGNORS, GroupAssignment, GroupSpec, MemberSpec, Partitions
from barnabas.broker.groups.consumer import records as consumer_records
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember
from barnabas.broker.groups.consumer.subscriptions import Subscriptions, topic_ids
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import MetadataImage

_NO_PARTITIONS: Partitions = {}


def compute_target(
    group: ConsumerGroup, updated: ConsumerMember, subscriptions: Subscriptions, assignor: str, image: MetadataImage
) -> GroupAssignment:
    """Computes the target with `updated` among the members, or in the place of the static member whose instance id it
    has."""
    members = {**group.members, updated.member_id: updated}
    replaced_id = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
    if replaced_id is not None and replaced_id != updated.member_id:
        del members[replaced_id]
    known: dict[frozenset[str], frozenset[Uuid]] = {}  # most members of a group are subscribed to the same
    specs = {}
    for member_id, member in members.items():
        topics = subscriptions.topics_of(member)
        if topics not in known:
            known[topics] = topic_ids(topics, image)
        target_id = replaced_id if member is updated and replaced_id is not None else member_id
        specs[member_id] = MemberSpec(
            member_id=member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            topic_ids=known[topics],
            assigned=group.target_assignment.get(target_id, _NO_PARTITIONS),
        )

    def partition_count(topic_id: Uuid) -> int:
        topic = image.topic_by_id(topic_id)
        return len(topic.partitions) if topic is not None else -1

    is_homogeneous = subscriptions.is_homogeneous(len(members))
    return ASSIGNORS[assignor](GroupSpec(members=specs, is_homogeneous=is_homogeneous), partition_count)


def target_records(group: ConsumerGroup, target: GroupAssignment, epoch: int, now_ms: int) -> Iterable[GroupRecord]:
    """Returns what differs from the target before and, last, the epoch of the whole."""
    for member_id, partitions in target.items():
        if group.target_assignment.get(member_id) != partitions:
            yield consumer_records.target_record(group.group_id, member_id, partitions)
    yield consumer_records.target_epoch_record(group.group_id, epoch, now_ms)
