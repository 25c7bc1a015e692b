"""ListGroups (16), versions 0 to 5: v4 by state (KIP-518), v5 by type (KIP-848). Only this coordinator's groups."""

from functools import partial

from barnabas.base.promise import Promise, all_of
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.shard import GroupShard
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(
    node: Node, request: ListGroupsRequest, _context: RequestContext
) -> ListGroupsResponse | Promise[ListGroupsResponse]:
    try:
        listed = node.groups.run_on_each(partial(_listed, request))
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code, groups=())
    return all_of([groups.or_else(_groups_of_none) for groups in listed]).map(_response)


def _listed(request: ListGroupsRequest, shard: GroupShard) -> Decision[list[ListedGroup] | KafkaError]:
    return Decision((), shard.list(request.states_filter, request.types_filter))


def _groups_of_none(error: KafkaError) -> list[ListedGroup] | KafkaError:
    """Returns no groups for a partition that was moved away meanwhile: its new leader lists them."""
    return [] if error.code == ErrorCode.NOT_COORDINATOR else error


def _response(shards: list[list[ListedGroup] | KafkaError]) -> ListGroupsResponse:
    groups: list[ListedGroup] = []
    for shard in shards:
        if isinstance(shard, KafkaError):
            return ListGroupsResponse(error_code=shard.code, groups=())
        groups += shard
    return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)
