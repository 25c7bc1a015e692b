"""The classic group protocol: members join, one of them assigns, all keep their place by heartbeats.

Rules:
- Deciding changes the state at once, because members wait for each other in memory. Only two things are written: what
  the leader of a generation assigned, before anybody is told of it, and that a group is empty.
- A generation outlives a restart. Members that were stored have a whole session to come back in, and go on.
- Somebody who waits is always answered in the end: also when it asks again, leaves, or is given up.

This is the door; `classic_join`, `classic_sync` and `classic_leave` decide, `classic_rebalance` is what they share.
"""

from collections.abc import Mapping

from barnabas.broker.groups.classic_answers import UNKNOWN_MEMBER_ID, join_error
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.classic_join import ClassicJoin
from barnabas.broker.groups.classic_leave import ClassicLeave
from barnabas.broker.groups.classic_member import Protocols
from barnabas.broker.groups.classic_rebalance import ClassicRebalance
from barnabas.broker.groups.classic_records import group_from_record, new_group_record
from barnabas.broker.groups.classic_state import DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.broker.groups.classic_sync import ClassicSync
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.result import Result
from barnabas.protocol.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    IllegalGeneration,
    InvalidGroupId,
    KafkaError,
    UnknownMemberId,
)
from barnabas.protocol.group_records import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.messages.describe_groups import DescribedGroup
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroups:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._rebalance = ClassicRebalance(context)
        self._join = ClassicJoin(context, self._rebalance)
        self._sync = ClassicSync(self._rebalance)
        self._leave = ClassicLeave(self._rebalance)

    # ---- requests

    def join(self, request: JoinGroupRequest, client: ClientInfo) -> Result[JoinGroupResponse]:
        config = self._context.config()
        if not request.group_id:
            return Result(join_error(ErrorCode.INVALID_GROUP_ID, request.member_id))
        timeouts_ms = range(config.group_min_session_timeout_ms, config.group_max_session_timeout_ms + 1)
        if request.session_timeout_ms not in timeouts_ms:
            return Result(join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        if client.api_version == 0:  # it has no rebalance timeout yet
            request.rebalance_timeout_ms = request.session_timeout_ms
        group = self._find(request.group_id)
        if group is not None:
            return self._join.join(group, request, client)
        if request.member_id != UNKNOWN_MEMBER_ID:
            return Result(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
        return self._create(request, client)

    def _create(self, request: JoinGroupRequest, client: ClientInfo) -> Result[JoinGroupResponse]:
        """A group exists once it is stored. If it cannot be, it never was, and who joined it has to ask again."""
        group = self.get_or_create_simple(request.group_id)
        result = self._join.join(group, request, client)
        assert not result.records, "nothing happens at once in a group that is new"

        def on_committed(error: KafkaError | None) -> None:
            if error is not None and self._context.groups.get(group.group_id) is group:
                del self._context.groups[group.group_id]
                self._rebalance.forget(group, error.code)

        return Result(result.response, [new_group_record(group)], on_committed=on_committed, is_replayed=False)

    def sync(self, request: SyncGroupRequest, client: ClientInfo) -> Result[SyncGroupResponse]:
        group = self._existing(request.group_id)
        if group.state is EMPTY:
            raise UnknownMemberId(f"{request.group_id} has no members")
        return self._sync.sync(group, request)

    def heartbeat(self, request: HeartbeatRequest, client: ClientInfo) -> Result[HeartbeatResponse]:
        group = self._existing(request.group_id)
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise IllegalGeneration(f"{group.group_id} has generation {group.generation_id}")
        self._rebalance.start_session(group, member)
        is_rebalancing = group.state is PREPARING_REBALANCE
        return Result(
            HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE)
        )

    def leave(self, request: LeaveGroupRequest, client: ClientInfo) -> Result[LeaveGroupResponse]:
        return self._leave.leave(self._existing(request.group_id), request, client)

    def describe(self, group: ClassicGroup) -> DescribedGroup:
        """What members can do is told once they agree on how."""
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
        """A group that nobody joined: for consumers that assign themselves, and only store offsets here."""
        group = self._find(group_id)
        if group is None:
            group = ClassicGroup(
                group_id,
                now_ms=self._context.now_ms,
                on_alive=self._rebalance.start_session,
                state_timestamp_ms=self._context.now_ms(),
            )
            self._context.groups[group_id] = group
        return group

    def _find(self, group_id: str) -> ClassicGroup | None:
        group = self._context.groups.get(group_id)
        assert group is None or isinstance(group, ClassicGroup), f"{group_id} is not for the classic protocol"
        return group

    def _existing(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise InvalidGroupId("a group has a name")
        if (group := self._find(group_id)) is None:
            raise UnknownMemberId(f"there is no group {group_id}")
        if group.state is DEAD:
            raise CoordinatorNotAvailable(f"{group_id} is dead")
        return group

    # ---- records

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        old = self._context.groups.get(key.group)
        if isinstance(old, ClassicGroup):
            self._rebalance.forget(old, ErrorCode.NOT_COORDINATOR)
            del self._context.groups[key.group]
        if value is not None:
            self._context.groups[key.group] = group_from_record(
                key.group, value, now_ms=self._context.now_ms, on_alive=self._rebalance.start_session
            )

    def adopt(self, group_id: str, protocols: Mapping[str, Protocols], reason: str | None) -> None:
        """A consumer group has become this one by replay, which tells one protocol of each member: here are all. The
        members' sessions begin; with a reason, so does a rebalance."""
        group = self._context.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                known = protocols.get(member.member_id, member.protocols)
                group.update(member, known, member.rebalance_timeout_ms, member.session_timeout_ms)
                self._rebalance.start_session(group, member)
            if reason is not None and group.state is STABLE:
                self._rebalance.prepare(group, reason)

    def on_loaded(self) -> None:
        """Members have a whole session to come back in. A group above the limit, which was lowered, joins again."""
        most = self._context.config().group_max_size
        for group in self._groups():
            for member in group.members.values():
                self._rebalance.start_session(group, member)
            if len(group.members) > most:
                reason = f"{len(group.members)} members are more than group.max.size allows, which is {most}"
                self._rebalance.prepare(group, reason)

    def on_unloaded(self) -> None:
        for group in self._groups():
            self._rebalance.forget(group, ErrorCode.NOT_COORDINATOR)

    def _groups(self) -> list[ClassicGroup]:
        return [group for group in self._context.groups.values() if isinstance(group, ClassicGroup)]
