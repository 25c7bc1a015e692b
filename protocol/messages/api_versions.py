"""ApiVersions: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int16, int32, int64, message, string, struct


@message(api_key=18, versions=range(0, 6), flexible_since=3)
class ApiVersionsRequest:
    client_software_name: str = string(since=3, default="")
    client_software_version: str = string(since=3, default="")
    cluster_id: str | None = string(since=5, nullable=True, default=None)
    node_id: int = int32(since=5, default=-1)


@struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    name: str = string(since=3, default="")
    min_version: int = int16(since=3, default=0)
    max_version: int = int16(since=3, default=0)


@struct
class FinalizedFeatureKey:
    name: str = string(since=3, default="")
    max_version_level: int = int16(since=3, default=0)
    min_version_level: int = int16(since=3, default=0)


@message(api_key=18, versions=range(0, 6), flexible_since=3)
class ApiVersionsResponse:
    error_code: int = int16()
    api_keys: Sequence[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1, default=0)
    supported_features: Sequence[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, default=(), tag=0)
    finalized_features_epoch: int = int64(since=3, default=-1, tag=1)
    finalized_features: Sequence[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, default=(), tag=2)
    zk_migration_ready: bool = boolean(since=3, default=False, tag=3)
