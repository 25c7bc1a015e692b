"""When the metadata log takes no records, a request for a change is answered with the reason in the form of its API."""

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.session import ListenerType, Session
from barnabas.broker.request_context import RequestContext
from barnabas.broker.topic_creation import TopicCreation
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.messages import alter_configs, incremental_alter_configs
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.schema import encode
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.metadata.image import empty_image
from tests.fakes import FakeReport


class FullDisk:
    """A controller, or producer ids, behind a log that cannot be written."""

    def submit(self, request: Any, context: ControllerRequestContext) -> Promise[Any]:
        assert context.api_version in request.__versions__
        return self.next()

    def next(self) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        promise.fail(KafkaStorageError("the disk is full"))
        return promise


SESSION = Session(listener="PLAINTEXT", local=("127.0.0.1", 9092), peer=("127.0.0.1", 1))
CREATE = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=(), configs=())
GROW = CreatePartitionsTopic(name="orders", count=2, assignments=None)
ALTER = alter_configs.AlterConfigsResource(resource_type=2, resource_name="orders", configs=())
INCREMENTAL = incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="orders", configs=())


@pytest.mark.parametrize(
    ("api_key", "request_", "answers"),
    [
        (ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[CREATE]), "topics"),
        (ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["orders"], timeout_ms=0), "responses"),
        (
            ApiKey.DELETE_TOPICS,
            DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=0),
            "responses",
        ),
        (
            ApiKey.CREATE_PARTITIONS,
            CreatePartitionsRequest(topics=[GROW], timeout_ms=0, validate_only=False),
            "results",
        ),
        (
            ApiKey.ALTER_CONFIGS,
            alter_configs.AlterConfigsRequest(resources=[ALTER], validate_only=False),
            "responses",
        ),
        (
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[INCREMENTAL], validate_only=False),
            "responses",
        ),
        (ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), None),
    ],
)
def test_a_change_that_cannot_be_stored_is_answered_with_the_storage_error(
    api_key: ApiKey, request_: Any, answers: str | None
) -> None:
    version = request_.__versions__[-1]
    node = SimpleNamespace(
        controller=FullDisk(), producer_ids=FullDisk(), image=empty_image("a cluster"), config=BrokerConfig()
    )
    context = RequestContext(version, None, SESSION, ListenerType.BROKER)
    promise = HANDLERS[api_key].handle(node, request_, context)
    assert promise.done
    encode(promise.value, version)
    told = promise.value if answers is None else getattr(promise.value, answers)[0]
    assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_that_cannot_be_created_automatically_is_answered_with_the_storage_error() -> None:
    config = DynamicConfig({}, FakeReport())
    promise = TopicCreation(FullDisk(), config, lambda: empty_image("a cluster"), FakeReport()).create(["orders"])
    assert promise.value == {"orders": ErrorCode.KAFKA_STORAGE_ERROR}
