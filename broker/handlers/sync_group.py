"""SyncGroup (14), versions 0 to 5: v3 static members, v5 the protocol's type and name.

The leader brings the assignment of every member; the others are answered when it is stored. From v5 on the protocol's
type and name must be there.
"""

from barnabas.base.promise import Promise
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_PROTOCOL_SINCE = 5


def handle(
    node: Node, request: SyncGroupRequest, context: RequestContext
) -> SyncGroupResponse | Promise[SyncGroupResponse]:
    if context.api_version >= _PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    synced = node.groups.run(request.group_id, lambda shard: shard.sync_group(request, context.client))
    return synced.or_else(lambda error: SyncGroupResponse(error_code=error.code, assignment=b""))
