"""A group that changes its protocol while it runs: classic -> consumer and back (KIP-848's online migration).

- Upgrade: the first member of the consumer protocol that joins a classic group of consumers makes a consumer group of
  it. Its members go on with the classic protocol, from the partitions that they have.
- Downgrade: when the last member of the consumer protocol is gone, and members of the classic protocol are left, the
  group is a classic one again.
- `group.consumer.migration.policy` says which of the two may happen.

Both are records: tombstones of the one group, then the other. A restart reads what a running broker replays.
"""

from collections.abc import Collection

from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.member import ClassicMember, Protocols
from barnabas.broker.groups.classic.records import group_metadata_record
from barnabas.broker.groups.classic.state import STABLE
from barnabas.broker.groups.consumer import records as consumer_records
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember, with_epoch
from barnabas.broker.groups.consumer.subscriptions import metadata_hash
from barnabas.broker.groups.context import GroupContext
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import GroupIdNotFound, ProtocolError
from barnabas.protocol.stored.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    decode_version,
    encode_assignment,
)
from barnabas.protocol.stored.group_records import ClassicMemberMetadata, ClassicProtocol
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import MetadataImage

_UPGRADES = ("upgrade", "bidirectional")
_DOWNGRADES = ("downgrade", "bidirectional")


class GroupMigration:
    def __init__(self, context: GroupContext) -> None:
        self._context = context

    def _policy(self) -> str:
        return self._context.config().group_consumer_migration_policy.lower()

    # ---- to the consumer protocol

    def upgrade(self, classic: ClassicGroup, records: list[GroupRecord]) -> ConsumerGroup:
        """Returns the group as it will be, and adds the records. Raises GroupIdNotFound if that is not allowed."""
        limit = self._context.config().group_consumer_max_size
        if self._policy() not in _UPGRADES:
            raise _cannot_upgrade(classic, "group.consumer.migration.policy does not allow it")
        if classic.protocol_type != PROTOCOL_TYPE:
            raise _cannot_upgrade(classic, f"its members are no consumers but {classic.protocol_type}")
        if len(classic.members) > limit:
            raise _cannot_upgrade(classic, f"it has {len(classic.members)} members, and may have {limit}")
        group = self._upgraded(classic)
        records += classic.tombstones()
        records += _records_of(group)
        return group

    def _upgraded(self, classic: ClassicGroup) -> ConsumerGroup:
        image, epoch = self._context.image(), classic.generation_id
        group = ConsumerGroup(classic.group_id)
        group.epoch = group.assignment_epoch = epoch
        for member in classic.members.values():
            try:
                converted, partitions = _consumer_member(member, classic, image)
            except ProtocolError as error:
                raise _cannot_upgrade(classic, f"{member.member_id} cannot be understood: {error}") from None
            if any(group.is_taken(topic_id, number) for topic_id, numbers in partitions.items() for number in numbers):
                raise _cannot_upgrade(classic, "its members share partitions")
            group.target_assignment[member.member_id] = partitions
            group.update_member(converted)
        group.metadata_hash = metadata_hash(group.subscriptions.topics, image)
        return group

    # ---- back to the classic protocol

    def _may_downgrade(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        left = len(group.members) - len(leaving)
        classic_left = group.classic_members - sum(member.uses_classic_protocol for member in leaving)
        return left == classic_left and left > 0 and self._may_be_classic(left)

    def may_downgrade_by_replacing(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """Returns whether a static member that comes back with the classic protocol was the last one with the other."""
        if replaced is None or replaced.uses_classic_protocol:
            return False
        return group.classic_members == len(group.members) - 1 and self._may_be_classic(len(group.members))

    def _may_be_classic(self, members: int) -> bool:
        return self._policy() in _DOWNGRADES and members <= self._context.config().group_max_size

    def downgrade(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> list[GroupRecord]:
        """Returns the records, or none if there is no downgrade. A group in which the metadata of a member cannot be
        read stays what it is: whoever leaves it, or is silent, must go all the same."""
        if not self._may_downgrade(group, leaving):
            return []
        gone = {member.member_id for member in leaving}
        stays = [member for member in group.members.values() if member.member_id not in gone]
        try:
            return [*group.tombstones(), self._classic_record(group, stays)]
        except GroupIdNotFound as error:
            self._context.report.warning(error.message, group_id=group.group_id)
            return []

    def downgrade_by_replacing(
        self, group: ConsumerGroup, replaced: ConsumerMember, joining: ConsumerMember
    ) -> list[GroupRecord]:
        """Returns the records that follow those which put `joining` in the place of `replaced`."""
        stays = [member for member in group.members.values() if member.member_id != replaced.member_id]
        members = [*stays, joining]
        tombstones = group.tombstones_with([member.member_id for member in members])
        return [*tombstones, self._classic_record(group, members)]

    def _classic_record(self, group: ConsumerGroup, members: Collection[ConsumerMember]) -> GroupRecord:
        """Returns the record of a stable group, in which every member has what its target says."""
        classic = ClassicGroup(
            group.group_id,
            now_ms=self._context.now_ms,
            on_alive=lambda group, member: None,  # this object lives until it is written
        )
        classic.state = STABLE
        classic.generation_id = group.epoch
        for member in members:
            classic.add(_classic_member(member), PROTOCOL_TYPE)
        protocol_name = classic.protocol_name = classic.select_protocol()
        assignments = {}
        for member in members:
            metadata = classic.members[member.member_id].metadata(protocol_name)
            try:
                assignments[member.member_id] = assignment_bytes(
                    group.target_of(member), metadata, self._context.image()
                )
            except ProtocolError as error:
                text = f"consumer group {group.group_id} cannot become a classic group: {error}"
                raise GroupIdNotFound(text) from None
        return group_metadata_record(classic, assignments)


def assignment_bytes(partitions: Partitions, metadata: bytes, image: MetadataImage) -> bytes:
    """Encodes an assignment for a classic member, in the version of the member's own metadata."""
    found = [(image.topic_by_id(topic_id), numbers) for topic_id, numbers in partitions.items()]
    topics = [
        TopicPartition(topic=topic.name, partitions=sorted(numbers)) for topic, numbers in found if topic is not None
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=sorted(topics, key=lambda topic: topic.topic))
    return encode_assignment(assignment, decode_version(metadata))


def partitions_by_id(topics: Collection[TopicPartition], image: MetadataImage) -> Partitions:
    """Returns the partitions of those topics that exist."""
    found: dict[Uuid, frozenset[int]] = {}
    for topic in topics:
        known = image.topic(topic.topic)
        if known is not None and topic.partitions:
            found[known.topic_id] = frozenset(topic.partitions)
    return found


def _cannot_upgrade(group: ClassicGroup, why: str) -> GroupIdNotFound:
    return GroupIdNotFound(f"classic group {group.group_id} cannot become a consumer group: {why}")


def _consumer_member(
    member: ClassicMember, group: ClassicGroup, image: MetadataImage
) -> tuple[ConsumerMember, Partitions]:
    """Raises ProtocolError if the member's metadata or assignment cannot be read, or would be lost."""
    partitions: Partitions = {}
    if member.assignment:
        assignment = decode_assignment(member.assignment)
        if assignment.user_data:
            raise ProtocolError("its assignor added data of its own")
        partitions = partitions_by_id(assignment.assigned_partitions, image)
    metadata = dict(member.protocols).get(group.protocol_name or "", member.protocols[0][1])
    subscription = decode_subscription(metadata)  # one that has just joined need not know the protocol of the others
    protocols = [ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.protocols]
    converted = ConsumerMember(
        member.member_id,
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned_partitions=with_epoch(partitions, group.generation_id),
        classic=ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, supported_protocols=protocols),
    )
    return converted, partitions


def _classic_member(member: ConsumerMember) -> ClassicMember:
    assert member.classic is not None, "only members of the classic protocol are left"
    return ClassicMember(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=protocols_of(member),
    )


def protocols_of(member: ConsumerMember) -> Protocols:
    return tuple([(protocol.name, protocol.metadata) for protocol in member.classic_protocols])


def _records_of(group: ConsumerGroup) -> list[GroupRecord]:
    group_id, records, members = group.group_id, consumer_records, group.members.values()
    return [
        *[records.member_record(group_id, member) for member in members],
        records.epoch_record(group_id, group.epoch, group.metadata_hash),
        *[records.target_record(group_id, member_id, target) for member_id, target in group.target_assignment.items()],
        records.target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *[records.current_record(group_id, member) for member in members],
    ]
