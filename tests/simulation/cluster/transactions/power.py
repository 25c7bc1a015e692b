"""A broker alone, whose power fails while a transaction ends: all partitions have one end, whatever is on the disk.

The partitions are flushed at every append, the coordinator's records only where that is asked for. One run is one seed:
some transactions, a power cut as soon as a marker is on the disk, and a new start, after which nobody goes on but the
coordinator. What it had told its clients, and what it knew of their epochs, may be lost; TI1 is what is left.
"""

from collections.abc import Callable

from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.types import TopicPartition
from tests.simulation.clients.client import Place, check
from tests.simulation.clients.script import Script
from tests.simulation.cluster.routing import ClusterClient
from tests.simulation.cluster.settings import Settings
from tests.simulation.cluster.transactions.oracle import TransactionOracle
from tests.simulation.cluster.transactions.producer import TransactionalProducer
from tests.simulation.cluster.transactions.rules import V2
from tests.simulation.cluster.transactions.watcher import listening_to_transactions
from tests.simulation.cluster.transactions.workload import PARTITIONS, TRANSACTIONAL, Transactions
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.world import World

TIMEOUT_MS = 1_000
MARKERS_MAX = 20
PROPERTIES = {
    "log.flush.interval.ms": "20",
    "log.flush.scheduler.interval.ms": "10",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Founder(ClusterClient):
    """Creates a topic that is flushed at every append."""

    def script(self) -> Script[None]:
        flushed = CreatableTopicConfig(name="flush.messages", value="1")
        topic = CreatableTopic(
            name=TRANSACTIONAL, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[flushed]
        )
        link = self.link_to(self.addresses[0])
        response = yield link.send(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), CreateTopicsResponse)
        check(response.topics[0].error_code)


class OneEnd(TransactionOracle):
    """Hears what logs have, and not what clients were told of it."""

    markers_left = MARKERS_MAX
    on_marker: Callable[[], None]

    def told(self, *_: object) -> None:
        pass

    def goes_on_with(self, *_: object) -> None:
        pass

    def marker_committed(self, partition: TopicPartition, header: BatchHeader, is_commit: bool) -> None:
        super().marker_committed(partition, header, is_commit)
        self.markers_left -= 1
        if not self.markers_left:
            self.on_marker()


def simulate(seed: int) -> None:
    """Raises AssertionError if a transaction has two ends."""
    world = World(seed)
    scheduler, random = world.scheduler, world.random("power", "cut")
    broker = SimulatedBroker(world, 1, PROPERTIES)
    transactions = Transactions(Settings(), set())
    oracle = transactions.oracle = OneEnd(transactions.partitions, set())
    oracle.markers_left = random.randint(1, MARKERS_MAX)
    with listening_to_transactions(transactions):
        broker.start()
        broker.wait_until_ready()
        place = Place(world, broker.address, oracle, [broker.address])
        founder = Founder(place, "founder")
        founder.start()
        scheduler.run_until_true(lambda: founder.has_ended, within_ms=5_000, what="the topic is created")
        producer = TransactionalProducer(place, "t0", rules=V2, timeout_ms=TIMEOUT_MS)
        producer.interval_ms = 10
        has_failed: list[bool] = []
        oracle.on_marker = lambda: scheduler.at(
            scheduler.now_us + random.choice((0, 50, 500)), random, has_failed.append, True
        )
        producer.start()
        scheduler.run_until_true(lambda: bool(has_failed), within_ms=60_000, what="a marker is on the disk")
        broker.cut_power()
        producer.kill()
        broker.start()
        broker.wait_until_ready()
        scheduler.run_for(3 * TIMEOUT_MS)
