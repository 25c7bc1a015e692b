"""Somebody who changes topics all the time, through any broker, and remembers what was answered with success."""

from typing import Any

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.simulation.clients.client import Failed, Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.facts import Facts, KnownTopic
from tests.simulation.cluster.routing import ClusterClient

KEYS = ("retention.ms", "segment.bytes", "flush.ms", "segment.ms")
TIMEOUT_MS = 4_000
_SET = 0


def creatable(name: str, partitions: int, replication_factor: int) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[],
        configs=[],
    )


class Administrator(ClusterClient):
    def __init__(self, place: Place, name: str, *, facts: Facts, interval_ms: float) -> None:
        super().__init__(place, name)
        self.facts = facts
        self.interval_ms = interval_ms
        self.replication_factors = [1]
        """One of them is what a new topic gets."""
        self.answered = 0
        self._topics: list[KnownTopic] = []
        self._names = 0

    def script(self) -> Script[None]:
        while not self.is_stopping:
            yield self.sleep(self.random.expovariate(1) * self.interval_ms)
            if not self.is_stopping:
                yield from self.change_something()

    def change_something(self) -> Script[None]:
        change = self.random.choice((self._create, self._create, self._configure, self._grow, self._delete))
        try:
            yield from change()
            self.answered += 1
        except (KafkaError, Failed):
            pass

    def _ask(self, request: Any, response_class: type[Any]) -> Script[Any]:
        return (yield self.ask_anybody(request, response_class, timeout_ms=TIMEOUT_MS))

    def _create(self) -> Script[None]:
        self._names += 1
        name, partitions = f"{self.name}-{self._names}", self.random.randint(1, 3)
        request = CreateTopicsRequest(
            topics=[creatable(name, partitions, self.random.choice(self.replication_factors))], timeout_ms=TIMEOUT_MS
        )
        response = yield from self._ask(request, CreateTopicsResponse)
        (created,) = response.topics
        check(created.error_code)
        self.tell("has created {}", name)
        self._topics.append(self.facts.created(name, created.topic_id, partitions))

    def _pick(self) -> KnownTopic | None:
        return self.random.choice(self._topics) if self._topics else None

    def _configure(self) -> Script[None]:
        topic = self._pick()
        keys = [key for key in KEYS if topic is not None and key not in topic.configs]
        if topic is None or not keys:
            return
        key, value = self.random.choice(keys), str(self.random.randrange(10_000, 1_000_000))
        config = AlterableConfig(name=key, config_operation=_SET, value=value)
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic.name, configs=[config])
        self._topics.remove(topic)  # for good, unless the answer says what has become of it
        response = yield from self._ask(
            IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), IncrementalAlterConfigsResponse
        )
        check(response.responses[0].error_code)
        self.facts.configured(topic, key, value)
        self._topics.append(topic)

    def _grow(self) -> Script[None]:
        if (topic := self._pick()) is None:
            return
        count = topic.partitions + 1
        self._topics.remove(topic)
        asked = CreatePartitionsTopic(name=topic.name, count=count, assignments=None)
        response = yield from self._ask(
            CreatePartitionsRequest(topics=[asked], timeout_ms=TIMEOUT_MS, validate_only=False),
            CreatePartitionsResponse,
        )
        check(response.results[0].error_code)
        self.facts.grown(topic, count)
        self._topics.append(topic)

    def _delete(self) -> Script[None]:
        if (topic := self._pick()) is None:
            return
        self._topics.remove(topic)
        topic.is_being_deleted = True
        asked = DeleteTopicState(name=None, topic_id=topic.topic_id)
        response = yield from self._ask(
            DeleteTopicsRequest(topics=[asked], timeout_ms=TIMEOUT_MS), DeleteTopicsResponse
        )
        code = response.responses[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_ID:  # the broker has asked twice, or one that was just deposed
            return
        check(code)
        self.tell("has deleted {}", topic.name)
        self.facts.deleted(topic)
