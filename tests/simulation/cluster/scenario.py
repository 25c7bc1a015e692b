"""Whole brokers in a cluster, with producers, readers and an administrator, and everything that can happen to them.

A run has four parts: calm, faults in bursts, a time in which all must be well again, and a last look at everything.
What must be well again, and by when, is in `liveness.py`.
"""

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.administrator import Administrator
from tests.simulation.cluster.clients import (
    ClusterClassicMember,
    ClusterConsumerMember,
    ClusterMember,
    ClusterProducer,
    ClusterReader,
)
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.liveness import Liveness
from tests.simulation.cluster.oracle import ClusterOracle, DataOracle
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.cluster.settings import Settings
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.scenarios.faults import draw_plan
from tests.simulation.scheduler import MS
from tests.simulation.world import World

FLUSHED = "flushed"
"""flush.messages=1: nothing that was acknowledged is lost, whatever happens."""
DEFAULT = "default"
"""Survives a kill; a power cut may take what the system had not written."""

GROUPED = "grouped"
"""Like `flushed`, and all of it on the first broker: what two groups read."""


class Founder(ClusterClient):
    """Creates the topics for the producers: each has a partition on every broker."""

    def script(self) -> Script[None]:
        topics = [
            self._topic(FLUSHED, {"flush.messages": "1"}),
            self._topic(DEFAULT, {"flush.messages": str(2**63 - 1)}),
            self._topic(GROUPED, {"flush.messages": "1"}, [1, 1, 1]),
        ]
        link = self.link_to(self.addresses[0])
        response = yield link.send(CreateTopicsRequest(topics=topics, timeout_ms=5_000), CreateTopicsResponse)
        for topic in response.topics:
            check(topic.error_code)

    def _topic(self, name: str, configs: dict[str, str], on: Sequence[int] = ()) -> CreatableTopic:
        return CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=[broker_id])
                for index, broker_id in enumerate(on or range(1, len(self.addresses) + 1))
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )


class Messenger(ClusterClient):
    """Sends single requests to whichever broker, for those who do not care what is answered."""

    def script(self) -> Script[None]:
        yield self.sleep(0)

    def ask(self, request: object, response_class: type[Any]) -> None:
        link = self.link_to(self.any_broker())
        link.send(request, response_class).when_done(lambda answer: self._answered(answer.error or answer.value))

    def _answered(self, answer: object) -> None:
        self.tell("was answered {}", repr(answer))

    def _ended(self) -> None:
        """Stays, and keeps its connections."""


class ManyBrokers:
    def __init__(self, seed: int, settings: Settings) -> None:
        self.settings = settings
        self.world = world = World(seed)
        self.scheduler = world.scheduler
        self.cluster = SimulatedCluster(world, settings.brokers, settings.properties, voters=settings.voters)
        self.oracle = ClusterOracle()
        given: set[int] = set()
        self.data = [
            DataOracle(self._partitions_of(broker.node_id), [FLUSHED, GROUPED], given)
            for broker in self.cluster.brokers
        ]
        addresses = [broker.address for broker in self.cluster.brokers]
        self.places = [Place(world, addresses[0], oracle, addresses) for oracle in self.data]
        self.producers = [self._producer(number, f"producer-{number}") for number in range(settings.producers)]
        self.members = self._members()
        if self.members:
            self.producers += [
                self._producer_to(TopicPartition(GROUPED, index), f"producer-to-group-{index}") for index in range(3)
            ]
        self.readers = [ClusterReader(place, f"reader-{number}") for number, place in enumerate(self.places, 1)]
        self.administrator = Administrator(
            self.places[0], "administrator", facts=self.oracle.facts, interval_ms=settings.admin_interval_ms
        )
        self.faults = ClusterFaults(self.cluster, self.oracle, self.data)
        self.liveness = Liveness(self)

    def _producer(self, number: int, name: str) -> ClusterProducer:
        broker = number % self.settings.brokers
        topic = (FLUSHED, DEFAULT)[number // self.settings.brokers % 2]
        return self._producer_to(TopicPartition(topic, broker), name)

    def _producer_to(self, target: TopicPartition, name: str) -> ClusterProducer:
        place = self.places[self.broker_of(target) - 1]
        return ClusterProducer(place, name, target=target, interval_ms=self.settings.interval_ms)

    def _members(self) -> list[ClusterMember]:
        return [
            kind(self.places[0], f"{group}-{number}", group=group, topics=[GROUPED])
            for kind, group in ((ClusterClassicMember, "classic"), (ClusterConsumerMember, "consumer"))
            for number in range(self.settings.members)
        ]

    @staticmethod
    def broker_of(partition: TopicPartition) -> int:
        return 1 if partition.topic == GROUPED else partition.partition + 1

    @staticmethod
    def _partitions_of(node_id: int) -> list[TopicPartition]:
        own = [TopicPartition(topic, node_id - 1) for topic in (FLUSHED, DEFAULT)]
        return own + [TopicPartition(GROUPED, index) for index in range(3) if node_id == 1]

    def run(self) -> "ManyBrokers":
        self.begin()
        self.expect_faults()
        self.scheduler.run_until((self.settings.calm_ms + self.settings.faults_ms) * MS)
        well = self.faults.mend(self.world.random("faults", "mending"), all_of_it=self.settings.heals_all)
        self.liveness.check(well)
        return self

    def begin(self) -> None:
        for broker in self.cluster.brokers:
            self.faults.start(broker)
        self.cluster.wait_until_ready()
        founder = Founder(self.places[0], "founder")
        founder.start()
        self.scheduler.run_until_true(lambda: founder.has_ended, within_ms=5_000, what="topics are created")
        for client in (*self.producers, *self.readers, *self.members, self.administrator):
            client.start()

    def expect_faults(self) -> None:
        settings, messenger = self.settings, Messenger(self.places[0], "messenger")
        messenger.start()
        kinds = settings.kinds
        plan = draw_plan(
            self.world.random("faults", "plan"),
            kinds,
            count=settings.faults if kinds else 0,
            between_ms=(settings.calm_ms, settings.calm_ms + settings.faults_ms),
        )
        last_ms = settings.calm_ms + settings.faults_ms
        self.faults.expect([fault for fault in plan if fault.at_ms < last_ms], messenger.ask)
