"""JoinGroup: who may join a classic group, and whether that makes the others join again.

- A new member is given an id first, and joins with it (KIP-394): a client that lost the answer leaves no ghost behind.
- A static member (KIP-345) that comes back without its id takes its old place. In a stable group nobody else notices,
  if the protocol stays the same.
- A member that joins again with nothing new is answered with the current generation. A leader that does so wants a
  rebalance: it may have seen more partitions.
"""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.answers import UNKNOWN_MEMBER_ID, join_error
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.member import ClassicMember, Protocols
from barnabas.broker.groups.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    ClassicRebalance,
    Records,
    join_answer,
)
from barnabas.broker.groups.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.broker.groups.classic.static_member import StaticReplacement
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse

Joined = Decision[JoinGroupResponse]

_REQUIRES_MEMBER_ID = 4
"""Clients before that version cannot join in two steps."""
_NAMED_AFTER_MAX = 8_000
"""How many letters of a client's name the id of its member has: so the id fits into a string, whatever letters they
are."""


class ClassicJoin:
    def __init__(self, context: GroupContext, rebalance: ClassicRebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    def join(self, group: ClassicGroup, request: JoinGroupRequest, client: ClientInfo) -> Joined:
        member_id = request.member_id
        if not self._has_room(group, member_id):
            self._rebalance.remove(group, member_id)
            records = self._rebalance.maybe_complete_join(group)
            return self._answered(group, join_error(ErrorCode.GROUP_MAX_SIZE_REACHED), records)
        if group.state is DEAD:
            return Decision((), join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
        if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            return Decision((), join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        if member_id == UNKNOWN_MEMBER_ID:
            return self._join_new(group, request, client)
        if member_id in group.pending_members:
            if request.group_instance_id is not None:  # ids are handed out in advance to dynamic members only
                return Decision((), join_error(ErrorCode.UNKNOWN_SERVER_ERROR))
            return self._add(group, member_id, request, client)
        try:
            member = group.check_member(member_id, request.group_instance_id)
        except KafkaError as error:
            return Decision((), join_error(error.code, member_id))
        return self._join_again(group, member, request)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Returns whether the group may have this member. In a rebalance, only members that have joined count: if the
        limit was lowered, the last ones to join find no place."""
        most = self._context.config().group_max_size
        member = group.members.get(member_id)
        if group.state is PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < most
        if group.state in (COMPLETING_REBALANCE, STABLE):
            return member is not None or len(group.members) < most
        return True

    # ---- a new member

    def _join_new(self, group: ClassicGroup, request: JoinGroupRequest, client: ClientInfo) -> Joined:
        instance_id = request.group_instance_id
        named_after = client.client_id if instance_id is None else instance_id
        new_member_id = f"{named_after[:_NAMED_AFTER_MAX]}-{self._context.new_uuid()}"
        if instance_id is None and client.api_version >= _REQUIRES_MEMBER_ID:
            group.pending_members.add(new_member_id)
            self._rebalance.expect(group, new_member_id, request.session_timeout_ms)
            return Decision((), join_error(ErrorCode.MEMBER_ID_REQUIRED, new_member_id))
        if instance_id is not None and (old_member_id := group.static_members.get(instance_id)) is not None:
            replacement = StaticReplacement(
                self._rebalance, group, group.members[old_member_id], _new_member(new_member_id, request, client)
            )
            reason = f"static member {instance_id} comes back as {new_member_id}, {client_reason(request.reason)}"
            return replacement.decide(reason, client.api_version)
        return self._add(group, new_member_id, request, client)

    def _add(self, group: ClassicGroup, member_id: str, request: JoinGroupRequest, client: ClientInfo) -> Joined:
        member = _new_member(member_id, request, client)
        member.is_new = True
        if group.is_initial_rebalance:
            group.has_new_member = True
        group.add(member, request.protocol_type)
        self._rebalance.start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        kind = "member" if member.group_instance_id is None else f"static member {member.group_instance_id}"
        return self._wait(group, member, f"new {kind} {member_id} joins, {client_reason(request.reason)}")

    # ---- a member that is known

    def _join_again(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest) -> Joined:
        has_changed = member.protocols != protocols_of(request.protocols)
        if group.state is EMPTY:
            return Decision((), join_error(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        if group.state is PREPARING_REBALANCE:
            return self._rejoin(group, member, request, f"{member.member_id} joins")
        if has_changed:
            return self._rejoin(group, member, request, f"{member.member_id} changes its metadata")
        if group.state is STABLE and group.is_leader(member.member_id):
            return self._rejoin(group, member, request, f"the leader {member.member_id} joins again")
        return Decision((), join_answer(group, member.member_id))  # it may have missed the answer: the same once more

    def _rejoin(self, group: ClassicGroup, member: ClassicMember, request: JoinGroupRequest, reason: str) -> Joined:
        group.update(member, protocols_of(request.protocols), request.rebalance_timeout_ms, request.session_timeout_ms)
        return self._wait(group, member, f"{reason}, {client_reason(request.reason)}")

    def _wait(self, group: ClassicGroup, member: ClassicMember, reason: str) -> Joined:
        promise: Promise[JoinGroupResponse] = Promise()
        group.await_join(member, promise)
        records = self._rebalance.prepare_or_complete(group, reason)
        assert not records, "a group that somebody joins is not empty"
        return Decision((), promise)

    def _answered(self, group: ClassicGroup, response: JoinGroupResponse, records: Records) -> Joined:
        return Decision(
            records, response, on_committed=lambda error: self._rebalance.warn(group, error), is_replayed=False
        )


def _new_member(member_id: str, request: JoinGroupRequest, client: ClientInfo) -> ClassicMember:
    return ClassicMember(
        member_id,
        group_instance_id=request.group_instance_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=protocols_of(request.protocols),
    )


def protocols_of(protocols: Sequence[JoinGroupRequestProtocol]) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in protocols)


def client_reason(reason: str | None) -> str:
    """Returns the reason that the client gave, for people (KIP-800). Clients may send one of any length."""
    return f"client reason: {reason[:255]}" if reason else "no reason given"
