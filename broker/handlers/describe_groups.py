"""DescribeGroups (15), versions 0 to 6: v3 authorized operations, v4 static members, v6 GROUP_ID_NOT_FOUND (KIP-1043).

Before v6 a group that does not exist is described as a dead one.
"""

from barnabas.base.promise import Promise
from barnabas.broker.authorization import ALL_GROUP_OPERATIONS
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.in_turns import in_turns
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

_NOT_FOUND_SINCE = 6


def handle(node: Node, request: DescribeGroupsRequest, context: RequestContext) -> Promise[DescribeGroupsResponse]:
    def described(group_id: str) -> Promise[DescribedGroup]:
        found = node.groups.run(group_id, lambda shard: Decision((), shard.describe_classic(group_id)))
        return found.or_else(lambda error: _refused(group_id, error, context.api_version)).map(with_operations)

    def with_operations(group: DescribedGroup) -> DescribedGroup:
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = ALL_GROUP_OPERATIONS
        return group

    groups = in_turns(node.clock, request.groups, described)
    return groups.map(lambda all_groups: DescribeGroupsResponse(groups=all_groups))


def _refused(group_id: str, error: KafkaError, api_version: int) -> DescribedGroup:
    is_dead = error.code == ErrorCode.GROUP_ID_NOT_FOUND
    is_error = not is_dead or api_version >= _NOT_FOUND_SINCE
    return DescribedGroup(
        error_code=error.code if is_error else ErrorCode.NONE,
        error_message=error.message if is_error and is_dead else None,
        group_id=group_id,
        group_state="Dead" if is_dead else "",
        protocol_type="",
        protocol_data="",
        members=(),
    )
