"""DescribeGroups (15), versions 0 to 6: v3 authorized operations, v4 static members, v6 GROUP_ID_NOT_FOUND (KIP-1043).

Before v6 a group that does not exist is described as a dead one.
"""

from barnabas.broker.broker import Broker, RequestContext
from barnabas.broker.groups.result import Result
from barnabas.broker.in_turns import in_turns
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

ALL_GROUP_OPERATIONS = 3400
"""Read, delete, describe, describe configs, alter configs: there are no ACLs, so anybody may do anything."""
_NOT_FOUND_SINCE = 6


def handle(broker: Broker, request: DescribeGroupsRequest, context: RequestContext) -> Promise[DescribeGroupsResponse]:
    def described(group_id: str) -> Promise[DescribedGroup]:
        found = broker.groups.run(group_id, lambda shard: Result(shard.describe_classic(group_id)))
        return found.or_else(lambda error: _refused(group_id, error, context.api_version)).map(with_operations)

    def with_operations(group: DescribedGroup) -> DescribedGroup:
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = ALL_GROUP_OPERATIONS
        return group

    groups = in_turns(broker.clock, request.groups, described)
    return groups.map(lambda all_groups: DescribeGroupsResponse(groups=all_groups))


def _refused(group_id: str, error: KafkaError, api_version: int) -> DescribedGroup:
    is_dead = error.code == ErrorCode.GROUP_ID_NOT_FOUND
    is_told = not is_dead or api_version >= _NOT_FOUND_SINCE
    return DescribedGroup(
        error_code=error.code if is_told else ErrorCode.NONE,
        error_message=error.message if is_told and is_dead else None,
        group_id=group_id,
        group_state="Dead" if is_dead else "",
        protocol_type="",
        protocol_data="",
        members=(),
    )
