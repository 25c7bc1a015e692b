"""What a coordinator decides about consumer groups (KIP-848): heartbeats, leaving, fencing, description.

Rules, Kafka's:
- A member joins with epoch 0, and leaves with -1. A static member leaves for a while with -2, and whoever joins next
  with its instance id takes its place, partitions and all. A member that joins is always taken in, also a known one.
- In a heartbeat what is null is as it was. The answer carries the assignment when it has changed, and whenever the
  member tells everything: then it may have lost an answer.
- The group epoch rises with the subscription of a member, with a member that goes, and with the topics that members are
  subscribed to. The target is computed by the first heartbeat that finds a new epoch.
- Time that passes without a sign of life, or without giving up partitions that others wait for, removes a member.
"""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from barnabas.broker.groups import consumer_describe, consumer_records, consumer_replay
from barnabas.broker.groups.assignors import Partitions
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_member import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    NO_PARTITIONS,
    ConsumerMember,
    PartitionEpochs,
)
from barnabas.broker.groups.consumer_sessions import REBALANCE, ConsumerSessions
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.heartbeat_checks import (
    check_member_epoch,
    check_released,
    check_request,
    check_static_member,
    owned_partitions,
)
from barnabas.broker.groups.member_update import MemberUpdate, supported_assignors
from barnabas.broker.groups.result import GroupRecord, Result
from barnabas.broker.groups.subscriptions import metadata_hash
from barnabas.protocol.errors import ErrorCode, GroupIdNotFound, GroupMaxSizeReached, KafkaError
from barnabas.protocol.group_record_serde import GroupKey, GroupValue
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

R = TypeVar("R")


class ConsumerGroups:
    def __init__(self, context: GroupContext, classic: object) -> None:
        self._context = context
        self._sessions = ConsumerSessions(context, self._expire)

    # ---- requests

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: ClientInfo
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        check_request(request, client.api_version, supported_assignors(self._context))
        if request.member_epoch in (LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH):
            return self._leave(request)
        is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        records: list[GroupRecord] = []
        group = self._group_to_join(request.group_id, records) if is_joining else self._group(request.group_id)
        self._check_size(group, request.member_id)
        member_id = request.member_id or self._context.new_uuid()
        owned = owned_partitions(request.topic_partitions)
        before = self._member(group, request, member_id, owned, records)
        update = MemberUpdate(self._context, group, before, _updated(before, request, client), records)
        settings = self._context.config()
        update.subscribe()
        update.assign(settings.group_consumer_assignment_interval_ms)
        update.reconcile(owned)
        self._sessions.schedule_session(group.group_id, member_id, settings.group_consumer_session_timeout_ms)
        response = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=member_id,
            member_epoch=update.member.member_epoch,
            heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            assignment=_assignment(update.member) if _is_told(request, before, update.member) else None,
        )
        if not records:
            return Result(response)
        return Result(response, records, on_committed=self._after_update(group, update))

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> Result[ConsumerGroupHeartbeatResponse]:
        group = self._group(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.NONE,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        if request.instance_id is None:
            return self.fence(group, [group.member(request.member_id)], response, "it left")
        static = group.static_member(request.instance_id)
        member = check_static_member(static, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
            return self.fence(group, [member], response, "it left")
        return self._leave_for_a_while(group, member, response)

    def _leave_for_a_while(self, group: ConsumerGroup, member: ConsumerMember, response: R) -> Result[R]:
        """Its partitions stay with it, under an epoch that nobody can commit with."""
        away = member._replace(
            member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH,
            partitions_pending_revocation=NO_PARTITIONS,
            assigned_partitions={
                topic_id: dict.fromkeys(numbers, 0) for topic_id, numbers in member.assigned_partitions.items()
            },
        )

        def on_committed(error: KafkaError | None) -> None:
            if error is None:
                self._sessions.cancel(REBALANCE, group.group_id, member.member_id)
                self._tell(group, f"static member {member.instance_id} ({member.member_id}) left for a while")

        return Result(response, [consumer_records.current_record(group.group_id, away)], on_committed=on_committed)

    def describe(self, group: ConsumerGroup) -> DescribedGroup:
        return consumer_describe.describe(group, supported_assignors(self._context)[0], self._context.image())

    # ---- groups and members

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._context.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id}")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"group {group_id} is no consumer group")
        return group

    def _group_to_join(self, group_id: str, records: list[GroupRecord]) -> ConsumerGroup:
        group = self._context.groups.get(group_id)
        if group is None:
            return ConsumerGroup(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group.is_empty:
            records += group.tombstones()
            return ConsumerGroup(group_id)
        raise GroupIdNotFound(f"group {group_id} is no consumer group")

    def _check_size(self, group: ConsumerGroup, member_id: str) -> None:
        limit = self._context.config().group_consumer_max_size
        if len(group.members) >= limit and not group.has_member(member_id):
            raise GroupMaxSizeReached(f"group {group.group_id} has {len(group.members)} members, and may have {limit}")

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        owned: Partitions | None,
        records: list[GroupRecord],
    ) -> ConsumerMember:
        """The member as it was before this heartbeat: a blank one if it is new."""
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

    # ---- those who go

    def fence(self, group: ConsumerGroup, members: Collection[ConsumerMember], response: R, why: str) -> Result[R]:
        """Removes members that leave, or that have not done what they must."""
        if not members:
            return Result(response)
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
        names = ", ".join([member.member_id for member in members])
        text = f"member {names} removed: {why}; group epoch {group.epoch} -> {group.epoch + 1}"

        def on_committed(error: KafkaError | None) -> None:
            if error is None:
                self._tell(group, text)
                for member in members:
                    self._sessions.settle(group.group_id, member.member_id)

        return Result(response, records, on_committed=on_committed)

    def _expire(self, group: ConsumerGroup, member: ConsumerMember, why: str) -> Result[None]:
        return self.fence(group, [member], None, why)

    # ---- records

    def replay(self, key: GroupKey, value: GroupValue | None) -> None:
        consumer_replay.replay(self._context.groups, key, value)

    def on_loaded(self) -> None:
        for group in self._context.groups.values():
            if isinstance(group, ConsumerGroup):
                timeout_ms = self._context.config().group_consumer_session_timeout_ms
                for member in group.members.values():
                    self._sessions.schedule_session(group.group_id, member.member_id, timeout_ms)
                    self._sessions.follow_reconciliation(group.group_id, member)

    def on_unloaded(self) -> None:
        """Nobody waits here: every answer is given at once. Sessions are for the next coordinator to watch."""
        for group in self._context.groups.values():
            if isinstance(group, ConsumerGroup):
                for member_id in group.members:
                    self._sessions.cancel_all(group.group_id, member_id)

    # ---- what is told

    def _after_update(self, group: ConsumerGroup, update: MemberUpdate) -> Callable[[KafkaError | None], None]:
        epoch_before, member = group.epoch, update.member
        is_new = not group.has_member(member.member_id)
        replaced = group.static_member(member.instance_id)

        def on_committed(error: KafkaError | None) -> None:
            if update.has_reconciled or error is not None:
                self._sessions.settle(group.group_id, member.member_id)
            if error is not None:
                return
            if replaced is not None and replaced.member_id != member.member_id:
                self._sessions.settle(group.group_id, replaced.member_id)
            parts = [f"member {member.member_id} joined"] if is_new else []
            if update.epoch != epoch_before:
                parts.append(f"group epoch {epoch_before} -> {update.epoch}")
            if update.assignment_text:
                parts.append(update.assignment_text)
            if parts:
                self._tell(group, "; ".join(parts))

        return on_committed

    def _tell(self, group: ConsumerGroup, text: str) -> None:
        current = self._context.groups.get(group.group_id)
        members = len(current.members) if isinstance(current, ConsumerGroup) else 0
        report_text = f"consumer group {group.group_id} ({members} members): {text}"
        self._context.report.info(report_text, group_id=group.group_id, members=members)


def replace_static_member(
    group: ConsumerGroup, old: ConsumerMember, member_id: str, records: list[GroupRecord]
) -> ConsumerMember:
    """The new member has what the old one had, and begins at epoch 0."""
    new = old._replace(member_id=member_id, member_epoch=0, previous_member_epoch=0)
    records += consumer_records.removal_of_member(group.group_id, old.member_id)
    records.append(consumer_records.member_record(group.group_id, new))
    records.append(consumer_records.target_record(group.group_id, member_id, group.target_of(old)))
    records.append(consumer_records.current_record(group.group_id, new))
    return new


def _updated(before: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: ClientInfo) -> ConsumerMember:
    """What the request leaves null is as it was."""
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


def _is_told(request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember) -> bool:
    """Whether the answer carries the assignment."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None
    is_joining = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
    return is_joining or is_full or before.assigned_partitions != after.assigned_partitions


def _assignment(member: ConsumerMember) -> Assignment:
    partitions: PartitionEpochs = member.assigned_partitions
    topics = [
        TopicPartitions(topic_id=topic_id, partitions=sorted(numbers)) for topic_id, numbers in partitions.items()
    ]
    return Assignment(topic_partitions=topics)
