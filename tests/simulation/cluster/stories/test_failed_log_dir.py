"""A leader's log dir fails under load (KAFKA-10778): others lead what was in it, and nothing is lost or read twice.
When the disk is repaired or replaced, the broker has all its replicas again."""

from collections.abc import Callable, Mapping
from itertools import product

import pytest

from barnabas.broker.replicas.partition import Role
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.types import TopicPartition
from barnabas.replication.controller.channel import own_context
from barnabas.replication.controller.partitions.directories import directory_of
from barnabas.replication.metadata.image import PartitionImage
from barnabas.storage.log_dir import LogDir
from tests.replication.clusters import new_topic
from tests.simulation.clients.client import Place
from tests.simulation.cluster.clients import ClusterProducer, ClusterReader
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.seeds import chosen_seeds, replayable
from tests.simulation.world import World

TOPIC = "orders"
FIRST, SECOND = "/data", "/more"
NAMES = [TopicPartition(TOPIC, index) for index in range(6)]
CASES = [
    (seed, failing, disk)
    for number, (failing, disk) in enumerate(product(("syncs", "writes"), ("repaired", "replaced")), 1)
    for seed in chosen_seeds([number])
]


class TwoDirs:
    """Three brokers with two log dirs each, and a topic on all of them: each partition has a producer and a reader."""

    def __init__(self, seed: int, properties: Mapping[str, str] = {}) -> None:
        self.world = World(seed)
        dirs = {"log.dirs": f"{FIRST},{SECOND}", "min.insync.replicas": "2"}
        self.cluster = SimulatedCluster(self.world, 3, {**dirs, **properties})
        self.oracle = DataOracle(NAMES, set())
        addresses = [broker.address for broker in self.cluster.brokers]
        place = Place(self.world, addresses[0], self.oracle, addresses)
        self.producers = [ClusterProducer(place, f"producer-of-{name}", target=name, interval_ms=100) for name in NAMES]
        self.readers = [ClusterReader(place, f"reader-of-{name}", name) for name in NAMES]

    def begin(self) -> None:
        self.cluster.start()
        self.cluster.wait_until_ready()
        self.wait(lambda: self.cluster.controller is not None, "there is a controller")
        assert self.cluster.controller is not None
        replicas = {name.partition: [1 + (name.partition + n) % 3 for n in range(3)] for name in NAMES}
        request = CreateTopicsRequest(topics=[new_topic(TOPIC, -1, -1, replicas, {"flush.messages": "1"})])
        self.cluster.controller.server.node.controller.submit(request, own_context(request))
        self.wait(self.is_told, "the controller knows where all replicas are")
        self.oracle.created(TOPIC, self.cluster.brokers[0].server.node.image.topics[TOPIC].topic_id)

    def load(self) -> None:
        for client in (*self.producers, *self.readers):
            client.start()
        self.world.scheduler.run_for(1_000)

    def wait(self, condition: Callable[[], bool], what: str, within_ms: float = 15_000) -> None:
        self.world.scheduler.run_until_true(condition, within_ms=within_ms, what=what)

    def partition(self, broker: SimulatedBroker, name: TopicPartition) -> PartitionImage | None:
        return broker.server.node.image.partition(*name)

    def dir_of(self, broker: SimulatedBroker, name: TopicPartition) -> LogDir | None:
        return broker.server.node.logs.dir_of(name)

    def is_told(self) -> bool:
        """Whether every broker knows in which dir each replica of each broker lies."""
        for name in NAMES:
            for broker in self.cluster.brokers:
                found, log_dir = self.partition(broker, name), self.dir_of(broker, name)
                if found is None or log_dir is None or directory_of(found, broker.node_id) != log_dir.directory_id:
                    return False
        return True

    def lying_in(self, broker: SimulatedBroker, path: str) -> list[TopicPartition]:
        return [name for name in NAMES if (found := self.dir_of(broker, name)) is not None and found.path == path]

    def are_left(self, broker: SimulatedBroker, names: list[TopicPartition]) -> bool:
        """Whether everybody knows that others lead these partitions, and that the broker is not in sync."""
        images = [self.partition(each, name) for name in names for each in self.cluster.brokers]
        return all(found and found.leader > 0 and broker.node_id not in found.isr for found in images)

    def are_in_sync(self) -> bool:
        return all(
            found is not None and len(found.isr) == 3
            for name in NAMES
            for broker in self.cluster.brokers
            if broker.is_running
            for found in [self.partition(broker, name)]
        )

    def drain(self) -> None:
        """Lets the producers end, and the readers read everything."""
        for producer in self.producers:
            producer.stop()
        self.wait(lambda: all(producer.has_ended for producer in self.producers), "everything is acknowledged")
        self.wait(self.oracle.is_all_read, "everything is read")

    def replaced(self, broker: SimulatedBroker) -> None:
        broker.machine.files.rmtree(SECOND)
        broker.machine.files.sync_dir("/")


@pytest.mark.parametrize(("seed", "failing", "disk"), CASES)
def test_leaders_leave_a_log_dir_that_fails_and_nothing_is_lost_or_read_twice(
    seed: int, failing: str, disk: str
) -> None:
    run = TwoDirs(seed)
    with replayable(seed, run.world.trace):
        run.begin()
        run.load()
        broker = run.cluster.brokers[seed % 3]
        gone, kept = run.lying_in(broker, SECOND), run.lying_in(broker, FIRST)
        assert any(found.leader == broker.node_id for name in gone if (found := run.partition(broker, name)))
        files = broker.machine.files
        broken: set[str] = getattr(files, f"failing_{failing}")
        broken.add(f"{SECOND}/")
        run.wait(lambda: run.are_left(broker, gone), "others lead what was in the dir", within_ms=1_000)
        before = run.oracle.acknowledged_records
        run.world.scheduler.run_for(1_000)
        assert run.oracle.acknowledged_records > before + 50
        assert {broker.server.node.replicas.role(*name) for name in gone} == {Role.OFFLINE}
        for name in kept:  # the other dir goes on as if nothing had happened
            found = run.partition(broker, name)
            assert found is not None
            assert broker.node_id in found.isr
            assert found.leader_epoch == 0
        broker.kill()
        broken.clear()
        if disk == "replaced":
            run.replaced(broker)
        broker.start()
        broker.wait_until_ready()
        run.wait(run.are_in_sync, "the broker has all its replicas again")
        run.wait(run.is_told, "the controller knows where they are")
        run.drain()


def test_a_broker_that_can_tell_no_controller_of_its_failed_dir_ends() -> None:
    """Others would wait for leaders that cannot lead."""
    run = TwoDirs(1, {"log.dir.failure.timeout.ms": "3000"})
    with replayable(1, run.world.trace):
        run.begin()
        broker, *others = run.cluster.brokers
        ends: list[Exception] = []
        broker.on_failure = ends.append
        for other in others:
            other.kill()
        broker.server.node.logs.log_dirs[1].go_offline(OSError(5, "Input/output error"))
        run.world.scheduler.run_for(2_900)
        assert not ends
        run.world.scheduler.run_for(200)
        assert "no controller could be told" in str(ends[0])
