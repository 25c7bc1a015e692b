"""JoinGroup (11), versions 0 to 9.

v1 rebalance timeout, v4 MEMBER_ID_REQUIRED (KIP-394), v5 static members (KIP-345), v7 the protocol's type, v8 a reason
(KIP-800), v9 `skip_assignment` (KIP-814). Answered when everybody has joined, or was waited for long enough.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_PROTOCOL_MAY_BE_NULL_SINCE = 7


def handle(node: Node, request: JoinGroupRequest, context: RequestContext) -> Promise[JoinGroupResponse]:
    joined = node.groups.run(request.group_id, lambda shard: shard.join_group(request, context.client))
    return joined.or_else(lambda error: _refused(request, error)).map(lambda response: _as_of(response, context))


def _refused(request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error.code, protocol_name=None, leader="", member_id=request.member_id, members=()
    )


def _as_of(response: JoinGroupResponse, context: RequestContext) -> JoinGroupResponse:
    """Writes "no protocol" as the version has it; a protocol with an empty name is none, as in Kafka."""
    none = None if context.api_version >= _PROTOCOL_MAY_BE_NULL_SINCE else ""
    response.protocol_name = response.protocol_name or none
    return response
