"""DescribeConfigs: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: Sequence[str] | None = array(string, nullable=True)


@message(api_key=32, versions=range(1, 5), flexible_since=4)
class DescribeConfigsRequest:
    resources: Sequence[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean(since=3, default=False)


@struct
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable=True)
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(nullable=True)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: Sequence[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(since=3, default=0)
    documentation: str | None = string(since=3, nullable=True, default="")


@struct
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(api_key=32, versions=range(1, 5), flexible_since=4)
class DescribeConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    results: Sequence[DescribeConfigsResult] = array(DescribeConfigsResult)
