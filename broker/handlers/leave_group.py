"""LeaveGroup (13), versions 0 to 5: v3 many members, also by their instance ids (KIP-345), v5 reasons (KIP-800)."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_MANY_MEMBERS_SINCE = 3


def handle(broker: Broker, request: LeaveGroupRequest, context: RequestContext) -> Promise[LeaveGroupResponse]:
    left = broker.groups.run(request.group_id, lambda shard: shard.leave(request, context.client))
    return left.or_else(lambda error: _refused(request, error, context.api_version))


def _refused(request: LeaveGroupRequest, error: KafkaError, api_version: int) -> LeaveGroupResponse:
    """Where there is no such group, each member is told by itself."""
    if error.code != ErrorCode.UNKNOWN_MEMBER_ID or api_version < _MANY_MEMBERS_SINCE:
        return LeaveGroupResponse(error_code=error.code)
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error.code
            )
            for member in request.members
        ],
    )
