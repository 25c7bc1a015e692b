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
from barnabas.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.controller.cluster_control import ELR_VERSION
from barnabas.replication.controller.feature_control import UpgradeType
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.administrator import Administrator
from tests.simulation.cluster.clients import (
    ClusterClassicMember,
    ClusterConsumerMember,
    ClusterMember,
    ClusterProducer,
    ClusterReader,
    EasyProducer,
    NearReader,
    PatientProducer,
)
from tests.simulation.cluster.faults.cluster_faults import ClusterFaults
from tests.simulation.cluster.faults.recreation import Recreator
from tests.simulation.cluster.liveness import Liveness
from tests.simulation.cluster.oracle import ClusterOracle
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.replicas.claims import Claims, DataOracle
from tests.simulation.cluster.replicas.listening import listening
from tests.simulation.cluster.replicas.watcher import ReplicaWatcher
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.transactions.watcher import listening_to_transactions
from tests.simulation.cluster.transactions.workload import PARTITIONS, TRANSACTIONAL, Transactions
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.scheduler import MS
from tests.simulation.world import World

FLUSHED = "flushed"
"""flush.messages=1: nothing that was acknowledged is lost, whatever happens."""
DEFAULT = "default"
"""Survives a kill; a power cut may take what the system had not written."""

GROUPED = "grouped"
"""Like `flushed`, and all of it on the first broker: what two groups read."""


RECREATED = "recreated"
"""Has one partition, and may be deleted and created again at any time."""
OFFSETS, TRANSACTION_STATE = "__consumer_offsets", "__transaction_state"
AT_ONCE = {"flush.messages": "1"}
NEVER = {"flush.messages": str(2**63 - 1)}


class Founder(ClusterClient):
    """Creates the topics for the producers: each has a partition that every broker is the first to lead."""

    def found(self, settings: Settings) -> None:
        self._settings = settings

    def script(self) -> Script[None]:
        unclean = {"unclean.leader.election.enable": "true"} if self._settings.is_unclean else {}
        topics = [
            self._topic(FLUSHED, AT_ONCE),
            self._topic(DEFAULT, NEVER | unclean),
            self._topic(GROUPED, AT_ONCE, [1, 1, 1]),
            self.recreated(),
        ]
        if self._settings.transactional + self._settings.copiers:
            topics.append(self._topic(TRANSACTIONAL, AT_ONCE, range(1, PARTITIONS + 1)))
        link = self.link_to(self.addresses[0])
        if not self._settings.has_elr:
            off = FeatureUpdateKey(feature=ELR_VERSION, max_version_level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE)
            switched = yield link.send(UpdateFeaturesRequest(feature_updates=[off]), UpdateFeaturesResponse)
            check(switched.error_code)
        response = yield link.send(CreateTopicsRequest(topics=topics, timeout_ms=5_000), CreateTopicsResponse)
        for topic in response.topics:
            check(topic.error_code)

    def recreated(self) -> CreatableTopic:
        flush = AT_ONCE if self._settings.is_recreated_flushed else NEVER
        return self._topic(RECREATED, flush, [len(self.addresses)])

    def _topic(self, name: str, configs: dict[str, str], on: Sequence[int] = ()) -> CreatableTopic:
        settings = self._settings
        configs = configs | {"min.insync.replicas": str(settings.min_insync_replicas)}
        if settings.segment_bytes < 1 << 20:
            configs["internal.segment.bytes"] = str(settings.segment_bytes)
        return CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=self._replicas(first))
                for index, first in enumerate(on or range(1, len(self.addresses) + 1))
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )

    def _replicas(self, first: int) -> list[int]:
        return [(first - 1 + index) % len(self.addresses) + 1 for index in range(self._settings.replication_factor)]


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
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.settings = settings = plan.settings
        self.world = world = World(plan.seed)
        self.scheduler = world.scheduler
        self.cluster = SimulatedCluster(world, settings.brokers, settings.properties, voters=settings.voters)
        self._given: set[int] = set()
        self._addresses = [broker.address for broker in self.cluster.brokers]
        grouped = [TopicPartition(GROUPED, index) for index in range(3)]
        self.grouped = DataOracle(grouped, self._given) if settings.members else None
        targets = [self._target(number) for number in range(settings.producers)]
        oracles = [DataOracle([target], self._given) for target in dict.fromkeys(targets)]
        if self.grouped is not None:
            oracles.append(self.grouped)
            targets += grouped
        if "recreate" in settings.kinds:
            targets.append(TopicPartition(RECREATED, 0))
            oracles.append(DataOracle(targets[-1:], self._given))
        self.transactions = Transactions(settings, self._given) if settings.transactional + settings.copiers else None
        self.claims = self._claims(oracles)
        self.oracle = ClusterOracle(self.claims, self.cluster.brokers)
        self.watcher = ReplicaWatcher(self.claims)
        self.producers = [self._producer(number, target) for number, target in enumerate(targets)]
        self.members = self._members()
        self.readers = self._readers()
        if self.transactions is not None:
            self.transactions.join(self.place, self.claims.by_partition)
        self.administrator = Administrator(
            self.place, "administrator", facts=self.oracle.facts, interval_ms=settings.admin_interval_ms
        )
        self.administrator.replication_factors = [1, settings.replication_factor]
        self.founder = Founder(self.place, "founder")
        self.founder.found(settings)
        self.recreator = self._recreator() if "recreate" in settings.kinds else None
        self.faults = ClusterFaults(self.cluster, self.oracle, self.watcher)
        self.faults.min_insync_replicas = settings.min_insync_replicas
        self.faults.replicas_min = min(settings.min_insync_replicas, settings.replication_factor)
        self.faults.recreator = self.recreator
        self.liveness = Liveness(self)

    def _claims(self, oracles: list[DataOracle]) -> Claims:
        """Returns the claims about all partitions. Clients that work in transactions suffer from what is lost of
        internal topics, and groups do, too."""
        settings = self.settings
        of_offsets: list[DataOracle] = [] if self.grouped is None else [self.grouped]
        internal = {OFFSETS: of_offsets}
        if self.transactions is not None:
            oracle = self.transactions.oracle
            oracles = [*oracles, oracle]
            internal = {OFFSETS: [*of_offsets, oracle], TRANSACTION_STATE: [oracle]}
        flushed = [FLUSHED, GROUPED, TRANSACTIONAL, *internal] + [RECREATED] * settings.is_recreated_flushed
        return Claims(oracles, internal, flushed)

    @property
    def place(self) -> Place:
        """Where those live who claim nothing about records."""
        return Place(self.world, self._addresses[0], DataOracle([], self._given), self._addresses)

    def place_of(self, partition: TopicPartition) -> Place:
        return self.place._replace(oracle=self.claims.by_partition[partition])

    def _target(self, number: int) -> TopicPartition:
        topic = (FLUSHED, DEFAULT)[number // self.settings.brokers % 2]
        return TopicPartition(topic, number % self.settings.brokers)

    def _producer(self, number: int, target: TopicPartition) -> ClusterProducer:
        kind = EasyProducer if number < self.settings.acks_leader else ClusterProducer
        if target.topic == RECREATED:
            kind = PatientProducer
        return kind(self.place_of(target), f"producer-{number}", target=target, interval_ms=self.settings.interval_ms)

    def _recreator(self) -> Recreator:
        place, topic = self.place_of(TopicPartition(RECREATED, 0)), self.founder.recreated()
        return Recreator(place, "recreator", facts=self.oracle.facts, topic=topic)

    def _readers(self) -> list[ClusterReader]:
        readers = [
            ClusterReader(self.place_of(partition), f"reader-of-{partition}", partition)
            for partition in self.claims.by_partition
            if partition.topic != TRANSACTIONAL
        ]
        if self.settings.near_readers:
            readers += [
                NearReader(reader.place, f"near-{reader.name}", reader.partition)
                for reader in readers
                if reader.partition.topic != RECREATED  # a name says too little
            ]
        return readers

    def _members(self) -> list[ClusterMember]:
        place = self.place if self.grouped is None else self.place._replace(oracle=self.grouped)
        return [
            kind(place, f"{group}-{number}", group=group, topics=[GROUPED])
            for kind, group in ((ClusterClassicMember, "classic"), (ClusterConsumerMember, "consumer"))
            for number in range(self.settings.members)
        ]

    def run(self) -> "ManyBrokers":
        with listening(self.watcher), listening_to_transactions(self.transactions):
            return self._run()

    def _run(self) -> "ManyBrokers":
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
        self.founder.start()
        self.scheduler.run_until_true(lambda: self.founder.has_ended, within_ms=5_000, what="topics are created")
        if self.recreator is not None:
            self.recreator.start()
        for client in (*self.producers, *self.readers, *self.members, self.administrator):
            client.start()
        if self.transactions is not None:
            self.transactions.start()

    def expect_faults(self) -> None:
        messenger = Messenger(self.place, "messenger")
        messenger.start()
        self.faults.expect(self.plan.faults, messenger.ask)
