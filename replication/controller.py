"""The controller: what the cluster is to become.

Every method takes a request and the image to decide on, and returns a `Decision`: the records to append and the
response to send once they are committed. Nothing is changed here, nothing is waited for. The image must include every
record appended so far, committed or not (`MetadataLog.appended_image`), or two requests could both create one topic.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreatableTopicConfigs, CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.replication import cluster_control, configuration_control, topic_control
from barnabas.replication.cluster_control import BrokerRegistration, ProducerIdBlock
from barnabas.replication.configuration_control import ConfigSchemas, Schema
from barnabas.replication.decision import Decision
from barnabas.replication.image import MetadataImage
from barnabas.replication.placement import Random
from barnabas.replication.topic_control import DescribeTopicConfigs, TopicDefaults
from barnabas.storage.config_def import Config
from barnabas.storage.log_config import LogConfig

DYNAMIC_TOPIC_CONFIG = 1
DEFAULT_CONFIG = 5


class ControllerSettings(NamedTuple):
    node_id: int
    broker_config: Config
    """What the broker was started with: its keys say which may change and its values take part in cross-checks."""
    log_config: LogConfig
    """What a topic has that sets nothing itself."""
    group_config: Callable[[], Schema]
    """What a group may set."""
    defaults: TopicDefaults = TopicDefaults()
    delete_topic_enable: bool = True


class Controller:
    def __init__(
        self,
        settings: ControllerSettings,
        *,
        random: Random,
        describe_topic_configs: DescribeTopicConfigs | None = None,
    ) -> None:
        self.settings = settings
        self.random = random
        self.describe_topic_configs = describe_topic_configs or self._plain_topic_configs

    def create_topics(self, request: CreateTopicsRequest, image: MetadataImage) -> Decision[CreateTopicsResponse]:
        return topic_control.create_topics(
            request,
            image,
            defaults=self.settings.defaults,
            random=self.random,
            check_configs=self._check_topic_configs,
            describe_configs=self.describe_topic_configs,
        )

    def delete_topics(
        self, request: DeleteTopicsRequest, image: MetadataImage, *, api_version: int
    ) -> Decision[DeleteTopicsResponse]:
        enabled = self.settings.delete_topic_enable
        return topic_control.delete_topics(request, image, api_version=api_version, delete_topic_enable=enabled)

    def create_partitions(
        self, request: CreatePartitionsRequest, image: MetadataImage
    ) -> Decision[CreatePartitionsResponse]:
        return topic_control.create_partitions(request, image, random=self.random)

    def alter_configs(self, request: AlterConfigsRequest, image: MetadataImage) -> Decision[AlterConfigsResponse]:
        return configuration_control.alter_configs(request, image, schemas=self._schemas, node_id=self.settings.node_id)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, image: MetadataImage
    ) -> Decision[IncrementalAlterConfigsResponse]:
        return configuration_control.incremental_alter_configs(
            request, image, schemas=self._schemas, node_id=self.settings.node_id
        )

    def register_broker(
        self, registration: BrokerRegistration, image: MetadataImage, *, has_session: bool = False
    ) -> Decision[int]:
        return cluster_control.register_broker(registration, image, has_session=has_session)

    def register_and_unfence(self, registration: BrokerRegistration, image: MetadataImage) -> Decision[int]:
        return cluster_control.register_and_unfence(registration, image)

    def unfence_broker(self, broker_id: int, broker_epoch: int, image: MetadataImage) -> Decision[None]:
        return cluster_control.unfence_broker(broker_id, broker_epoch, image)

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int, image: MetadataImage
    ) -> Decision[ProducerIdBlock]:
        return cluster_control.allocate_producer_ids(broker_id, broker_epoch, image)

    @property
    def _schemas(self) -> ConfigSchemas:
        settings = self.settings
        return ConfigSchemas(topic=settings.log_config, broker=settings.broker_config, group=settings.group_config)

    def _check_topic_configs(self, configs: Mapping[str, str]) -> None:
        self.settings.log_config.with_overrides(configs)

    def _plain_topic_configs(self, image: MetadataImage, configs: Mapping[str, str]) -> Sequence[CreatableTopicConfigs]:
        """The topic's own values over the broker's. Who knows where the broker's come from can say more."""
        effective = self.settings.log_config.with_overrides(configs)
        return [
            CreatableTopicConfigs(
                name=name,
                value=None if key.sensitive else effective.as_text(name),
                config_source=DYNAMIC_TOPIC_CONFIG if name in configs else DEFAULT_CONFIG,
                is_sensitive=key.sensitive,
            )
            for name, key in sorted(effective.KEYS.items())
            if not key.internal or name in configs
        ]
