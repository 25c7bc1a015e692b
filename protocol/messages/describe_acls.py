"""DescribeAcls: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, message, string, struct


@message(api_key=29, versions=range(1, 4), flexible_since=2)
class DescribeAclsRequest:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable=True)
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable=True)
    host_filter: str | None = string(nullable=True)
    operation: int = int8()
    permission_type: int = int8()


@struct
class AclDescription:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DescribeAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: Sequence[AclDescription] = array(AclDescription)


@message(api_key=29, versions=range(1, 4), flexible_since=2)
class DescribeAclsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resources: Sequence[DescribeAclsResource] = array(DescribeAclsResource)
