"""Decides on configuration: AlterConfigs and IncrementalAlterConfigs, for topics, groups, one broker and all brokers.

Rules:
- Each resource stands or falls alone, with all its keys. One that a request names twice is refused both times.
- The resource's whole configuration is validated as it would be afterwards.
- AlterConfigs replaces everything the resource had; the incremental one changes only the keys it names.
- A value that stays as it is needs no record, except for brokers: there it is how an operator has files read again.
- The values of a broker are judged by the broker that was asked, before the request comes here, because it alone knows
  what they have to fit (`broker/config/alter.py`). Here only what is the same for all is looked at: its keys, and of
  which type and in which limits their values are. A request to a controller's own listener was seen by no broker, and
  Kafka takes whatever it says.
- With eligible leader replicas, `min.insync.replicas` has rules of its own (`elr.py`).
- A broker's keys fail with INVALID_REQUEST, those of topics and groups with INVALID_CONFIG, as in Kafka. A group need
  not exist: it may be configured before its first member comes.
Deviations: a broker key that does not exist is INVALID_CONFIG with the nearest one (Kafka stores it); client metrics
have no configuration here and are refused.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

from barnabas.base.config_def import ConfigKey, ConfigType, UpdateMode, parse_value, text_of
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode, InvalidConfig, KafkaError
from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.primitives import STRING_BYTES_MAX
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import ConfigRecord
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.elr import check_min_isr_change, clear_elr_records
from barnabas.replication.controller.settings import ConfigSchemas, Deciding, Schema
from barnabas.replication.controller.topic_names import check_topic_name
from barnabas.replication.metadata.image import ConfigResource, MetadataImage


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Entry(NamedTuple):
    name: str
    operation: int
    value: str | None


class Alteration(NamedTuple):
    resource: ConfigResource
    entries: Sequence[Entry]
    replaces: bool
    """Whether keys that are not named are deleted."""


Configs = Mapping[str, str]
Changes = dict[str, str | None]
"""New values by key; None deletes."""


AlterRequest = legacy.AlterConfigsRequest | incremental.IncrementalAlterConfigsRequest
AlterResource = legacy.AlterConfigsResource | incremental.AlterConfigsResource
AlterResponse = legacy.AlterConfigsResponse | incremental.IncrementalAlterConfigsResponse


# ---- the two requests, which are one


def alterations_of(request: AlterRequest) -> list[Alteration]:
    if isinstance(request, legacy.AlterConfigsRequest):
        return [
            Alteration(_resource(asked), [Entry(c.name, ConfigOperation.SET, c.value) for c in asked.configs], True)
            for asked in request.resources
        ]
    return [
        Alteration(_resource(asked), [Entry(c.name, c.config_operation, c.value) for c in asked.configs], False)
        for asked in request.resources
    ]


def _resource(asked: AlterResource) -> ConfigResource:
    return ConfigResource(asked.resource_type, asked.resource_name)


def response_to(request: AlterRequest, errors: Sequence[KafkaError | None]) -> AlterResponse:
    """Returns the response that says of each resource whether it was altered or why not."""
    resources: Sequence[AlterResource] = [*request.resources]
    results = [_result(_resource(asked), error) for asked, error in zip(resources, errors, strict=True)]
    if isinstance(request, legacy.AlterConfigsRequest):
        return legacy.AlterConfigsResponse(
            responses=[legacy.AlterConfigsResourceResponse(**result) for result in results]
        )
    return incremental.IncrementalAlterConfigsResponse(
        responses=[incremental.AlterConfigsResourceResponse(**result) for result in results]
    )


def _result(resource: ConfigResource, error: KafkaError | None) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
        "resource_type": resource.type,
        "resource_name": resource.name,
    }


# ---- one resource after the other


def alter_configs(request: AlterRequest, image: MetadataImage, deciding: Deciding) -> Decision[AlterResponse]:
    alterations = alterations_of(request)
    records: list[MetadataRecord] = []

    def decide(alteration: Alteration) -> None:
        records.extend(_decided(alteration, image, deciding.settings.schemas))

    response = response_to(request, judged(alterations, decide))
    records += clear_elr_records(records, image)
    return Decision([] if request.validate_only else records, response)


def judged(alterations: Sequence[Alteration], judge: Callable[[Alteration], None]) -> list[KafkaError | None]:
    """Returns the error that `judge` raised for each alteration, or None."""
    times = Counter(alteration.resource for alteration in alterations)
    errors: list[KafkaError | None] = []
    for alteration in alterations:
        try:
            if times[alteration.resource] > 1:
                raise invalid_request("Each resource must appear at most once.")
            judge(alteration)
            errors.append(None)
        except KafkaError as error:
            errors.append(error)
    return errors


def _decided(alteration: Alteration, image: MetadataImage, schemas: ConfigSchemas) -> list[ConfigRecord]:
    resource = alteration.resource
    check_entries(alteration.entries)
    _check_resource(resource)
    current = image.configs.get(resource, {})
    schema = _schema(resource.type, schemas)
    changes = _changes(alteration, current, schema)
    check_min_isr_change(resource, changes, image)
    after = _after(current, changes)
    if resource.type == ResourceType.BROKER:
        check_update_modes(after, schema, per_broker=bool(resource.name))
        _check_values(changes, schema)
    else:
        schema.with_overrides(after)
    _check_existence(resource, image)
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changes.items()
        if value != current.get(name) or resource.type == ResourceType.BROKER
    ]


def _schema(resource_type: int, schemas: ConfigSchemas) -> Schema:
    match resource_type:
        case ResourceType.TOPIC:
            return schemas.topic
        case ResourceType.GROUP:
            return schemas.group()
    return schemas.broker


def check_entries(entries: Sequence[Entry]) -> None:
    if len({entry.name for entry in entries}) != len(entries):
        raise invalid_request("A key is given more than once.")
    for entry in entries:
        if entry.operation not in _OPERATIONS:
            raise invalid_request(f"Unknown operation {entry.operation} on {entry.name}.")
    nulls = [entry.name for entry in entries if entry.value is None and entry.operation != ConfigOperation.DELETE]
    if nulls:
        raise invalid_request(f"No value was given for {', '.join(nulls)}.")


def _check_resource(resource: ConfigResource) -> None:
    match resource.type:
        case ResourceType.TOPIC:
            if not resource.name:
                raise invalid_request("Topics have no configuration in common: name one.")
            check_topic_name(resource.name)
        case ResourceType.BROKER:
            if resource.name:
                check_node_name(resource.name)
        case ResourceType.GROUP:
            if not resource.name:
                raise invalid_request("Groups have no configuration in common: name one.")
        case _:
            raise invalid_request(f"Resources of type {resource.type} cannot be configured.")


def check_node_name(name: str) -> None:
    if not (name.isascii() and name.isdigit() and len(name) <= _NODE_DIGITS_MAX):
        raise invalid_request(f"A broker is named by its node id, not by '{name}'.")


def _check_existence(resource: ConfigResource, image: MetadataImage) -> None:
    if resource.type == ResourceType.TOPIC and resource.name not in image.topics:
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if resource.type == ResourceType.BROKER and resource.name and int(resource.name) not in image.brokers:
        raise refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {resource.name} is not registered.")


# ---- values


def configs_after(alteration: Alteration, current: Configs, schema: Schema) -> Configs:
    """Returns the resource's whole configuration as it would be. Raises InvalidConfig for a key that is no list where
    the alteration takes it for one."""
    return _after(current, _changes(alteration, current, schema))


def _after(current: Configs, changes: Changes) -> Configs:
    return {name: value for name, value in {**current, **changes}.items() if value is not None}


def _changes(alteration: Alteration, current: Configs, schema: Schema) -> Changes:
    named = {entry.name: _new_value(entry, current.get(entry.name), schema) for entry in alteration.entries}
    dropped: Changes = {name: None for name in current if alteration.replaces and name not in named}
    return named | dropped


def _new_value(entry: Entry, current: str | None, schema: Schema) -> str | None:
    match entry.operation:
        case ConfigOperation.SET:
            return entry.value
        case ConfigOperation.DELETE:
            return None
    key = schema.key(entry.name)
    if key.type is not ConfigType.LIST:
        operation = ConfigOperation(entry.operation).name
        raise InvalidConfig(f"Can't {operation} to key {entry.name} because its type is not LIST.")
    values = _list_values(key, current)
    operands = (entry.value or "").split(",")
    if entry.operation == ConfigOperation.SUBTRACT:
        return ",".join(value for value in values if value not in operands)
    appended = ",".join([*values, *(value for value in dict.fromkeys(operands) if value not in values)])
    if len(appended.encode()) > STRING_BYTES_MAX:
        raise InvalidConfig(f"The value of {entry.name} would be longer than {STRING_BYTES_MAX} bytes.")
    return appended


def _list_values(key: ConfigKey, current: str | None) -> list[str]:
    """Returns the values of a list. One that was never set starts from its default, not from nothing."""
    text = text_of(key.default) if current is None else current
    return [value for value in (text or "").split(",") if value]


def _check_values(changes: Changes, broker: Schema) -> None:
    """Raises if no broker could have one of these values."""
    try:
        for name, value in changes.items():
            if value is not None:
                parse_value(broker.key(name), value)
    except InvalidConfig as error:
        raise invalid_request(error.message) from None


def check_update_modes(configs: Configs, broker: Schema, *, per_broker: bool) -> None:
    """Raises if a running broker may not take these keys; `per_broker` says that they are one broker's own."""
    keys = [broker.key(name) for name in configs]
    read_only = [key.name for key in keys if key.update_mode is UpdateMode.READ_ONLY]
    if read_only:
        raise invalid_request(f"Cannot be changed while the broker runs: {', '.join(read_only)}.")
    alone = [key.name for key in keys if key.update_mode is UpdateMode.PER_BROKER]
    if alone and not per_broker:
        raise invalid_request(f"Can only be set for one broker, not for all: {', '.join(alone)}.")


def invalid_request(reason: str) -> KafkaError:
    return refused(ErrorCode.INVALID_REQUEST, reason)


_OPERATIONS = frozenset(ConfigOperation)
_NODE_DIGITS_MAX = 10  # Python refuses to read thousands
