"""DescribeAcls (29), versions 1 to 3: SECURITY_DISABLED, as from a Kafka without an authorizer.

v3 knows users as resources.
"""

from barnabas.broker.acl_codes import check_acl_codes
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


def handle(_node: Node, request: DescribeAclsRequest, _context: RequestContext) -> DescribeAclsResponse:
    check_acl_codes(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
        resources=(),
    )
