"""The timers of the members of consumer groups: what each waits for. A member that does not do it in time is removed.

| timer | set | if it comes due |
|---|---|---|
| session | by every sign of life | the member is gone |
| rebalance | when the member must give partitions up | it did not, and others wait for them |
| join | when a classic member must join again | it did not |
| sync | when a classic member has joined | it did not ask for its assignment |
"""

from collections.abc import Callable
from typing import Any

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.member import ConsumerMember, MemberState
from barnabas.broker.groups.context import GroupContext, TimerKey

SESSION = "consumer-session"
REBALANCE = "consumer-rebalance"
JOIN = "consumer-join"
SYNC = "consumer-sync"
KINDS = (SESSION, REBALANCE, JOIN, SYNC)

Fence = Callable[[ConsumerGroup, ConsumerMember, str], Decision[Any]]
"""Removes the member, for the reason that is given."""


class ConsumerSessions:
    def __init__(self, context: GroupContext, fence: Fence) -> None:
        self._context = context
        self._fence = fence

    def schedule_session(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._schedule(SESSION, group_id, member_id, timeout_ms, f"it was silent for {timeout_ms} ms")

    def schedule_classic_sessions(self, group_id: str) -> None:
        """Begins the sessions of the members that came with a classic group."""
        group = self._context.find(group_id, ConsumerGroup)
        for member in group.members.values() if group is not None else ():
            if member.classic is not None:
                self.schedule_session(group_id, member.member_id, member.classic.session_timeout_ms)

    def schedule_join(self, group_id: str, member: ConsumerMember) -> None:
        """Does not move the timer: a member that is asked again and again must not win time by it."""
        key = TimerKey(JOIN, group_id, member.member_id)
        if not self._context.timers.is_scheduled(key):
            timeout_ms = member.rebalance_timeout_ms
            self._schedule(JOIN, group_id, member.member_id, timeout_ms, f"it did not join again in {timeout_ms} ms")

    def schedule_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._schedule(SYNC, group_id, member_id, timeout_ms, f"it did not sync in {timeout_ms} ms")

    def follow_reconciliation(self, group_id: str, member: ConsumerMember) -> None:
        """Sets or cancels the rebalance timer. Members of the classic protocol have join and sync timers instead."""
        if member.uses_classic_protocol:
            return
        key = TimerKey(REBALANCE, group_id, member.member_id)
        if member.state != MemberState.UNREVOKED_PARTITIONS or member.member_epoch < 0:
            self._context.timers.cancel(key)
            return
        epoch, timeout_ms = member.member_epoch, member.rebalance_timeout_ms
        reason = f"it did not give up partitions in {timeout_ms} ms"
        self._context.timers.schedule(
            key, timeout_ms, lambda: self._expire(group_id, member.member_id, reason, in_epoch=epoch)
        )

    def settle(self, group_id: str, member_id: str) -> None:
        """Brings the timers in line with what the member is by now, once records are written or never will be. It may
        have come back under the same id in between."""
        found = self._find(group_id, member_id)
        if found is None:
            self.cancel_all(group_id, member_id)
        else:
            self.follow_reconciliation(group_id, found[1])

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(TimerKey(kind, group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        for kind in KINDS:
            self._context.timers.cancel(TimerKey(kind, group_id, member_id))

    def _schedule(self, kind: str, group_id: str, member_id: str, timeout_ms: int, reason: str) -> None:
        key = TimerKey(kind, group_id, member_id)
        self._context.timers.schedule(key, timeout_ms, lambda: self._expire(group_id, member_id, reason))

    def _expire(
        self, group_id: str, member_id: str, reason: str, *, in_epoch: int | None = None
    ) -> Decision[Any] | None:
        found = self._find(group_id, member_id)
        if found is None or in_epoch not in (None, found[1].member_epoch):
            return None
        return self._fence(*found, reason)

    def _find(self, group_id: str, member_id: str) -> tuple[ConsumerGroup, ConsumerMember] | None:
        group = self._context.find(group_id, ConsumerGroup)
        if group is None or member_id not in group.members:
            return None
        return group, group.members[member_id]
