"""ConsumerGroupDescribe (69), versions 0 and 1 (KIP-848): v1 says which protocol each member uses."""

from barnabas.base.promise import Promise
from barnabas.broker.authorization import ALL_GROUP_OPERATIONS
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.in_turns import in_turns
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import InvalidGroupId, KafkaError
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    node: Node, request: ConsumerGroupDescribeRequest, _context: RequestContext
) -> Promise[ConsumerGroupDescribeResponse]:
    def described(group_id: str) -> Promise[DescribedGroup]:
        found = node.groups.run(group_id, lambda shard: Decision((), shard.describe_consumer(_checked(group_id))))
        return found.or_else(lambda error: _refused(group_id, error)).map(with_operations)

    def with_operations(group: DescribedGroup) -> DescribedGroup:
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = ALL_GROUP_OPERATIONS
        return group

    groups = in_turns(node.clock, request.group_ids, described)
    return groups.map(lambda all_groups: ConsumerGroupDescribeResponse(groups=all_groups))


def _checked(group_id: str) -> str:
    if not group_id:
        raise InvalidGroupId("a group's id is not empty")
    return group_id


def _refused(group_id: str, error: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=error.code,
        error_message=error.message or None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
