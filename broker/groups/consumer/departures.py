"""How members leave a consumer group: by a request, or because a timer came due."""

from collections.abc import Collection
from typing import TypeVar

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.machine import ClassicMachine
from barnabas.broker.groups.consumer import records as consumer_records
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    partitions_of,
    with_epoch,
)
from barnabas.broker.groups.consumer.member_update import counted
from barnabas.broker.groups.consumer.sessions import REBALANCE, ConsumerSessions
from barnabas.broker.groups.consumer.subscriptions import metadata_hash
from barnabas.broker.groups.context import GroupContext
from barnabas.broker.groups.migration import GroupMigration, protocols_of
from barnabas.broker.groups.record import GroupRecord

R = TypeVar("R")


class ConsumerDepartures:
    def __init__(self, context: GroupContext, classic: ClassicMachine, migration: GroupMigration) -> None:
        self._context = context
        self._classic = classic
        self._migration = migration
        self.sessions = ConsumerSessions(context, self._expire)

    def remove(self, group: ConsumerGroup, members: Collection[ConsumerMember], response: R, why: str) -> Decision[R]:
        """Removes members that leave, or that have not done in time what they must."""
        if not members:
            return Decision((), response)
        names = ", ".join([member.member_id for member in members])
        text = f"{names} removed: {why}"
        if records := self._migration.downgrade(group, members):
            return self.downgraded(group, response, records, f"{text}; only members of the classic protocol are left")
        records = self._removal(group, members)
        left = counted(len(group.members) - len(members), "member")
        text += f"; group epoch {group.epoch} -> {group.epoch + 1}, {left} left"

        def on_appended() -> None:
            self.report(group, text)
            for member in members:
                self.sessions.settle(group.group_id, member.member_id)

        return Decision(records, response, on_appended=on_appended)

    def _removal(self, group: ConsumerGroup, members: Collection[ConsumerMember]) -> list[GroupRecord]:
        records: list[GroupRecord] = []
        subscriptions = group.subscriptions.copy()
        for member in members:
            records += consumer_records.removal_of_member(group.group_id, member.member_id)
            subscriptions.replace(member, None)
        for regex in group.subscriptions.by_regex:
            if regex not in subscriptions.by_regex:
                records.append(consumer_records.regex_tombstone(group.group_id, regex))
        new_hash = metadata_hash(subscriptions.topics, self._context.image())
        records.append(consumer_records.epoch_record(group.group_id, group.epoch + 1, new_hash))
        return records

    def _expire(self, group: ConsumerGroup, member: ConsumerMember, why: str) -> Decision[None]:
        return self.remove(group, [member], None, why)

    def leave_for_a_while(self, group: ConsumerGroup, member: ConsumerMember, response: R) -> Decision[R]:
        """Leaves a static member its partitions, under an epoch that nobody can commit with."""
        away = member._replace(
            member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH,
            assigned_partitions=with_epoch(partitions_of(member.assigned_partitions), 0),
            partitions_pending_revocation=NO_PARTITIONS,
        )

        def on_appended() -> None:
            self.sessions.cancel(REBALANCE, group.group_id, member.member_id)
            self.report(group, f"static member {member.instance_id} ({member.member_id}) left for a while")

        return Decision([consumer_records.current_record(group.group_id, away)], response, on_appended=on_appended)

    def downgraded(
        self,
        group: ConsumerGroup,
        response: R,
        records: list[GroupRecord],
        why: str,
        *,
        joining: ConsumerMember | None = None,
        is_rebalanced: bool = True,
    ) -> Decision[R]:
        """Makes a classic group of it with these records. They hold the chosen protocol only; until it is loaded again,
        the group knows the others as well."""
        member_ids = list(group.members)
        members = [*group.members.values(), *([joining] if joining is not None else [])]
        protocols = {member.member_id: protocols_of(member) for member in members if member.uses_classic_protocol}

        def on_appended() -> None:
            for member_id in member_ids:
                self.sessions.cancel_all(group.group_id, member_id)
            self.report(group, f"goes on as a classic group: {why}")
            self._classic.adopt(group.group_id, protocols, why if is_rebalanced else None)

        return Decision(records, response, on_appended=on_appended)

    def report(self, group: ConsumerGroup, text: str) -> None:
        self._context.report.info(f"consumer group {group.group_id}: {text}", group_id=group.group_id)
