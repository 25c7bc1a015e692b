"""Somebody who deletes a topic and creates it again under the same name, whenever that is wished, and insists."""

from collections.abc import Sequence

from barnabas.base.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.protocol.types import Uuid
from tests.simulation.clients.client import Failed, Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.facts import Facts, KnownTopic
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.routing import ClusterClient

TIMEOUT_MS = 4_000


class Recreator(ClusterClient):
    """What it asks for may be carried out twice, as all that goes to a controller: so it deletes by id, and is content
    with a topic that is there already."""

    oracle: DataOracle

    def __init__(self, place: Place, name: str, *, facts: Facts, topic: CreatableTopic) -> None:
        super().__init__(place, name)
        self.facts = facts
        self.topic = topic
        self.is_idle = True
        self._known: dict[Uuid, KnownTopic] = {}
        self._wishes: list[float] = []
        """For each: how long the topic is to be away."""
        self._woken: Promise[None] | None = None

    def wish(self, pause_ms: float) -> None:
        self.is_idle = False
        self._wishes.append(pause_ms)
        self._wake()

    def live_on(self, broker_ids: Sequence[int]) -> None:
        """Takes other brokers if all that were to have the topic stay broken: nobody can create it on these."""
        for assignment in self.topic.assignments:
            if not set(broker_ids).intersection(assignment.broker_ids):
                assignment.broker_ids = broker_ids[: len(assignment.broker_ids)]

    def stop(self) -> None:
        super().stop()
        self._wake()

    def _wake(self) -> None:
        if (woken := self._woken) is not None:
            self._woken = None
            self.clock.call_soon(woken.resolve, None)

    def script(self) -> Script[None]:
        while not self.is_stopping:
            while self._wishes:
                pause_ms = self._wishes.pop(0)
                yield from self._delete(self.oracle.topic_ids[self.topic.name])
                yield self.sleep(pause_ms)
                yield from self._create()
            self.is_idle = True
            self._woken = Promise()
            yield self._woken

    def _delete(self, topic_id: Uuid) -> Script[None]:
        known = self._known.get(topic_id)
        if known is not None:
            known.is_being_deleted = True
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)], timeout_ms=TIMEOUT_MS)
        while True:
            try:
                response = yield self.ask_anybody(request, DeleteTopicsResponse, timeout_ms=TIMEOUT_MS)
                if (code := response.responses[0].error_code) == ErrorCode.UNKNOWN_TOPIC_ID:
                    return  # it is gone; or who was asked has been deposed, and has not heard of the topic
                check(code)
                break
            except (KafkaError, Failed):
                yield self.back_off()
        self.tell("has deleted {}", self.topic.name)
        if known is not None:
            self.facts.deleted(known)

    def _create(self) -> Script[None]:
        request = CreateTopicsRequest(topics=[self.topic], timeout_ms=TIMEOUT_MS)
        while True:
            try:
                response = yield self.ask_anybody(request, CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
                (created,) = response.topics
                if created.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    return
                check(created.error_code)
                break
            except (KafkaError, Failed):
                yield self.back_off()
        self.tell("has created {}", self.topic.name)
        partitions = len(self.topic.assignments) or self.topic.num_partitions
        self._known[created.topic_id] = self.facts.created(self.topic.name, created.topic_id, partitions)
