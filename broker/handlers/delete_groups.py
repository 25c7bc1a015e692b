"""DeleteGroups (42), versions 0 to 2: groups without members, with all their offsets."""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.in_turns import in_turns
from barnabas.broker.promise import Promise
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(broker: Broker, request: DeleteGroupsRequest, _context: RequestContext) -> Promise[DeleteGroupsResponse]:
    def deleted(group_id: str) -> Promise[DeletableGroupResult]:
        done = broker.groups.run(group_id, lambda shard: shard.delete(group_id))
        return done.or_else(lambda error: DeletableGroupResult(group_id=group_id, error_code=error.code))

    results = in_turns(broker.clock, list(dict.fromkeys(request.groups_names)), deleted)
    return results.map(lambda all_results: DeleteGroupsResponse(throttle_time_ms=0, results=all_results))
