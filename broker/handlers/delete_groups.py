"""DeleteGroups (42), versions 0 to 3: groups without members, with all their offsets.

v3 says with each error what is wrong.
"""

from barnabas.base.promise import Promise
from barnabas.broker.in_turns import in_turns
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(node: Node, request: DeleteGroupsRequest, _context: RequestContext) -> Promise[DeleteGroupsResponse]:
    def deleted(group_id: str) -> Promise[DeletableGroupResult]:
        done = node.groups.run(group_id, lambda shard: shard.delete(group_id))
        return done.or_else(lambda error: refused(group_id, error))

    results = in_turns(node.clock, list(dict.fromkeys(request.groups_names)), deleted)
    return results.map(lambda all_results: DeleteGroupsResponse(results=all_results))


def refused(group_id: str, error: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=error.code, error_message=error.message or None)
