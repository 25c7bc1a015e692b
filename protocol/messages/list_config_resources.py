"""ListConfigResources: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, int8, int16, int32, message, string, struct


@message(api_key=74, versions=range(0, 2), flexible_since=0)
class ListConfigResourcesRequest:
    resource_types: Sequence[int] = array(int8, since=1, default=())


@struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8(since=1, default=16)


@message(api_key=74, versions=range(0, 2), flexible_since=0)
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    config_resources: Sequence[ConfigResource] = array(ConfigResource)
