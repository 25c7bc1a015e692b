"""CreateAcls: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, message, string, struct


@struct
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(api_key=30, versions=range(1, 4), flexible_since=2)
class CreateAclsRequest:
    creations: Sequence[AclCreation] = array(AclCreation)


@struct
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


@message(api_key=30, versions=range(1, 4), flexible_since=2)
class CreateAclsResponse:
    throttle_time_ms: int = int32(default=0)
    results: Sequence[AclCreationResult] = array(AclCreationResult)
