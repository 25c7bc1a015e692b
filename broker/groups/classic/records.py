"""Classic groups as records: one for each group, with all its members."""

from collections.abc import Callable, Mapping

from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.member import ClassicMember
from barnabas.broker.groups.classic.state import EMPTY, STABLE
from barnabas.broker.groups.record import GroupRecord
from barnabas.protocol.stored.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_NOT_SET = -1


def group_metadata_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupRecord:
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=_NOT_SET if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=[_member_metadata(group, member, assignments) for member in group.members.values()],
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value)


def _member_metadata(group: ClassicGroup, member: ClassicMember, assignments: Mapping[str, bytes]) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(group.protocol_name),
        assignment=assignments[member.member_id],
    )


def new_group_record(group: ClassicGroup) -> GroupRecord:
    """Returns the record of a group without members, even if some wait to become one."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_NOT_SET if group.state_timestamp_ms is None else group.state_timestamp_ms,
        members=(),
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value)


def group_from_record(
    group_id: str,
    value: GroupMetadataValue,
    *,
    now_ms: Callable[[], int],
    on_alive: Callable[[ClassicGroup, ClassicMember], None],
) -> ClassicGroup:
    """Builds a group from its record. Only what a leader assigned is written, so a group with members is stable."""
    timestamp_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, now_ms=now_ms, on_alive=on_alive)
    group.state = STABLE if value.members else EMPTY
    group.state_timestamp_ms = None if timestamp_ms == _NOT_SET else timestamp_ms
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for member in value.members:
        group.add(_member_from(member, value.protocol), value.protocol_type)
    group.compute_subscribed_topics()
    return group


def _member_from(member: MemberMetadata, protocol_name: str | None) -> ClassicMember:
    timeout_ms = member.rebalance_timeout  # version 0 has none
    return ClassicMember(
        member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.session_timeout if timeout_ms == _NOT_SET else timeout_ms,
        session_timeout_ms=member.session_timeout,
        protocols=((protocol_name or "", member.subscription),),
        assignment=member.assignment,
    )
