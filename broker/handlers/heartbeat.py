"""Heartbeat (12), versions 0 to 4: v3 static members. A member of the classic protocol says that it is alive."""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, request: HeartbeatRequest, context: RequestContext) -> Promise[HeartbeatResponse]:
    beaten = node.groups.run(request.group_id, lambda shard: shard.heartbeat(request, context.client))
    return beaten.or_else(_refused)


def _refused(error: KafkaError) -> HeartbeatResponse:
    """Answers with the error, unless the group is still being loaded: then the member only has to go on."""
    is_loading = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
