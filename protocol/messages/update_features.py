"""UpdateFeatures: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, int8, int16, int32, message, string, struct


@struct
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0, default=False)
    upgrade_type: int = int8(since=1, default=1)


@message(api_key=57, versions=range(0, 3), flexible_since=0)
class UpdateFeaturesRequest:
    timeout_ms: int = int32(default=60_000)
    feature_updates: Sequence[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1, default=False)


@struct
class UpdatableFeatureResult:
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable=True)


@message(api_key=57, versions=range(0, 3), flexible_since=0)
class UpdateFeaturesResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    results: Sequence[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1, default=())
