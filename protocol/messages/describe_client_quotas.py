"""DescribeClientQuotas: the request and the response."""

from collections.abc import Sequence

from barnabas.protocol.schema import array, boolean, float64, int8, int16, int32, message, string, struct


@struct
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable=True)


@message(api_key=48, versions=range(0, 2), flexible_since=1)
class DescribeClientQuotasRequest:
    components: Sequence[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable=True)


@struct
class ValueData:
    key: str = string()
    value: float = float64()


@struct
class EntryData:
    entity: Sequence[EntityData] = array(EntityData)
    values: Sequence[ValueData] = array(ValueData)


@message(api_key=48, versions=range(0, 2), flexible_since=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable=True)
    entries: Sequence[EntryData] | None = array(EntryData, nullable=True)
