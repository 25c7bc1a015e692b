"""Creates the topics that clients ask about, where `auto.create.topics.enable` allows it, and those the broker needs.

Internal topics have settings of their own, those of the broker that asks for them. Their replication factor is what is
configured, or the number of active brokers if that is less: a single broker must be able to serve groups without a word
about it in its configuration.
"""

from collections.abc import Callable

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
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, MetadataImage

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
        if name != GROUP_METADATA_TOPIC:
            return CreatableTopic(
                name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT, assignments=(), configs=()
            )
        config = self._config.current
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        return CreatableTopic(
            name=name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=min(config.offsets_topic_replication_factor, len(self._image().active_brokers)),
            assignments=(),
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )

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
