"""SyncGroup (14), versions 0 to 5: v3 static members, v5 the protocol's type and name.

The leader brings everybody's assignment; the others are answered when it has, and when that is stored.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(broker: Broker, request: SyncGroupRequest, context: RequestContext) -> Promise[SyncGroupResponse]:
    synced = broker.groups.run(request.group_id, lambda shard: shard.sync(request, context.client))
    return synced.or_else(lambda error: SyncGroupResponse(error_code=error.code, assignment=b""))
