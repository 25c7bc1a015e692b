"""IncrementalAlterConfigs: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable=True)


@struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, versions=range(0, 2), flexible_since=1)
class IncrementalAlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=44, versions=range(0, 2), flexible_since=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
