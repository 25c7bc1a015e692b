"""A marker of a former coordinator that comes late: into the next transaction of the same epoch, which it must not end.

With the rules of version 1 only its coordinator's epoch tells it from a marker of that transaction. The story:

- A transaction ends. Its coordinator sends the markers, which are held back on their way.
- Another broker becomes the coordinator, finds the decision, and its own markers pass.
- The producer begins the next transaction in the same epoch, and writes. Now the held markers arrive.
- The next transaction ends, in the other way than the one before.
"""

from collections.abc import Callable

from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.transactions.model import Label
from tests.simulation.cluster.transactions.producer import TransactionalProducer
from tests.simulation.cluster.transactions.reader import CommittedReader
from tests.simulation.cluster.transactions.rules import V1
from tests.simulation.cluster.transactions.watcher import listening_to_transactions
from tests.simulation.cluster.transactions.workload import PARTITIONS, TRANSACTIONAL, Transactions
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.world import World

LATER, FORMER, LEADER = 1, 2, 3
"""The brokers: who coordinates in the end, and is the controller; who does at first; who leads what is written to."""
PROPERTIES = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
TIMEOUT_MS = 60_000
"""No transaction times out."""
FIRST, DECIDED, NEXT = 1, 2, 3
"""The transactions: the first one opens the connection on which the markers of the second come late, into the third."""


class Founder(ClusterClient):
    """Creates the topics where the story wants them."""

    def script(self) -> Script[None]:
        topics = [_topic(TRANSACTION_STATE_TOPIC, [[FORMER, LATER]]), _topic(TRANSACTIONAL, [[LEADER]] * PARTITIONS)]
        link = self.link_to(self.addresses[0])
        response = yield link.send(CreateTopicsRequest(topics=topics, timeout_ms=5_000), CreateTopicsResponse)
        for topic in response.topics:
            check(topic.error_code)


def _topic(name: str, replicas: list[list[int]]) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=broker_ids)
        for index, broker_ids in enumerate(replicas)
    ]
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[])


class DirectedProducer(TransactionalProducer):
    """Begins and ends its transactions when the story says so."""

    def direct(self, *ends: bool) -> None:
        """Takes which transactions are to be committed."""
        self._ends = ends
        self.transactions_max = len(ends)
        self.interval_ms = 0
        self.may_begin = self.may_end = FIRST
        self.has_written = 0

    def fill(self, dies: bool) -> Script[None]:
        while self.may_begin < self.begun:
            yield self.sleep(1)
        self.coordinator.close()  # a request to one that is cut off would be unanswered, and nothing judged after it
        yield from self.add_partitions(self.targets)
        for target in self.targets:
            yield from self.produce(target, [self._batch(target)])
        self.has_written = self.begun
        while self.may_end < self.begun:
            yield self.sleep(1)

    def _end(self, is_commit: bool) -> Script[None]:
        yield from super()._end(self._ends[self.begun - 1])


class LateMarker:
    def __init__(self, seed: int, *, commits: bool) -> None:
        """Takes how the transaction ends whose markers come late."""
        self.world = world = World(seed)
        self.network = world.network
        self.cluster = SimulatedCluster(world, 3, PROPERTIES, voters=1)
        self.transactions = Transactions(Settings(), set())
        self.oracle = self.transactions.oracle
        addresses = [self.cluster[broker_id].address for broker_id in (LATER, LEADER)]
        self.place = Place(world, addresses[0], self.oracle, addresses)
        self.producer = DirectedProducer(self.place, "t0", rules=V1, timeout_ms=TIMEOUT_MS)
        self.producer.direct(True, commits, not commits)
        self._way = self.cluster[FORMER].machine.name, self.cluster[LEADER].machine.name

    def run(self, *, is_cut_off: bool) -> None:
        """Takes whether the first coordinator is cut off from everybody; else it hands over."""
        with listening_to_transactions(self.transactions):
            self._begin()
            self._wait(lambda: self.producer.has_written == DECIDED, "the second transaction is open")
            self.network.cut(*self._way)
            self.producer.may_end = DECIDED
            self._wait(lambda: self.producer.begun == NEXT, "the second transaction has an end")
            self._wait(self._is_held, "its markers are held back")
            if is_cut_off:
                self.network.isolate(self.cluster[FORMER].machine.name)
            else:
                self._elect_another()
            self._wait(lambda: self._coordinator() == LATER, "another one is the coordinator")
            self._wait(lambda: self._has_ended(DECIDED), "the markers of the new coordinator are there")
            self.producer.may_begin = NEXT
            self._wait(lambda: self.producer.has_written == NEXT, "the next transaction is open")
            assert self._is_held(), "the late markers came early"
            self.network.heal(*self._way)
            self._wait(lambda: not self._is_held(), "the late markers arrive")
            self.world.scheduler.run_for(100)
            self.producer.may_end = NEXT
            self._wait(lambda: self.producer.has_ended, "the next transaction is ended, too")
            self._wait(self.oracle.is_read_to_the_end, "TI5: all that was committed is read, and nothing is open")
            self.oracle.everything_has_ended()
            assert all(transaction.is_judged for transaction in self.oracle.transactions.values())

    def _begin(self) -> None:
        self.cluster.start()
        self.cluster.wait_until_ready()
        founder = Founder(self.place, "founder")
        founder.start()
        self._wait(lambda: founder.has_ended, "the topics are created")
        self.producer.start()
        for partition in self.transactions.partitions:
            CommittedReader(self.place, f"reader-of-{partition}", partition).start()
        self._wait(lambda: self._has_ended(FIRST), "the first transaction has its markers")
        self.producer.may_begin = DECIDED

    def _elect_another(self) -> None:
        """Another in-sync replica leads, as after an election that somebody has asked for."""
        node = self.cluster[LATER].server.node
        topic = node.image.topic(TRANSACTION_STATE_TOPIC)
        assert topic is not None
        node.quorum.append([PartitionChangeRecord(partition_id=0, topic_id=topic.topic_id, leader=LATER)])

    def _coordinator(self) -> int:
        state = self.cluster[LATER].server.node.image.partition(TRANSACTION_STATE_TOPIC, 0)
        assert state is not None
        return state.leader

    def _is_held(self) -> bool:
        """Returns whether markers are on their way from the first coordinator, which sends the leader nothing else."""
        return any(
            connection.to_server.sent > connection.to_server.delivered
            for connection in self.network.connections.values()
            if connection.machines == self._way
        )

    def _has_ended(self, number: int) -> bool:
        label = Label(self.producer.name, number)
        return all(label in model.decided for model in self.oracle.models.values())

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self.world.scheduler.run_until_true(condition, within_ms=10_000, what=what)


def simulate(seed: int) -> None:
    """Raises AssertionError if a transaction gets the end of the one before. Four seeds have all four stories: both
    decisions, and a coordinator that hands over or is cut off."""
    LateMarker(seed, commits=bool(seed & 1)).run(is_cut_off=bool(seed & 2))
