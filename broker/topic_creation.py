"""Creates the topics that clients ask about, where `auto.create.topics.enable` allows it, and those the broker needs.

Internal topics have settings of their own, those of the broker that asks for them. Their replication factor is what is
configured, or the number of active brokers if that is less: a single broker must be able to serve groups and
transactions without a word about them in its configuration.
"""

from collections.abc import Callable, Mapping

from barnabas.base.environment import Report
from barnabas.base.promise import Promise
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, MetadataImage

_DEFAULT = -1


class TopicCreation:
    __slots__ = ("_config", "_controller", "_image", "_report")

    def __init__(
        self,
        controller: ControllerChannel,
        config: DynamicConfig,
        image: Callable[[], MetadataImage],
        report: Report,
    ) -> None:
        self._controller = controller
        self._config = config
        self._image = image
        self._report = report

    def create(self, names: list[str]) -> Promise[dict[str, ErrorCode]]:
        """Returns a promise of the errors of those topics that could not be created."""
        request = CreateTopicsRequest(topics=[self._topic(name) for name in names])
        created: Promise[CreateTopicsResponse] = self._controller.submit(request, own_context(request))

        def none_created(error: KafkaError) -> dict[str, ErrorCode]:
            return dict.fromkeys(names, error.code)

        return created.map(self._errors).or_else(none_created)

    def _topic(self, name: str) -> CreatableTopic:
        if name == GROUP_METADATA_TOPIC:
            return self._of_groups()
        if name == TRANSACTION_STATE_TOPIC:
            return self._of_transactions()
        return _topic(name, _DEFAULT, _DEFAULT, {})

    def _of_groups(self) -> CreatableTopic:
        config = self._config.current
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        replication_factor = self._at_most_brokers(config.offsets_topic_replication_factor)
        return _topic(GROUP_METADATA_TOPIC, config.offsets_topic_num_partitions, replication_factor, configs)

    def _of_transactions(self) -> CreatableTopic:
        config = self._config.current
        replication_factor = self._at_most_brokers(config.transaction_state_log_replication_factor)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(config.transaction_state_log_min_isr, replication_factor)),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
        partitions = config.transaction_state_log_num_partitions
        return _topic(TRANSACTION_STATE_TOPIC, partitions, replication_factor, configs)

    def _at_most_brokers(self, replication_factor: int) -> int:
        return min(replication_factor, len(self._image().active_brokers))

    def _errors(self, response: CreateTopicsResponse) -> dict[str, ErrorCode]:
        errors = {}
        for topic in response.topics:
            if not topic.error_code:
                self._report.info(
                    f"{topic.name} did not exist and a client asked for it: created automatically", topic=topic.name
                )
            elif topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                errors[topic.name] = ErrorCode(topic.error_code)
        return errors


def _topic(name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=(),
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
