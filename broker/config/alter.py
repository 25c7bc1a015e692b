"""The checks that a broker makes itself when its configuration is to be altered, before it asks the controller.

Only the broker that a configuration belongs to knows whether it can take new values, so a resource that names a broker
must be sent to that broker, as with Kafka. The defaults of all brokers are judged by the one that was asked. Topics and
groups are left to the controller.
Deviation: there are no loggers whose level could be set.
"""

from collections.abc import Sequence

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import InvalidConfig, KafkaError
from barnabas.replication.controller.configuration_control import (
    Alteration,
    check_entries,
    check_node_name,
    check_update_modes,
    configs_after,
    invalid_request,
    judged,
)
from barnabas.replication.metadata.image import MetadataImage


def refusals(alterations: Sequence[Alteration], image: MetadataImage, config: BrokerConfig) -> list[KafkaError | None]:
    """Returns, for each alteration, why this broker refuses it, or None if the controller decides on it."""

    def judge(alteration: Alteration) -> None:
        match alteration.resource.type:
            case ResourceType.BROKER:
                _check_broker(alteration, image, config)
            case ResourceType.BROKER_LOGGER:
                _refuse_logger(alteration, config.node_id)

    return judged(alterations, judge)


def _check_broker(alteration: Alteration, image: MetadataImage, config: BrokerConfig) -> None:
    resource = alteration.resource
    check_entries(alteration.entries)
    if resource.name:
        _check_node(resource.name, config.node_id)
    after = configs_after(alteration, image.config(*resource), config)
    check_update_modes(after, config, per_broker=bool(resource.name))
    try:
        config.with_overrides(after)
    except InvalidConfig as error:
        raise invalid_request(error.message) from None


def _refuse_logger(alteration: Alteration, node_id: int) -> None:
    check_entries(alteration.entries)
    if alteration.replaces:
        raise invalid_request("The levels of loggers cannot be replaced all at once.")
    _check_node(alteration.resource.name, node_id)
    raise InvalidConfig("This broker has no loggers whose level could be set.")


def _check_node(name: str, node_id: int) -> None:
    check_node_name(name)
    if int(name) != node_id:
        raise invalid_request(f"Ask broker {name} to change its configuration: this is broker {node_id}.")
