"""DeleteAcls (31), versions 1 to 3: SECURITY_DISABLED for each, as from a Kafka without an authorizer.

v3 knows users as resources.
"""

from barnabas.broker.acl_codes import check_acl_codes
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(_node: Node, request: DeleteAclsRequest, _context: RequestContext) -> DeleteAclsResponse:
    for acl in request.filters:
        check_acl_codes(acl.resource_type_filter, acl.pattern_type_filter, acl.operation, acl.permission_type)
    refused = DeleteAclsFilterResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.", matching_acls=()
    )
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
