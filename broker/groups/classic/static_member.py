"""A static member that comes back without its id: it gets a new one, and the place of the old one (KIP-345).

In a stable group whose protocol stays the same nobody else has to join again. The group is stored with the new id
before the member learns of it; if that fails, the old id is the member again.
"""

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.member import ClassicMember
from barnabas.broker.groups.classic.rebalance import ClassicRebalance, join_answer
from barnabas.broker.groups.classic.records import group_metadata_record
from barnabas.broker.groups.classic.state import STABLE
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.join_group import JoinGroupResponse

_SKIPS_ASSIGNMENT = 9
"""From that version on an answer can say that the member leads and need not assign (KIP-814)."""


class StaticReplacement:
    """One such return, until it is stored."""

    __slots__ = ("_generation_id", "_group", "_leader_before", "_new", "_old", "_promise", "_rebalance")

    def __init__(
        self, rebalance: ClassicRebalance, group: ClassicGroup, old: ClassicMember, joining: ClassicMember
    ) -> None:
        """Takes as `joining` the member as the request would create it if it were new."""
        self._rebalance = rebalance
        self._group = group
        self._old = old
        self._leader_before = group.leader_id
        self._generation_id = group.generation_id
        self._promise: Promise[JoinGroupResponse] = Promise()
        rebalance.end_session(group, old.member_id)
        self._new = group.replace_static_member(old.member_id, joining.member_id)
        group.update(self._new, joining.protocols, joining.rebalance_timeout_ms, joining.session_timeout_ms)
        group.await_join(self._new, self._promise)
        rebalance.start_session(group, self._new)

    def decide(self, reason: str, api_version: int) -> Decision[JoinGroupResponse]:
        group = self._group
        if group.state is STABLE and group.select_protocol() == group.protocol_name:
            return self._store(api_version)
        # A leader that assigns may know the old id already, so nobody goes on with this generation.
        records = self._rebalance.prepare_or_complete(group, reason)
        assert not records, "a group that somebody joins is not empty"
        return Decision((), self._promise)

    def _store(self, api_version: int) -> Decision[JoinGroupResponse]:
        group = self._group
        group.compute_subscribed_topics()

        def on_committed(error: KafkaError | None) -> None:
            if not self._is_current():
                return  # a rebalance answers the member, or somebody else has taken its place
            if error is not None:
                self._revert(error)
            else:
                group.answer_join(self._new, self._answer(api_version))
                self._rebalance.start_session(group, self._new)

        assignments = {member.member_id: member.assignment for member in group.members.values()}
        record = group_metadata_record(group, assignments)
        return Decision([record], self._promise, on_committed=on_committed, is_replayed=False)

    def _is_current(self) -> bool:
        group = self._group
        return (
            group.state is STABLE
            and group.generation_id == self._generation_id
            and group.members.get(self._new.member_id) is self._new
        )

    def _answer(self, api_version: int) -> JoinGroupResponse:
        is_leader = self._group.is_leader(self._new.member_id)
        if api_version >= _SKIPS_ASSIGNMENT:
            return join_answer(self._group, self._new.member_id, skip_assignment=is_leader)
        answer = join_answer(self._group, self._new.member_id)
        answer.members = ()
        answer.leader = self._leader_before or ""  # a leader that sees its own old id does not assign
        return answer

    def _revert(self, error: KafkaError) -> None:
        group, old, new = self._group, self._old, self._new
        answer = join_answer(group, "")
        answer.error_code = error.code
        answer.leader = self._leader_before or ""
        group.answer_join(new, answer)
        self._rebalance.end_session(group, new.member_id)
        group.update(new, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        restored = group.replace_static_member(new.member_id, old.member_id)
        group.compute_subscribed_topics()
        self._rebalance.start_session(group, restored)
