"""The part of a process's configuration that its controller needs."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.replication.controller.settings import ConfigSchemas, ControllerSettings, Schema, TopicDefaults

if TYPE_CHECKING:
    from barnabas.broker.config.describe import DescribedConfig
    from barnabas.protocol.messages.create_topics import CreatableTopicConfigs


def controller_settings(configuration: DynamicConfig) -> ControllerSettings:
    config = configuration.current

    def describe(given: Mapping[str, str]) -> "list[CreatableTopicConfigs]":
        return _creatable(configuration.describer.topic(given), given)

    return ControllerSettings(
        schemas=ConfigSchemas(topic=config.log_defaults, broker=config, group=lambda: _group_schema(config)),
        describe_topic_configs=describe,
        defaults=TopicDefaults(
            config.num_partitions, config.default_replication_factor, config.log_defaults.min_insync_replicas
        ),
        delete_topic_enable=config.delete_topic_enable,
        unclean_leader_election_enable=config.log_defaults.unclean_leader_election_enable,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        unclean_leader_election_interval_ms=config.unclean_leader_election_interval_ms,
    )


def _group_schema(config: BrokerConfig) -> Schema:
    from barnabas.broker.groups.group_config import GroupConfigSchema  # a broker without groups starts without it

    return GroupConfigSchema(config)


def _creatable(configs: "Iterable[DescribedConfig]", given: Mapping[str, str]) -> "list[CreatableTopicConfigs]":
    """Returns a new topic's values as they were given, as Kafka does; DescribeConfigs returns them as understood."""
    from barnabas.protocol.messages.create_topics import CreatableTopicConfigs  # a start creates no topic

    return [
        CreatableTopicConfigs(
            name=config.name,
            value=given.get(config.name, config.value),
            read_only=config.read_only,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
        )
        for config in configs
    ]
