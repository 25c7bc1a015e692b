"""LeaveGroup: members that say goodbye, and static ones that an administrator removes by name (KIP-345)."""

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.classic.answers import UNKNOWN_MEMBER_ID
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.classic.join import client_reason
from barnabas.broker.groups.classic.rebalance import ClassicRebalance, Records
from barnabas.broker.groups.classic.state import EMPTY
from barnabas.broker.groups.context import ClientInfo
from barnabas.protocol.errors import ErrorCode, KafkaError, UnknownMemberId
from barnabas.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

_TAKES_MANY = 3
"""Before that version one member leaves at a time, and its error is the error of the whole."""


class ClassicLeave:
    def __init__(self, rebalance: ClassicRebalance) -> None:
        self._rebalance = rebalance

    def leave(
        self, group: ClassicGroup, request: LeaveGroupRequest, client: ClientInfo
    ) -> Decision[LeaveGroupResponse]:
        responses: list[MemberResponse] = []
        left: list[str] = []
        for identity in identities(request, client.api_version):
            error_code = ErrorCode.NONE
            try:
                member_id = self._leaving(group, identity)
                self._rebalance.remove(group, member_id)
                left.append(f"{member_id} ({client_reason(identity.reason)})")
            except KafkaError as error:
                error_code = error.code
            responses.append(_response(identity, error_code))
        records: Records = ()
        if left and group.state is not EMPTY:  # an empty group may have members that were about to join
            records = self._rebalance.prepare_or_complete(group, f"{', '.join(left)} left")
        return Decision(
            records,
            leave_answer(responses, client.api_version),
            on_committed=lambda error: self._rebalance.warn(group, error),
            is_replayed=False,
        )

    def _leaving(self, group: ClassicGroup, identity: MemberIdentity) -> str:
        """Returns the id of the member that is meant, which may still be about to join."""
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == UNKNOWN_MEMBER_ID:
            if instance_id is None or instance_id not in group.static_members:
                raise UnknownMemberId(f"{instance_id} is no static member of {group.group_id}")
            return group.static_members[instance_id]
        if member_id not in group.pending_members:
            group.check_member(member_id, instance_id)
        return member_id


def identities(request: LeaveGroupRequest, api_version: int) -> list[MemberIdentity]:
    """Returns the members that leave, whatever the version of the request."""
    return list(request.members) if api_version >= _TAKES_MANY else [MemberIdentity(member_id=request.member_id)]


def leave_answer(responses: list[MemberResponse], api_version: int) -> LeaveGroupResponse:
    if api_version >= _TAKES_MANY:
        return LeaveGroupResponse(error_code=ErrorCode.NONE, members=responses)
    return LeaveGroupResponse(error_code=responses[0].error_code)


def _response(identity: MemberIdentity, error_code: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error_code
    )
