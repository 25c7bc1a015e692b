"""A cluster in which each broker leads a partition, and clients that ask everybody who leads, all the time."""

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.base.network import Address
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.oracle import ClusterOracle
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.world import World

TOPIC = "one-each"
ASKED_EVERY_MS = 2


class Answer(NamedTuple):
    """What a broker said of the partition that one broker led."""

    sent_ms: float
    received_ms: float
    asked: int
    leader: int
    error: ErrorCode
    brokers: Sequence[int]


class Founder(ClusterClient):
    def script(self) -> Script[None]:
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=[index + 1])
            for index in range(len(self.addresses))
        ]
        topic = CreatableTopic(
            name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[]
        )
        link = self.link_to(self.addresses[0])
        response = yield link.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), CreateTopicsResponse)
        check(response.topics[0].error_code)


class Asker(ClusterClient):
    """Asks one broker again and again, without waiting for the answers."""

    def watch(self, victim: int) -> None:
        self.victim = victim
        self.answers: list[Answer] = []

    def script(self) -> Script[None]:
        link = self.link_to(self.broker)
        while not self.is_stopping:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
            sent_ms = self.world.scheduler.now_us / 1_000
            link.send(request, MetadataResponse, max_version=12).when_done(
                lambda answer, sent_ms=sent_ms: None if answer.error else self._answered(answer.value, sent_ms)  # type: ignore[misc]
            )
            yield self.sleep(ASKED_EVERY_MS)

    def _answered(self, response: MetadataResponse, sent_ms: float) -> None:
        partition = response.topics[0].partitions[self.victim - 1]
        self.answers.append(
            Answer(
                sent_ms,
                self.world.scheduler.now_us / 1_000,
                int(self.broker.host.removeprefix("broker-")),
                partition.leader_id,
                ErrorCode(partition.error_code),
                [broker.node_id for broker in response.brokers],
            )
        )


class Failover:
    """A cluster that is ready, with a client at every broker."""

    def __init__(self, seed: int, brokers: int = 3, **properties: str) -> None:
        self.world = World(seed)
        settings = {name.replace("_", "."): value for name, value in properties.items()}
        self.cluster = SimulatedCluster(self.world, brokers, settings)
        self.oracle = ClusterOracle()
        self._places = [self._place(broker.address) for broker in self.cluster.brokers]

    def _place(self, address: Address) -> Place:
        addresses = [broker.address for broker in self.cluster.brokers]
        return Place(self.world, address, DataOracle([], set()), addresses)

    def begin(self) -> None:
        for broker in self.cluster.brokers:
            broker.start()
            broker.process.loop.call_soon(self.oracle.watch, broker)
        self.cluster.wait_until_ready()
        founder = Founder(self._places[0], "founder")
        founder.start()
        self.world.scheduler.run_until_true(lambda: founder.has_ended, within_ms=5_000, what="the topic is created")
        self.world.scheduler.run_for(3_000)

    def ask_about(self, victim: SimulatedBroker) -> list[Asker]:
        """Lets everybody but the victim be asked."""
        askers = []
        for place, broker in zip(self._places, self.cluster.brokers):
            if broker is not victim:
                askers.append(Asker(place, f"asker-of-{broker.node_id}"))
                askers[-1].watch(victim.node_id)
                askers[-1].start()
        self.world.scheduler.run_for(50)
        return askers

    @property
    def controller(self) -> SimulatedBroker:
        controller = self.cluster.controller
        assert controller is not None
        return controller

    @property
    def another(self) -> SimulatedBroker:
        """A broker that is not the controller."""
        return next(broker for broker in reversed(self.cluster.brokers) if broker is not self.controller)

    def is_fenced(self, victim: SimulatedBroker) -> bool:
        """Whether everybody who runs knows that it is."""
        images = [broker.server.node.image for broker in self.cluster.brokers if broker.is_running]
        return all(image.brokers[victim.node_id].fenced for image in images)
