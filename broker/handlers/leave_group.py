"""LeaveGroup (13), versions 0 to 5: v3 many members, also by their instance ids (KIP-345), v5 reasons (KIP-800)."""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

_MANY_MEMBERS_SINCE = 3


def handle(node: Node, request: LeaveGroupRequest, context: RequestContext) -> Promise[LeaveGroupResponse]:
    left = node.groups.run(request.group_id, lambda shard: shard.leave_group(request, context.client))
    return left.or_else(lambda error: _refused(request, error, context.api_version))


def _refused(request: LeaveGroupRequest, error: KafkaError, api_version: int) -> LeaveGroupResponse:
    """Repeats the error for each member where there is no such group."""
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
