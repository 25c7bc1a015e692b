"""ListGroups (16), versions 0 to 5: v4 by state (KIP-518), v5 by type (KIP-848). Only this coordinator's groups."""

from barnabas.base.promise import Promise, all_of
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(
    node: Node, request: ListGroupsRequest, _context: RequestContext
) -> ListGroupsResponse | Promise[ListGroupsResponse]:
    try:
        listed = node.groups.run_on_each(
            lambda shard: Decision((), shard.list(request.states_filter, request.types_filter))
        )
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=())
    return all_of(listed).map(_response).or_else(lambda error: ListGroupsResponse(error_code=error.code, groups=()))


def _response(shards: list[list[ListedGroup]]) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=[group for groups in shards for group in groups])
