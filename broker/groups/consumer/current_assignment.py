"""Brings one member from what it has to what the target assignment says, step by step (KIP-848's reconciliation).

Rules:
- A member first gives up what it must, and keeps its epoch until it says that it did. Then it moves to the target's
  epoch and gets what is free. What another member still has, it waits for.
- Partitions are given up when the member no longer lists them among those it owns. A member that lists nothing has said
  nothing.
- Partitions of a topic that the member is no longer subscribed to are taken away at once, not only when the next target
  is computed: the member would refuse records of that topic.
"""

from collections.abc import Callable, Collection

from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.consumer.member import NO_PARTITIONS, ConsumerMember, MemberState, PartitionEpochs
from barnabas.protocol.errors import FencedMemberEpoch
from barnabas.protocol.types import Uuid

_NOTHING: frozenset[int] = frozenset()


class Reconciliation:
    """The steps of one member. `owned` is what it lists as its own; None if it lists nothing. `is_taken` says whether
    some member has a partition; `topic_ids` are those of the topics the member is subscribed to."""

    __slots__ = ("_is_taken", "_member", "_owned", "_target", "_target_epoch", "_topic_ids")

    def __init__(
        self,
        member: ConsumerMember,
        *,
        target_epoch: int,
        target: Partitions,
        topic_ids: Collection[Uuid],
        is_taken: Callable[[Uuid, int], bool],
        owned: Partitions | None,
    ) -> None:
        self._member = member
        self._target_epoch = target_epoch
        self._target = target
        self._topic_ids = topic_ids
        self._is_taken = is_taken
        self._owned = owned

    def next(self, *, has_subscription_changed: bool = False) -> ConsumerMember:
        """Returns the member after this step; the same one if it can take none."""
        member = self._member
        match member.state:
            case MemberState.STABLE if member.member_epoch != self._target_epoch:
                return self._towards_target(member.member_epoch)
            case MemberState.UNREVOKED_PARTITIONS if not self._owns_any_of(member.partitions_pending_revocation):
                return self._towards_target(member.member_epoch)
            case MemberState.STABLE | MemberState.UNREVOKED_PARTITIONS:
                return self._without_unsubscribed_topics() if has_subscription_changed else member
            case MemberState.UNRELEASED_PARTITIONS:
                return self._towards_target(member.member_epoch)
            case MemberState.UNKNOWN:
                if self._owned is None or self._owned:
                    raise FencedMemberEpoch(f"the state of member {member.member_id} is not known here: join again")
                return self._towards_target(self._target_epoch)

    def _towards_target(self, member_epoch: int) -> ConsumerMember:
        member = self._member
        kept: dict[Uuid, dict[int, int]] = {}
        revoked: dict[Uuid, dict[int, int]] = {}
        assigned: dict[Uuid, dict[int, int]] = {}
        is_waiting = False
        for topic_id in {**self._target, **member.assigned_partitions}:
            has = member.assigned_partitions.get(topic_id, {})
            wanted = self._target.get(topic_id, _NOTHING) if topic_id in self._topic_ids else _NOTHING
            keeps = {partition: epoch for partition, epoch in has.items() if partition in wanted}
            lacks = [partition for partition in sorted(wanted) if partition not in keeps]
            free = [partition for partition in lacks if self._is_free(topic_id, partition)]
            is_waiting |= len(free) < len(lacks)
            if keeps:
                kept[topic_id] = keeps
            if len(keeps) < len(has):
                revoked[topic_id] = {partition: epoch for partition, epoch in has.items() if partition not in wanted}
            if keeps or free:
                assigned[topic_id] = keeps | dict.fromkeys(free, self._target_epoch)
        if revoked and self._owns_any_of(revoked):
            return member._replace(
                state=MemberState.UNREVOKED_PARTITIONS,
                member_epoch=member_epoch,
                previous_member_epoch=member.member_epoch,
                assigned_partitions=kept,
                partitions_pending_revocation=revoked,
            )
        return member._replace(
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            member_epoch=self._target_epoch,
            previous_member_epoch=member.member_epoch,
            assigned_partitions=assigned,
            partitions_pending_revocation=NO_PARTITIONS,
        )

    def _without_unsubscribed_topics(self) -> ConsumerMember:
        member = self._member
        kept: dict[Uuid, dict[int, int]] = {}
        revoked = {topic_id: dict(partitions) for topic_id, partitions in member.partitions_pending_revocation.items()}
        for topic_id, partitions in member.assigned_partitions.items():
            if topic_id in self._topic_ids:
                kept[topic_id] = dict(partitions)
            else:
                revoked[topic_id] = {**revoked.get(topic_id, {}), **partitions}
        if len(kept) == len(member.assigned_partitions):
            return member
        if self._owns_any_of(revoked):
            return member._replace(
                state=MemberState.UNREVOKED_PARTITIONS,
                previous_member_epoch=member.member_epoch,
                assigned_partitions=kept,
                partitions_pending_revocation=revoked,
            )
        return member._replace(previous_member_epoch=member.member_epoch, assigned_partitions=kept)

    def _is_free(self, topic_id: Uuid, partition: int) -> bool:
        """Returns whether nobody has the partition, or the member itself has just given it up."""
        return partition in self._member.partitions_pending_revocation.get(topic_id, {}) or not self._is_taken(
            topic_id, partition
        )

    def _owns_any_of(self, partitions: PartitionEpochs) -> bool:
        if self._owned is None:
            return True
        return any(not numbers.isdisjoint(partitions.get(topic_id, ())) for topic_id, numbers in self._owned.items())
