"""How a classic group rebalances: members join, the leader assigns, all sync; members that do not come are left out.

- A rebalance ends its first half when every member has joined, at the latest after the longest rebalance timeout among
  them. Dynamic members that did not come are removed. Static ones keep their place until their session ends.
- The first rebalance of an empty group waits a little for others to come, and longer while others come.
- Its second half ends with the leader's assignment. Members that do not fetch theirs in time are removed.

Functions return the records to be written: a group that has lost its last member is stored as an empty one.
"""

from collections.abc import Iterable, Sequence

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.answers import join_error, sync_error
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.member import ClassicMember
from barnabas.broker.groups.classic.records import group_metadata_record
from barnabas.broker.groups.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.broker.groups.context import GroupContext, TimerKey
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.sync_group import SyncGroupResponse

Records = Sequence[GroupRecord]

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait for its first answer before it is taken for gone."""

_POSTPONED_MS_MIN = 100
"""A rebalance timeout of 0 must not make a timer that is due again at once."""


def join_answer(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """Lists the members in the leader's answer only: the leader assigns."""
    members = []
    if group.is_leader(member_id):
        members = [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(group.protocol_name),
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


class ClassicRebalance:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._timers = context.timers

    # ---- sessions

    def start_session(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Starts the session of the member, or prolongs it."""
        self.expect(group, member.member_id, member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def expect(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self._timers.schedule(session_key(group, member_id), timeout_ms, lambda: self._expire_session(group, member_id))

    def end_session(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(session_key(group, member_id))

    def remove(self, group: ClassicGroup, member_id: str) -> None:
        """Removes a member, or an id that nobody has joined with so far. The caller sees to the rebalance."""
        self.end_session(group, member_id)
        group.remove(member_id)

    def _expire_session(self, group: ClassicGroup, member_id: str) -> Decision[None] | None:
        member = group.members.get(member_id)
        if member is not None and member.has_satisfied_heartbeat:
            return None  # its session starts again with the answer that it waits for
        self.remove(group, member_id)
        if group.state in (STABLE, COMPLETING_REBALANCE) and member is not None:
            return self.written(group, self.prepare(group, f"the session of {member_id} timed out"))
        if group.state is PREPARING_REBALANCE and group.has_all_members_joined:
            return self.written(group, self.complete_join(group))
        return None

    def forget(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answers every waiting member with the error and cancels all timers: the group is gone, or lives elsewhere."""
        group.transition_to(DEAD)
        for member in group.members.values():
            group.answer_join(member, join_error(error, member.member_id))
            group.answer_sync(member, sync_error(error))
        for member_id in (*group.members, *group.pending_members):
            self.end_session(group, member_id)
        self._timers.cancel(join_key(group))
        self._timers.cancel(sync_key(group))

    # ---- joining

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Records:
        return self.prepare(group, reason) if group.can_rebalance else self.maybe_complete_join(group)

    def prepare(self, group: ClassicGroup, reason: str) -> Records:
        """Makes every member join again."""
        if group.state is COMPLETING_REBALANCE:
            self.propagate_error(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync_members.clear()
        self._timers.cancel(sync_key(group))
        self._context.report.info(
            f"Group {group.group_id} rebalances, generation {group.generation_id} ends: {reason}",
            group_id=group.group_id,
            generation_id=group.generation_id,
            reason=reason,
        )
        group.rebalance_start_ms = self._context.now_ms()
        is_initial = group.state is EMPTY
        group.transition_to(PREPARING_REBALANCE)
        if is_initial:
            delay_ms = self._context.config().group_initial_rebalance_delay_ms
            group.has_new_member = False
            self._hold_back(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            return ()
        if group.has_all_members_joined:
            return self.complete_join(group)
        self._schedule_join_end(group, group.rebalance_timeout_ms)
        return ()

    def _hold_back(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        self._timers.schedule(
            join_key(group), delay_ms, lambda: self._end_or_extend_delay(group, delay_ms, remaining_ms)
        )

    def _end_or_extend_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> Decision[None] | None:
        if not group.has_new_member or remaining_ms == 0:
            return self.written(group, self.complete_join(group))
        group.has_new_member = False
        longest_ms = self._context.config().group_initial_rebalance_delay_ms
        self._hold_back(group, min(longest_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
        return None

    def _schedule_join_end(self, group: ClassicGroup, delay_ms: int) -> None:
        self._timers.schedule(join_key(group), delay_ms, lambda: self.written(group, self.complete_join(group)))

    def maybe_complete_join(self, group: ClassicGroup) -> Records:
        """Ends the first half if every member has joined. The first rebalance of a group is not cut short: more members
        may be on their way."""
        if group.state is not PREPARING_REBALANCE or group.is_initial_rebalance or not group.has_all_members_joined:
            return ()
        return self.complete_join(group)

    def complete_join(self, group: ClassicGroup) -> Records:
        """Begins the next generation with the members that came."""
        self._timers.cancel(join_key(group))
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                self.remove(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            self._schedule_join_end(group, max(group.rebalance_timeout_ms, _POSTPONED_MS_MIN))
            return ()
        group.start_next_generation()
        if group.state is EMPTY:
            self.report_end(group)
            return (group_metadata_record(group, {}),)
        for member in group.members.values():
            group.answer_join(member, join_answer(group, member.member_id))
            self.start_session(group, member)
            member.is_new = False
            group.pending_sync_members.add(member.member_id)
        self._timers.schedule(sync_key(group), group.rebalance_timeout_ms, lambda: self._expire_pending_sync(group))
        return ()

    def written(self, group: ClassicGroup, records: Records) -> Decision[None]:
        return Decision(records, None, on_committed=lambda error: self.warn(group, error), is_replayed=False)

    def warn(self, group: ClassicGroup, error: KafkaError | None) -> None:
        """Reports that an empty group could not be stored. It does no harm: if the broker fails now, the generation
        before becomes the current one again, and its members time out."""
        if error is not None:
            self._context.report.warning(
                f"Group {group.group_id} could not be stored as empty: {error}", group_id=group.group_id
            )

    # ---- assigning

    def received_sync(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._timers.cancel(sync_key(group))

    def _expire_pending_sync(self, group: ClassicGroup) -> Decision[None] | None:
        late = sorted(group.pending_sync_members)
        for member_id in late:
            self.remove(group, member_id)
        return self.written(group, self.prepare(group, f"{_listed(late)} did not fetch the assignment in time"))

    def propagate_assignment(self, group: ClassicGroup) -> None:
        for member in group.members.values():
            response = SyncGroupResponse(
                error_code=ErrorCode.NONE,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            )
            self._answer_sync(group, member, response)

    def propagate_error(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Takes every assignment away, and answers every waiting member with the error."""
        for member in group.members.values():
            member.assignment = b""
            self._answer_sync(group, member, sync_error(error))

    def _answer_sync(self, group: ClassicGroup, member: ClassicMember, response: SyncGroupResponse) -> None:
        """Starts the session again: it may have run out, without effect, while the member waited."""
        if group.answer_sync(member, response):
            self.start_session(group, member)

    def report_end(self, group: ClassicGroup) -> None:
        took_ms = max(self._context.now_ms() - group.rebalance_start_ms, 0)
        outcome = "is empty"
        if group.members:
            count = "1 member" if len(group.members) == 1 else f"{len(group.members)} members"
            outcome = f"is stable with {count} and the protocol {group.protocol_name}"
        self._context.report.info(
            f"Group {group.group_id} has generation {group.generation_id} after {took_ms} ms: it {outcome}",
            group_id=group.group_id,
            generation_id=group.generation_id,
            duration_ms=took_ms,
            members=len(group.members),
            protocol=group.protocol_name,
        )


def _listed(member_ids: Iterable[str]) -> str:
    return ", ".join(member_ids)


def session_key(group: ClassicGroup, member_id: str) -> TimerKey:
    return TimerKey("classic-session", group.group_id, member_id)


def join_key(group: ClassicGroup) -> TimerKey:
    return TimerKey("classic-join", group.group_id)


def sync_key(group: ClassicGroup) -> TimerKey:
    return TimerKey("classic-sync", group.group_id)
