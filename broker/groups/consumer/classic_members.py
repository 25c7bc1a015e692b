"""Members of the classic protocol in a consumer group (KIP-848's online migration).

The coordinator plays the leader: a member joins and is answered at once, syncs and gets what it may have by now. Its
heartbeats are answered with REBALANCE_IN_PROGRESS whenever there is something to give up or to get. Its generation is
its epoch.

Where a request writes nothing, the member's timers are set while deciding. A group without members that becomes a
classic one follows the rules of classic groups: it changes while deciding, and changes back if that cannot be stored.
"""

from collections.abc import Callable

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.answers import UNKNOWN_MEMBER_ID, join_error
from barnabas.broker.groups.classic.join import client_reason
from barnabas.broker.groups.classic.leave import identities, leave_answer
from barnabas.broker.groups.classic.machine import ClassicMachine
from barnabas.broker.groups.consumer.departures import ConsumerDepartures
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.heartbeat_checks import check_size, check_static_member
from barnabas.broker.groups.consumer.member import ConsumerMember, MemberState, partitions_of
from barnabas.broker.groups.consumer.member_update import MemberUpdate, replace_static_member
from barnabas.broker.groups.consumer.sessions import JOIN, SYNC
from barnabas.broker.groups.consumer.subscriptions import metadata_hash
from barnabas.broker.groups.context import ClientInfo, GroupContext
from barnabas.broker.groups.group_config import group_config
from barnabas.broker.groups.migration import GroupMigration, assignment_bytes, partitions_by_id
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.errors import (
    ErrorCode,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    ProtocolError,
    RebalanceInProgress,
    UnknownMemberId,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.stored.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription, decode_subscription
from barnabas.protocol.stored.group_records import ClassicMemberMetadata, ClassicProtocol

_REQUIRES_MEMBER_ID = 4
"""Clients before that version cannot join in two steps."""


class ConsumerClassic:
    def __init__(
        self, context: GroupContext, classic: ClassicMachine, departures: ConsumerDepartures, migration: GroupMigration
    ) -> None:
        self._context = context
        self._classic = classic
        self._departures = departures
        self._sessions = departures.sessions
        self._migration = migration

    # ---- JoinGroup

    def join(self, group: ConsumerGroup, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]:
        """Decides on a JoinGroup. A refusal by the group carries no member id."""
        config = self._context.config()
        if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
            return Decision((), join_error(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        if group.is_empty:
            return self._join_empty(group, request, client)
        try:
            return self._join(group, request, client)
        except KafkaError as error:
            return Decision((), join_error(error.code))

    def _join(self, group: ConsumerGroup, request: JoinGroupRequest, client: ClientInfo) -> Decision[JoinGroupResponse]:
        if client.api_version == 0:  # that version has no rebalance timeout
            request.rebalance_timeout_ms = request.session_timeout_ms
        is_unknown = request.member_id == UNKNOWN_MEMBER_ID
        member_id = self._context.new_member_id() if is_unknown else request.member_id
        check_size(group, member_id, self._context.config().group_consumer_max_size)
        _check_protocols(group, request)
        if is_unknown and request.group_instance_id is None and client.api_version >= _REQUIRES_MEMBER_ID:
            return Decision((), join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        records: list[GroupRecord] = []
        replaced = group.static_member(request.group_instance_id)
        before = _member_to_join(group, replaced, request, member_id, records)
        subscription = _subscription(request)
        update = MemberUpdate(self._context, group, before, _updated(before, request, subscription, client), records)
        update.subscribe()
        owned = partitions_by_id(subscription.owned_partitions, self._context.image())
        if replaced is not None and self._migration.may_downgrade_by_replacing(group, replaced):
            is_stale = group.assignment_epoch < update.epoch
            if not is_stale:
                update.reconcile(owned)
            records += self._migration.downgrade_by_replacing(group, replaced, update.member)
            why = f"static member {request.group_instance_id}, the last of the consumer protocol, is a classic one now"
            return self._departures.downgraded(
                group, _joined(update), records, why, joining=update.member, is_rebalanced=is_stale
            )
        update.assign(group_config(self._context, group.group_id).consumer_assignment_interval_ms)
        update.reconcile(owned)
        return Decision(
            records,
            _joined(update),
            on_appended=self._after_join(group, update, request, replaced),
        )

    def _join_empty(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: ClientInfo
    ) -> Decision[JoinGroupResponse]:
        """Turns the group into a classic one: there are no members that this could disturb."""
        tombstones = group.tombstones()
        del self._context.groups[group.group_id]
        joined = self._classic.join_group(request, client)
        created = joined.on_committed

        def on_committed(error: KafkaError | None) -> None:
            if created is not None:
                created(error)
            if error is not None:
                self._context.groups.setdefault(group.group_id, group)

        if group.group_id not in self._context.groups:  # it was refused
            self._context.groups[group.group_id] = group
            return joined
        records = [*tombstones, *joined.records]
        return Decision(records, joined.response, on_committed=on_committed, is_replayed=False)

    def _after_join(
        self, group: ConsumerGroup, update: MemberUpdate, request: JoinGroupRequest, replaced: ConsumerMember | None
    ) -> Callable[[], None]:
        member_id, epoch_before = update.member.member_id, group.epoch
        is_new = not group.has_member(member_id)

        def on_appended() -> None:
            update.remember_topics()
            group_id = group.group_id
            self._sessions.cancel(JOIN, group_id, member_id)
            self._sessions.schedule_session(group_id, member_id, request.session_timeout_ms)
            self._sessions.schedule_sync(group_id, member_id, request.rebalance_timeout_ms)
            if replaced is not None:
                self._sessions.settle(group_id, replaced.member_id)
            if text := update.summary(epoch_before, is_new=is_new):
                self._departures.report(group, text)

        return on_appended

    # ---- SyncGroup, Heartbeat, LeaveGroup

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Decision[SyncGroupResponse]:
        member = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.classic is not None, "it was checked"
        protocol = member.classic_protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol.name):
            raise InconsistentGroupProtocol(f"{member.member_id} joined with {PROTOCOL_TYPE}: {protocol.name}")
        if group.assignment_epoch > member.member_epoch and member.state != MemberState.UNREVOKED_PARTITIONS:
            self._sessions.schedule_join(group.group_id, member)
            raise RebalanceInProgress(f"{member.member_id} has to join group {group.group_id} again")
        self._sessions.cancel(SYNC, group.group_id, member.member_id)
        self._sessions.schedule_session(group.group_id, member.member_id, member.classic.session_timeout_ms)
        partitions = partitions_of(member.assigned_partitions)
        return Decision(
            (),
            SyncGroupResponse(
                error_code=ErrorCode.NONE,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=assignment_bytes(partitions, protocol.metadata, self._context.image()),
            ),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        member = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        assert member.classic is not None, "it was checked"
        self._sessions.schedule_session(group.group_id, member.member_id, member.classic.session_timeout_ms)
        has_to_join = (
            member.member_epoch < group.assignment_epoch
            or member.state == MemberState.UNREVOKED_PARTITIONS
            or (member.state == MemberState.UNRELEASED_PARTITIONS and not group.is_waiting_for_partitions(member))
            or self._is_target_left_to_classic_members(group)
        )
        if has_to_join:
            self._sessions.schedule_join(group.group_id, member)
        code = ErrorCode.REBALANCE_IN_PROGRESS if has_to_join else ErrorCode.NONE
        return Decision((), HeartbeatResponse(error_code=code))

    def _is_target_left_to_classic_members(self, group: ConsumerGroup) -> bool:
        """Returns whether a new target is due that only a classic member can bring about. A target is computed when a
        member joins or sends a heartbeat of the consumer protocol; without members of that protocol, one must join
        again. In Kafka they wait for each other."""
        if group.classic_members < len(group.members):
            return False
        if group.epoch <= group.assignment_epoch and not self._have_topics_changed(group):
            return False
        interval_ms = group_config(self._context, group.group_id).consumer_assignment_interval_ms
        return group.may_assign(self._context.now_ms(), interval_ms)

    def _have_topics_changed(self, group: ConsumerGroup) -> bool:
        image = self._context.image()
        if group.has_seen(image.topics):
            return False
        if metadata_hash(group.subscriptions.topics, image) != group.metadata_hash:
            return True
        group.see(image.topics)  # nothing is to be written for them: the next heartbeat need not look again
        return False

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, client: ClientInfo
    ) -> Decision[LeaveGroupResponse]:
        """Removes members of either protocol: an administrator does it like this."""
        left: dict[str, ConsumerMember] = {}
        reasons, responses = [], []
        for identity in identities(request, client.api_version):
            error_code = ErrorCode.NONE
            try:
                member = _leaving(group, identity)
                left[member.member_id] = member
                reasons.append(client_reason(identity.reason))
            except KafkaError as error:
                error_code = error.code
            responses.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
                )
            )
        why = f"LeaveGroup ({', '.join(reasons)})"
        return self._departures.remove(group, left.values(), leave_answer(responses, client.api_version), why)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Returns the member that leaves. The instance id is enough to remove a static member."""
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(identity.group_instance_id)
    member_id = identity.member_id or (member.member_id if member is not None else "")
    return check_static_member(member, member_id, identity.group_instance_id)


def _member_to_join(
    group: ConsumerGroup,
    static: ConsumerMember | None,
    request: JoinGroupRequest,
    member_id: str,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Returns the member as it was before: a blank one if it is new, or what a static member left behind."""
    if request.group_instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id != UNKNOWN_MEMBER_ID:
        return check_static_member(static, member_id, request.group_instance_id)
    return replace_static_member(group, static, member_id, records) if static is not None else ConsumerMember(member_id)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """Raises unless there is a protocol that every classic member supports."""
    supports = [
        group.classic_protocols.get(protocol.name, 0) == group.classic_members for protocol in request.protocols
    ]
    if request.protocol_type != PROTOCOL_TYPE or not any(supports):
        raise InconsistentGroupProtocol(f"no protocol of the member goes with those of group {group.group_id}")


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    """Reads the first protocol of the member: the coordinator assigns, so it makes no difference which."""
    try:
        return decode_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        raise InconsistentGroupProtocol(f"the subscription cannot be read: {error}") from None


def _updated(
    before: ConsumerMember, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, client: ClientInfo
) -> ConsumerMember:
    protocols = [ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in request.protocols]
    return before._replace(
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=client.client_id,
        client_host=client.client_host,
        classic=ClassicMemberMetadata(session_timeout_ms=request.session_timeout_ms, supported_protocols=protocols),
    )


def _joined(update: MemberUpdate) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=update.member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=update.member.classic_protocols[0].name,
        leader="",
        member_id=update.member.member_id,
        members=(),
    )


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static_member(group.static_member(instance_id), member_id, instance_id)
    if not member.uses_classic_protocol:
        raise UnknownMemberId(f"{member_id} does not use the classic protocol")
    return member


def _check_generation(member: ConsumerMember, generation_id: int) -> None:
    if generation_id != member.member_epoch:
        raise IllegalGeneration(f"generation {generation_id} is not {member.member_epoch}, that of {member.member_id}")
