"""Decides on configuration: AlterConfigs and IncrementalAlterConfigs, for topics, groups, one broker and all brokers.

Rules:
- Each resource stands or falls alone, with all its keys. One that a request names twice is refused both times.
- What is validated is the resource's whole configuration as it would be afterwards.
- AlterConfigs replaces everything the resource had; the incremental one changes only the keys it names.
- A value that stays as it is makes no record, except for brokers: there it is how an operator has files read again.
- A broker's values fail with INVALID_REQUEST, those of topics and groups with INVALID_CONFIG: Kafka tells them apart
  that way. A group need not exist: it may be configured before its first member comes.
Deviations: a broker key that does not exist is INVALID_CONFIG with the nearest one (Kafka stores it); client metrics
have no configuration here and are refused; there are no loggers whose level could be set.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from barnabas.protocol.errors import ErrorCode, InvalidConfig, KafkaError
from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.metadata_records import ConfigRecord
from barnabas.replication.decision import Decision, refused
from barnabas.replication.image import ConfigResource, MetadataImage, ResourceType
from barnabas.replication.metadata_record_serde import MetadataRecord
from barnabas.replication.topic_names import check_topic_name
from barnabas.storage.config_def import Config, ConfigKey, ConfigType, UpdateMode, text_of


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Schema(Protocol):
    def key(self, name: str) -> ConfigKey: ...

    def with_overrides(self, texts: Mapping[str, str]) -> object:
        """Raises InvalidConfig."""
        ...


class ConfigSchemas(NamedTuple):
    """What is known about keys and values."""

    topic: Config
    """What a topic has that sets nothing itself."""
    broker: Config
    """What the broker was started with."""
    group: Callable[[], Schema]
    """Asked when a group is configured, which many brokers never see."""


class Entry(NamedTuple):
    name: str
    operation: int
    value: str | None


class Alteration(NamedTuple):
    resource: ConfigResource
    entries: Sequence[Entry]
    replaces: bool
    """Keys that are not named are deleted."""


Configs = Mapping[str, str]
Changes = dict[str, str | None]
"""New values by key; None deletes."""


# ---- the two requests


def alter_configs(
    request: legacy.AlterConfigsRequest, image: MetadataImage, *, schemas: ConfigSchemas, node_id: int
) -> Decision[legacy.AlterConfigsResponse]:
    alterations = [
        Alteration(
            _resource(asked), [Entry(c.name, ConfigOperation.SET, c.value) for c in asked.configs], replaces=True
        )
        for asked in request.resources
    ]
    records, errors = alter(alterations, image, schemas, node_id)
    responses = [legacy.AlterConfigsResourceResponse(**_result(*pair)) for pair in zip(alterations, errors)]
    response = legacy.AlterConfigsResponse(throttle_time_ms=0, responses=responses)
    return Decision([] if request.validate_only else records, response)


def incremental_alter_configs(
    request: incremental.IncrementalAlterConfigsRequest, image: MetadataImage, *, schemas: ConfigSchemas, node_id: int
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    alterations = [
        Alteration(
            _resource(asked), [Entry(c.name, c.config_operation, c.value) for c in asked.configs], replaces=False
        )
        for asked in request.resources
    ]
    records, errors = alter(alterations, image, schemas, node_id)
    responses = [incremental.AlterConfigsResourceResponse(**_result(*pair)) for pair in zip(alterations, errors)]
    response = incremental.IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=responses)
    return Decision([] if request.validate_only else records, response)


def _resource(asked: legacy.AlterConfigsResource | incremental.AlterConfigsResource) -> ConfigResource:
    return ConfigResource(asked.resource_type, asked.resource_name)


def _result(alteration: Alteration, error: KafkaError | None) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE if error is None else error.code,
        "error_message": None if error is None else error.message,
        "resource_type": alteration.resource.type,
        "resource_name": alteration.resource.name,
    }


# ---- one resource after the other


def alter(
    alterations: Sequence[Alteration], image: MetadataImage, schemas: ConfigSchemas, node_id: int
) -> tuple[list[MetadataRecord], list[KafkaError | None]]:
    """`node_id` is the broker that was asked: only it can judge a configuration of its own."""
    times = Counter(alteration.resource for alteration in alterations)
    records: list[MetadataRecord] = []
    errors: list[KafkaError | None] = []
    for alteration in alterations:
        try:
            if times[alteration.resource] > 1:
                raise _invalid_request("Each resource must appear at most once.")
            records += _decide(alteration, image, schemas, node_id)
            errors.append(None)
        except KafkaError as error:
            errors.append(error)
    return records, errors


def _decide(alteration: Alteration, image: MetadataImage, schemas: ConfigSchemas, node_id: int) -> list[ConfigRecord]:
    resource = alteration.resource
    _check_entries(alteration.entries)
    if resource.type == ResourceType.BROKER_LOGGER and alteration.replaces:
        raise _invalid_request("The levels of loggers cannot be replaced all at once.")
    _check_resource(resource, node_id)
    current = image.configs.get(resource, {})
    schema = _schema(resource.type, schemas)
    changes = _changes(alteration, current, schema)
    after = {name: value for name, value in {**current, **changes}.items() if value is not None}
    if resource.type == ResourceType.BROKER:
        check_broker_configs(after, schemas.broker, per_broker=bool(resource.name))
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


def _check_entries(entries: Sequence[Entry]) -> None:
    if len({entry.name for entry in entries}) != len(entries):
        raise _invalid_request("A key is given more than once.")
    for entry in entries:
        if entry.operation not in _OPERATIONS:
            raise _invalid_request(f"Unknown operation {entry.operation} on {entry.name}.")
    nulls = [entry.name for entry in entries if entry.value is None and entry.operation != ConfigOperation.DELETE]
    if nulls:
        raise _invalid_request(f"No value was given for {', '.join(nulls)}.")


def _check_resource(resource: ConfigResource, node_id: int) -> None:
    match resource.type:
        case ResourceType.TOPIC:
            if not resource.name:
                raise _invalid_request("Topics have no configuration in common: name one.")
            check_topic_name(resource.name)
        case ResourceType.BROKER:
            if resource.name:
                _check_node(resource.name, node_id)
        case ResourceType.BROKER_LOGGER:
            _check_node(resource.name, node_id)
            raise InvalidConfig("This broker has no loggers whose level could be set.")
        case ResourceType.GROUP:
            if not resource.name:
                raise _invalid_request("Groups have no configuration in common: name one.")
        case _:
            raise _invalid_request(f"Resources of type {resource.type} cannot be configured.")


def _check_node(name: str, node_id: int) -> None:
    if not (name.isascii() and name.isdigit()):
        raise _invalid_request(f"A broker is named by its node id, not by '{name}'.")
    if int(name) != node_id:
        raise _invalid_request(f"Ask broker {name} to change its configuration: this is broker {node_id}.")


def _check_existence(resource: ConfigResource, image: MetadataImage) -> None:
    if resource.type == ResourceType.TOPIC and resource.name not in image.topics:
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")
    if resource.type == ResourceType.BROKER and resource.name and int(resource.name) not in image.brokers:
        raise refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {resource.name} is not registered.")


# ---- values


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
    if entry.operation == ConfigOperation.APPEND:
        return ",".join([*values, *(value for value in dict.fromkeys(operands) if value not in values)])
    return ",".join(value for value in values if value not in operands)


def _list_values(key: ConfigKey, current: str | None) -> list[str]:
    """A list that was never set starts from its default, not from nothing."""
    text = text_of(key.default) if current is None else current
    return [value for value in (text or "").split(",") if value]


def check_broker_configs(configs: Configs, broker: Config, *, per_broker: bool) -> None:
    """That a running broker may take these values; `per_broker` says that they are one broker's own."""
    keys = [broker.key(name) for name in configs]
    read_only = [key.name for key in keys if key.update_mode is UpdateMode.READ_ONLY]
    if read_only:
        raise _invalid_request(f"Cannot be changed while the broker runs: {', '.join(read_only)}.")
    alone = [key.name for key in keys if key.update_mode is UpdateMode.PER_BROKER]
    if alone and not per_broker:
        raise _invalid_request(f"Can only be set for one broker, not for all: {', '.join(alone)}.")
    try:
        broker.with_overrides(configs)
    except InvalidConfig as error:
        raise _invalid_request(error.message) from None


def _invalid_request(reason: str) -> KafkaError:
    return refused(ErrorCode.INVALID_REQUEST, reason)


_OPERATIONS = frozenset(ConfigOperation)
