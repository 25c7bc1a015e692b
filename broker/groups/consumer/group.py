"""A consumer group (KIP-848): its members, the epoch of the group, and the target that its members move towards.

Rules:
- Every change of what the group has to share, members or topics, begins a new group epoch. The target assignment is
  computed for an epoch; until it is, the group is Assigning. Until every member is there, it is Reconciling.
- A partition has at most one owner, until that one has given it up. `_partition_epochs` knows the owner's epoch.
- State changes by replay only. What the group remembers of the topics it has looked at is no state.
"""

from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar

from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.consumer import records as consumer_records
from barnabas.broker.groups.consumer.member import ConsumerMember, PartitionEpochs
from barnabas.broker.groups.consumer.subscriptions import Subscriptions, count
from barnabas.broker.groups.group import GroupType, PartitionCheck
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import (
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from barnabas.protocol.stored.consumer_protocol import PROTOCOL_TYPE
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import TopicImage
from barnabas.replication.metadata.persistent_map import PersistentMap

FIRST_EPOCH = 1
NO_ASSIGNMENT_EPOCH = -1
_MEMBER_EPOCH_SINCE = 9
"""The version of OffsetCommit that can carry a member epoch."""
_NO_TARGET: Partitions = {}

Topics = PersistentMap[str, TopicImage]


class ConsumerGroupState(StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    type: ClassVar[GroupType] = GroupType.CONSUMER
    protocol_type = PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.has_partition_metadata_record = False
        """An older broker wrote one: it is removed at the next occasion."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.target_assignment: dict[str, Partitions] = {}
        self.subscriptions = Subscriptions()
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        """How many of the classic members support each protocol."""
        self._assignors: dict[str, int] = {}
        self._partition_epochs: dict[tuple[Uuid, int], int] = {}
        self._topics_seen: Topics | None = None

    # ---- members

    def member(self, member_id: str) -> ConsumerMember:
        if (member := self.members.get(member_id)) is None:
            raise UnknownMemberId(f"{member_id} is no member of group {self.group_id}")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None or instance_id not in self.static_members:
            return None
        return self.members[self.static_members[instance_id]]

    def update_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if before is not None and before.instance_id != member.instance_id:
            self._forget_instance(before)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._count(before, member)
        self._free_partitions(before)
        self._take_partitions(member.assigned_partitions, member.member_epoch)
        self._take_partitions(member.partitions_pending_revocation, member.member_epoch)

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._forget_instance(member)
        self._count(member, None)
        self._free_partitions(member)

    def _forget_instance(self, member: ConsumerMember) -> None:
        """Does nothing if another member has taken the name."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _count(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self.subscriptions.replace(before, after)
        for member, change in ((before, -1), (after, 1)):
            if member is None:
                continue
            if member.server_assignor is not None:
                count(self._assignors, member.server_assignor, change)
            if member.uses_classic_protocol:
                self.classic_members += change
            for protocol in member.classic_protocols:
                count(self.classic_protocols, protocol.name, change)

    # ---- partitions

    def is_taken(self, topic_id: Uuid, partition: int) -> bool:
        return (topic_id, partition) in self._partition_epochs

    def _free_partitions(self, member: ConsumerMember | None) -> None:
        """Frees what is still the member's. A partition with another epoch is another member's by now: compaction may
        have removed the records between."""
        if member is None:
            return
        for partitions in (member.assigned_partitions, member.partitions_pending_revocation):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    if self._partition_epochs.get((topic_id, number)) == member.member_epoch:
                        del self._partition_epochs[topic_id, number]

    def _take_partitions(self, partitions: PartitionEpochs, member_epoch: int) -> None:
        for topic_id, numbers in partitions.items():
            for number in numbers:
                owner_epoch = self._partition_epochs.get((topic_id, number))
                assert owner_epoch is None or owner_epoch < member_epoch, "a partition has one owner"
                self._partition_epochs[topic_id, number] = member_epoch

    def target_of(self, member: ConsumerMember) -> Partitions:
        """Returns the target of a member. A member that takes a static member's place takes its target too."""
        member_id = self.static_members.get(member.instance_id) if member.instance_id is not None else member.member_id
        return self.target_assignment.get(member_id, _NO_TARGET) if member_id is not None else _NO_TARGET

    def is_waiting_for_partitions(self, member: ConsumerMember) -> bool:
        """Returns whether another member still has a part of this member's target."""
        for topic_id, partitions in self.target_assignment.get(member.member_id, _NO_TARGET).items():
            has = member.assigned_partitions.get(topic_id, {})
            if any(number not in has and self.is_taken(topic_id, number) for number in partitions):
                return True
        return False

    def may_assign(self, now_ms: int, interval_ms: int) -> bool:
        """Returns whether the last target is old enough for another: members that come together get the same one."""
        if not self.assignment_timestamp_ms or not interval_ms:
            return True
        return now_ms >= self.assignment_timestamp_ms + interval_ms

    # ---- the assignor

    def preferred_assignor(
        self, before: ConsumerMember | None = None, after: ConsumerMember | None = None
    ) -> str | None:
        """Returns the assignor that most members ask for, if `after` were in the place of `before`; None if nobody asks
        for one. The name breaks a tie: after a restart it must be the same one."""
        votes = dict(self._assignors)
        if before is not None and before.server_assignor is not None:
            count(votes, before.server_assignor, -1)
        if after is not None and after.server_assignor is not None:
            count(votes, after.server_assignor, 1)
        return max(votes, key=lambda name: (votes[name], name), default=None)

    # ---- metadata

    def has_seen(self, topics: Topics) -> bool:
        """Returns whether the group's epoch takes account of these topics."""
        return self._topics_seen is topics

    def see(self, topics: Topics) -> None:
        """Remembers that the records which take account of these topics are written. It saves work, and is no state: a
        group that was loaded again looks once more."""
        self._topics_seen = topics

    # ---- what every kind of group answers for

    @property
    def state_name(self) -> str:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def has_member(self, member_id: str) -> bool:
        return member_id in self.members

    def check_offset_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int, api_version: int
    ) -> PartitionCheck | None:
        epoch = generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return None
        member = self.member(member_id)
        if not member.uses_classic_protocol and api_version < _MEMBER_EPOCH_SINCE:
            raise UnsupportedVersion("members of the consumer protocol commit with OffsetCommit 9 or later")
        return _commit_check(member, epoch)

    def check_transactional_commit(
        self, member_id: str, group_instance_id: str | None, generation_id_or_member_epoch: int
    ) -> PartitionCheck | None:
        epoch = generation_id_or_member_epoch
        says_who = epoch >= 0 or member_id or group_instance_id is not None
        if not says_who or (epoch < 0 and not self.members):
            return None
        return _commit_check(self.member(member_id), epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.member(member_id or "")
        if member_epoch != member.member_epoch:
            raise _stale_epoch(member, f"epoch {member_epoch} is not {member.member_epoch}, that of {member_id}")

    def check_offset_delete(self) -> None:
        """Raises nothing: only offsets of topics that the group is subscribed to cannot be deleted."""

    def check_delete(self) -> None:
        if self.members:
            raise NonEmptyGroup(f"group {self.group_id} has {len(self.members)} members")

    def is_subscribed_to(self, topic: str) -> bool:
        return self.subscriptions.covers(topic)

    def offsets_expire_since_ms(self, topic: str, commit_timestamp_ms: int, now_ms: int) -> int | None:
        return None if self.is_subscribed_to(topic) else commit_timestamp_ms

    def tombstones(self) -> list[GroupRecord]:
        return self.tombstones_with(self.members)

    def tombstones_with(self, member_ids: Collection[str]) -> list[GroupRecord]:
        """Returns the tombstones for the case that these are its members when they are replayed."""
        group_id, records = self.group_id, consumer_records
        return [
            *[records.current_tombstone(group_id, member_id) for member_id in member_ids],
            *[records.target_tombstone(group_id, member_id) for member_id in member_ids],
            records.target_epoch_tombstone(group_id),
            *[records.member_tombstone(group_id, member_id) for member_id in member_ids],
            *[records.regex_tombstone(group_id, regex) for regex in self.subscriptions.resolved],
            records.partition_metadata_tombstone(group_id),
            records.epoch_tombstone(group_id),
        ]


def _commit_check(member: ConsumerMember, epoch: int) -> PartitionCheck | None:
    """Lets a member with an older epoch commit where it has been the owner since: answers may be under way."""
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        raise _stale_epoch(member, f"epoch {epoch} is to come, that of {member.member_id} is {member.member_epoch}")

    def check(topic: str, topic_id: Uuid, partition: int) -> None:
        since = member.assignment_epoch_of(topic_id, partition)
        if since is None or epoch < since:
            text = f"{topic}-{partition} was not assigned to {member.member_id} in epoch {epoch}"
            raise _stale_epoch(member, text)

    return check


def _stale_epoch(member: ConsumerMember, message: str) -> KafkaError:
    """Returns the error by which the member's protocol says that an epoch is over."""
    return IllegalGeneration(message) if member.uses_classic_protocol else StaleMemberEpoch(message)
