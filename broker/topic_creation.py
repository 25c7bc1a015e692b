"""Creates the topics that clients ask about, where `auto.create.topics.enable` allows it, and those the broker needs.

Internal topics have settings of their own. Their replication factor is what is configured, or as many brokers as there
are if that is less: a broker alone must be able to serve groups without being told that it is alone.
"""

from collections.abc import Callable

from barnabas.broker.config import BrokerConfig
from barnabas.broker.controller_shell import ControllerShell
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.replication.controller import Controller
from barnabas.replication.decision import Decision
from barnabas.replication.image import GROUP_METADATA_TOPIC, MetadataImage
from barnabas.storage.seams import Report

_DEFAULT = -1


class TopicCreation:
    __slots__ = ("_config", "_controller", "_report")

    def __init__(self, controller: ControllerShell, config: Callable[[], BrokerConfig], report: Report) -> None:
        self._controller = controller
        self._config = config
        self._report = report

    def create(self, names: list[str]) -> Promise[dict[str, ErrorCode]]:
        """Why a topic could not be created, for those that could not."""

        def decide(controller: Controller, image: MetadataImage) -> Decision[CreateTopicsResponse]:
            brokers = len(image.active_brokers)
            return controller.create_topics(
                CreateTopicsRequest(topics=[self._topic(name, brokers) for name in names]), image
            )

        created = self._controller.submit(decide)
        return created.map(self._errors).or_else(lambda error: dict.fromkeys(names, error.code))

    def _topic(self, name: str, brokers: int) -> CreatableTopic:
        if name != GROUP_METADATA_TOPIC:
            return CreatableTopic(
                name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT, assignments=(), configs=()
            )
        config = self._config()
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        return CreatableTopic(
            name=name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=min(config.offsets_topic_replication_factor, brokers),
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
