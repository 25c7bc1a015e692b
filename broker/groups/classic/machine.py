"""The classic group protocol: members join, one of them assigns, all keep their place by heartbeats.

Rules:
- Deciding changes the state at once, because members wait for each other in memory. Only two things are written: what
  the leader of a generation assigned, before any member learns of it, and that a group is empty.
- A generation outlives a restart. Members that were stored have a whole session to come back in, and go on.
- A member that waits is always answered in the end: also when it asks again, leaves, or is given up.

Requests enter here. `join`, `sync` and `leave` decide; `rebalance` is what they share.
"""

from collections.abc import Mapping
from typing import ClassVar

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.answers import UNKNOWN_MEMBER_ID, join_error
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.join import ClassicJoin
from barnabas.broker.groups.classic.leave import ClassicLeave
from barnabas.broker.groups.classic.member import Protocols
from barnabas.broker.groups.classic.rebalance import ClassicRebalance
from barnabas.broker.groups.classic.records import group_from_record, new_group_record
from barnabas.broker.groups.classic.state import DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.broker.groups.classic.sync import ClassicSync
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.protocol.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    IllegalGeneration,
    InvalidGroupId,
    KafkaError,
    UnknownMemberId,
)
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.stored.group_records import GroupMetadataKey, GroupMetadataValue


class ClassicMachine:
    record_keys: ClassVar[tuple[type, ...]] = (GroupMetadataKey,)

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._rebalance = ClassicRebalance(context)
        self._join = ClassicJoin(context, self._rebalance)
        self._sync = ClassicSync(self._rebalance)
        self._leave = ClassicLeave(self._rebalance)

    # ---- requests

    def join_group(self, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]:
        config = self._context.config()
        if not request.group_id:
            return Decision((), join_error(ErrorCode.INVALID_GROUP_ID, request.member_id))
        timeouts_ms = range(config.group_min_session_timeout_ms, config.group_max_session_timeout_ms + 1)
        if request.session_timeout_ms not in timeouts_ms:
            return Decision((), join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        if client.api_version == 0:  # that version has no rebalance timeout
            request.rebalance_timeout_ms = request.session_timeout_ms
        group = self._find(request.group_id)
        if group is not None:
            return self._join.join(group, request, client)
        if request.member_id != UNKNOWN_MEMBER_ID:
            return Decision((), join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return self._create(request, client)

    def _create(self, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]:
        """Creates a group for a member. It exists once it is stored; if that fails, the member must ask again."""
        group = self.get_or_create_simple(request.group_id)
        joined = self._join.join(group, request, client)
        assert not joined.records, "nothing happens at once in a group that is new"

        def on_committed(error: KafkaError | None) -> None:
            if error is not None and self._context.groups.get(group.group_id) is group:
                del self._context.groups[group.group_id]
                self._rebalance.forget(group, error.code)

        return Decision([new_group_record(group)], joined.response, on_committed=on_committed, is_replayed=False)

    def sync_group(self, request: SyncGroupRequest, client: ClientInfo) -> Decision[SyncGroupResponse]:
        group = self._existing(request.group_id)
        if group.state is EMPTY:
            raise UnknownMemberId(f"{request.group_id} has no members")
        return self._sync.sync(group, request)

    def heartbeat(self, request: HeartbeatRequest, client: ClientInfo) -> Decision[HeartbeatResponse]:
        group = self._existing(request.group_id)
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise IllegalGeneration(f"{group.group_id} has generation {group.generation_id}")
        self._rebalance.start_session(group, member)
        code = ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE
        return Decision((), HeartbeatResponse(error_code=code))

    def leave_group(self, request: LeaveGroupRequest, client: ClientInfo) -> Decision[LeaveGroupResponse]:
        return self._leave.leave(self._existing(request.group_id), request, client)

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        """Describes the group. Members are shown with their metadata once they agree on a protocol to read it by."""
        protocol_name = group.protocol_name if group.state is STABLE else None
        return DescribedGroup(
            error_code=ErrorCode.NONE,
            group_id=group.group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol_name or "",
            members=[member.describe(protocol_name) for member in group.members.values()],
        )

    # ---- groups

    def get_or_create_simple(self, group_id: str) -> ClassicGroup:
        """Returns a group that nobody joined: for consumers that assign themselves, and only store offsets here."""
        group = self._find(group_id)
        if group is None:
            group = ClassicGroup(group_id, now_ms=self._context.now_ms, on_alive=self._rebalance.start_session)
            self._context.groups[group_id] = group
        return group

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._context.groups.get(group_id)
        assert group is None or isinstance(group, ClassicGroup), f"{group_id} is not for the classic protocol"
        return group

    def _existing(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise InvalidGroupId("the group id is empty")
        if (group := self._find(group_id)) is None:
            raise UnknownMemberId(f"there is no group {group_id}")
        if group.state is DEAD:
            raise CoordinatorNotAvailable(f"{group_id} is dead")
        return group

    # ---- records

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        old = self._context.find(key.group, ClassicGroup)
        if old is not None:  # those who wait in it join again: it is about to become a consumer group
            self._rebalance.forget(old, ErrorCode.REBALANCE_IN_PROGRESS)
            del self._context.groups[key.group]
        if value is not None:
            self._context.groups[key.group] = group_from_record(
                key.group, value, now_ms=self._context.now_ms, on_alive=self._rebalance.start_session
            )

    def adopt(self, group_id: str, protocols: Mapping[str, Protocols], reason: str | None) -> None:
        """Completes a group that was a consumer group until its last replay: records know one protocol of each member,
        `protocols` has all. The members' sessions begin; with a reason, so does a rebalance."""
        group = self._context.find(group_id, ClassicGroup)
        if group is not None:
            for member in group.members.values():
                known = protocols.get(member.member_id, member.protocols)
                group.update(member, known, member.rebalance_timeout_ms, member.session_timeout_ms)
                self._rebalance.start_session(group, member)
            if reason is not None and group.state is STABLE:
                self._rebalance.prepare(group, reason)

    def on_loaded(self) -> None:
        """Gives members a whole session to come back in. Makes a group above the limit (it was lowered) join again."""
        most = self._context.config().group_max_size
        for group in self._context.groups_of(ClassicGroup):
            for member in group.members.values():
                self._rebalance.start_session(group, member)
            if len(group.members) > most:
                reason = f"{len(group.members)} members are more than group.max.size allows, which is {most}"
                self._rebalance.prepare(group, reason)

    def on_unloaded(self) -> None:
        for group in self._context.groups_of(ClassicGroup):
            self._rebalance.forget(group, ErrorCode.NOT_COORDINATOR)
