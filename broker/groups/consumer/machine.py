"""Consumer groups (KIP-848): what is decided on heartbeats, on leaving, on fencing; how a group is described.

Rules, Kafka's:
- A member joins with epoch 0, and leaves with -1. A static member leaves for a while with -2, and whoever joins next
  with its instance id takes its place, partitions and all. A member that joins is always taken in, also a known one.
- Fields that are null in a heartbeat have not changed. The answer carries the assignment when it has changed, and
  whenever the member sends all its fields: then it may have lost an answer.
- The group epoch rises with the subscription of a member, with a member that goes, and with the topics that members are
  subscribed to. The target is computed by the first heartbeat that finds a new epoch.
- Time that passes without a sign of life, or without giving up partitions that others wait for, removes a member.

A group changes by replay only. What a decision does besides its records waits until they are appended: `on_appended`
does it. One thing is done while deciding: a sign of life prolongs the session of its member, even if
the records that go with it cannot be written. The member is alive all the same, and must not be fenced for a full disk.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.machine import ClassicMachine
from barnabas.broker.groups.consumer import describe as consumer_describe
from barnabas.broker.groups.consumer import replay as consumer_replay
from barnabas.broker.groups.consumer.classic_members import ConsumerClassic
from barnabas.broker.groups.consumer.departures import ConsumerDepartures
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.heartbeat_checks import (
    check_member_epoch,
    check_released,
    check_request,
    check_size,
    check_static_member,
    owned_partitions,
)
from barnabas.broker.groups.consumer.member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerMember,
)
from barnabas.broker.groups.consumer.member_update import MemberUpdate, replace_static_member
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.group import GroupType
from barnabas.broker.groups.group_config import GroupConfig, group_config
from barnabas.broker.groups.migration import GroupMigration
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import ErrorCode, GroupIdNotFound
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.stored.group_record_serde import GroupValue


class ConsumerMachine:
    record_keys: ClassVar[tuple[type, ...]] = consumer_replay.RECORD_KEYS

    def __init__(self, context: GroupContext, classic: ClassicMachine) -> None:
        self._context = context
        self._migration = GroupMigration(context)
        self._departures = ConsumerDepartures(context, classic, self._migration)
        self._sessions = self._departures.sessions
        self._classic = ConsumerClassic(context, classic, self._departures, self._migration)

    # ---- requests

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        check_request(request, client.api_version, self._context.config().group_consumer_assignors)
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leave(request)
        is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        records: list[GroupRecord] = []
        group = self._group_to_join(request.group_id, records) if is_joining else self._group(request.group_id)
        check_size(group, request.member_id, self._context.config().group_consumer_max_size)
        member_id = request.member_id or self._context.new_member_id()
        owned = owned_partitions(request.topic_partitions)
        before = self._member(group, request, member_id, owned, records)
        update = MemberUpdate(self._context, group, before, _updated(before, request, client), records)
        settings = group_config(self._context, group.group_id)
        update.subscribe()
        update.assign(settings.consumer_assignment_interval_ms)
        update.reconcile(owned)
        if member_id in group.members:
            self._sessions.schedule_session(group.group_id, member_id, settings.consumer_session_timeout_ms)
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member_id,
            member_epoch=update.member.member_epoch,
            heartbeat_interval_ms=settings.consumer_heartbeat_interval_ms,
            assignment=_assignment(update.member) if _carries_assignment(request, before, update.member) else None,
        )
        return Decision(records, response, on_appended=self._after_update(group, update, settings))

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> Decision[ConsumerGroupHeartbeatResponse]:
        group = self._group(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        if request.instance_id is None:
            return self._departures.remove(group, [group.member(request.member_id)], response, "it left")
        static = group.static_member(request.instance_id)
        member = check_static_member(static, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
            return self._departures.remove(group, [member], response, "it left")
        return self._departures.leave_for_a_while(group, member, response)

    def describe(self, group: ConsumerGroup) -> DescribedGroup:
        return consumer_describe.describe(
            group, self._context.config().group_consumer_assignors[0], self._context.image()
        )

    # ---- requests of the classic protocol, to groups that are consumer groups

    def join_group(self, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]:
        return self._classic.join(self._group(request.group_id), request, client)

    def sync_group(self, request: SyncGroupRequest, client: ClientInfo) -> Decision[SyncGroupResponse]:
        return self._classic.sync(self._group(request.group_id), request)

    def heartbeat(self, request: HeartbeatRequest, client: ClientInfo) -> Decision[HeartbeatResponse]:
        return self._classic.heartbeat(self._group(request.group_id), request)

    def leave_group(self, request: LeaveGroupRequest, client: ClientInfo) -> Decision[LeaveGroupResponse]:
        return self._classic.leave(self._group(request.group_id), request, client)

    # ---- groups and members

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._context.find(group_id, ConsumerGroup)
        if group is None:
            if group_id in self._context.groups:
                raise GroupIdNotFound(f"group {group_id} is no consumer group")
            raise GroupIdNotFound(f"there is no group {group_id}")
        return group

    def _group_to_join(self, group_id: str, records: list[GroupRecord]) -> ConsumerGroup:
        """Returns the group, or what it will be once `records` are replayed."""
        group = self._context.groups.get(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if group.is_empty and group.type is not GroupType.CONSUMER:
            records += group.tombstones()
            return ConsumerGroup(group_id)
        classic = self._context.find(group_id, ClassicGroup)
        return self._migration.upgrade(classic, records) if classic is not None else self._group(group_id)

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Partitions | None,
        records: list[GroupRecord],
    ) -> ConsumerMember:
        """Returns the member as it was before this heartbeat: a blank one if it is new."""
        is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        static = group.static_member(request.instance_id)
        if is_joining and static is not None and request.instance_id is not None:
            if not static.uses_classic_protocol:
                check_released(static, request.instance_id)
            return replace_static_member(group, static, member_id, records)
        if is_joining:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.instance_id is None:
            member = group.member(member_id)
        else:
            member = check_static_member(static, member_id, request.instance_id)
        check_member_epoch(member, request.member_epoch, owned)
        return member

    # ---- records

    def replay(self, key: consumer_replay.ConsumerGroupKey, value: GroupValue | None) -> None:
        consumer_replay.replay(self._context, key, value)

    def on_loaded(self) -> None:
        for group in self._context.groups_of(ConsumerGroup):
            timeout_ms = group_config(self._context, group.group_id).consumer_session_timeout_ms
            for member in group.members.values():
                self._sessions.schedule_session(group.group_id, member.member_id, timeout_ms)
                self._sessions.follow_reconciliation(group.group_id, member)

    def on_unloaded(self) -> None:
        """Cancels all timers: the next coordinator watches sessions. No promise is open: answers are ready at once."""
        for group in self._context.groups_of(ConsumerGroup):
            for member_id in group.members:
                self._sessions.cancel_all(group.group_id, member_id)

    # ---- what follows

    def _after_update(self, group: ConsumerGroup, update: MemberUpdate, settings: GroupConfig) -> Callable[[], None]:
        if not update.records:
            return update.remember_topics
        epoch_before, member = group.epoch, update.member
        is_new = not group.has_member(member.member_id)
        replaced = group.static_member(member.instance_id)
        is_upgrade = self._context.find(group.group_id, ClassicGroup) is not None

        def on_appended() -> None:
            update.remember_topics()
            if is_new:
                self._sessions.schedule_session(group.group_id, member.member_id, settings.consumer_session_timeout_ms)
            if update.has_reconciled:
                self._sessions.settle(group.group_id, member.member_id)
            if replaced is not None and replaced.member_id != member.member_id:
                self._sessions.settle(group.group_id, replaced.member_id)
            if is_upgrade:
                self._sessions.schedule_classic_sessions(group.group_id)
                self._departures.report(group, "was a classic group until now")
            if text := update.summary(epoch_before, is_new=is_new):
                self._departures.report(group, text)

        return on_appended


def _updated(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo) -> ConsumerMember:
    """Returns the member with the fields of the request that are not null."""
    changes: dict[str, Any] = {"client_id": client.client_id, "client_host": client.client_host, "classic": None}
    if request.instance_id is not None:
        changes["instance_id"] = request.instance_id
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None:
        changes["server_assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        changes["subscribed_topic_names"] = frozenset(request.subscribed_topic_names)
    if request.subscribed_topic_regex is not None:
        changes["subscribed_topic_regex"] = request.subscribed_topic_regex
    return before._replace(**changes)


def _carries_assignment(request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember) -> bool:
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None
    is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    return is_joining or is_full or before.assigned_partitions != after.assigned_partitions


def _assignment(member: ConsumerMember) -> Assignment:
    partitions = member.assigned_partitions.items()
    topics = [TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in partitions]
    return Assignment(topic_partitions=topics)
