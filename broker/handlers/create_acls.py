"""CreateAcls (30), versions 1 to 3: SECURITY_DISABLED for each, as from a Kafka without an authorizer.

v3 knows users as resources.
"""

from barnabas.broker.acl_codes import check_acl_codes
from barnabas.broker.node import Node
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(_node: Node, request: CreateAclsRequest, _context: RequestContext) -> CreateAclsResponse:
    for acl in request.creations:
        check_acl_codes(acl.resource_type, acl.resource_pattern_type, acl.operation, acl.permission_type)
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return CreateAclsResponse(results=[refused] * len(request.creations))
