"""Followers in a cluster of real brokers: whatever happens to leaders and links, in the end the logs are the same byte
for byte. Leaders are changed as no careful controller would, so that logs part again and again."""

from collections.abc import Callable, Mapping

import pytest

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import Role
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.records import NewRecord
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.channel import own_context
from barnabas.replication.metadata.image import PartitionImage
from barnabas.storage.log import Log
from tests.replication.clusters import new_topic
from tests.simulation.net.streams import End
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.seeds import chosen_seeds, replayable
from tests.simulation.world import World

TOPIC = "copied"
BROKERS = 3


class Copies:
    """A cluster of three, and a topic with partitions of which each broker has a replica."""

    def __init__(self, seed: int, partitions: int, configs: Mapping[str, str] = {}) -> None:
        self.world = World(seed)
        self.scheduler = self.world.scheduler
        self.random = self.world.random("replication", "faults")
        self.cluster = SimulatedCluster(self.world, BROKERS, {"broker.session.timeout.ms": "60000"})
        self.partitions = partitions
        self.written = 0
        self.cluster.start()
        self.cluster.wait_until_ready()
        assignment = {index: [1 + (index + n) % BROKERS for n in range(BROKERS)] for index in range(partitions)}
        topic = new_topic(TOPIC, -1, -1, assignment, dict(configs))
        request = CreateTopicsRequest(topics=[topic])
        self.controller.server.node.controller.submit(request, own_context(request))
        self.wait(lambda: all(self.image_of(broker, 0) is not None for broker in self.cluster.brokers), "it is created")

    @property
    def controller(self) -> SimulatedBroker:
        self.wait(lambda: self.cluster.controller is not None, "there is a controller")
        controller = self.cluster.controller
        assert controller is not None
        return controller

    def wait(self, condition: Callable[[], bool], what: str, within_ms: float = 15_000) -> None:
        self.scheduler.run_until_true(condition, within_ms=within_ms, what=what)

    def image_of(self, broker: SimulatedBroker, index: int) -> PartitionImage | None:
        return broker.server.node.image.partition(TOPIC, index)

    def log(self, broker: SimulatedBroker, index: int) -> Log:
        return broker.server.node.replicas.replica(TOPIC, index).log

    def leaders(self, index: int) -> list[LeaderPartition]:
        """Those who think that they lead: there may be several for a moment."""
        found = []
        for broker in self.cluster.brokers:
            try:
                found.append(broker.server.node.replicas.partition(TOPIC, index))
            except KafkaError:
                continue
        return found

    # ---- what happens

    def write(self, index: int) -> None:
        """Has everybody who thinks that it leads append some records, as with acks=1."""
        for leader in self.leaders(index):
            for _ in range(self.random.randrange(1, 4)):
                self.written += 1
                count = self.random.randrange(1, 3)
                records = [NewRecord(b"key", b"%d" % self.written, (), 0)] * count
                leader.append(memoryview(build_batch(records)), 0)

    def lead(self, index: int, broker_id: int) -> None:
        """Has a broker lead that may lack what others have: an unclean election."""
        image = self.controller.server.node.image.topic(TOPIC)
        assert image is not None
        record = PartitionChangeRecord(
            partition_id=index, topic_id=image.topic_id, leader=broker_id, isr=[broker_id], leader_recovery_state=0
        )
        self.controller.server.node.quorum.append([record])

    def disturb(self) -> None:
        network, random = self.world.network, self.random
        connections = list(network.connections.values())
        match random.randrange(4):
            case 0 if connections:
                connection = random.choice(connections)
                random.choice((connection.to_server, connection.to_client)).stall(random.uniform(1, 300))
            case 1 if connections:
                connection = random.choice(connections)
                stream = random.choice((connection.to_server, connection.to_client))
                stream.cut(random.choice([End.FIN, End.RST]), random.randrange(400))
            case 2:
                broker = random.choice(self.cluster.brokers)
                broker.process.loop.pause()
                self.scheduler.run_for(random.uniform(1, 200))
                broker.process.loop.resume()

    # ---- what must be true

    def check_offsets(self) -> None:
        for broker in self.cluster.brokers:
            for index in range(self.partitions):
                log = self.log(broker, index)
                assert log.log_start_offset <= log.high_watermark <= log.log_end_offset

    def is_settled(self) -> bool:
        for index in range(self.partitions):
            leaders = self.leaders(index)
            if len(leaders) != 1 or len(leaders[0].in_sync.isr) != BROKERS:
                return False
            end_offset = leaders[0].log.log_end_offset
            logs = [self.log(broker, index) for broker in self.cluster.brokers]
            if any((log.log_end_offset, log.high_watermark) != (end_offset, end_offset) for log in logs):
                return False
        return True

    def check_equal(self) -> None:
        for index in range(self.partitions):
            contents = [content(self.log(broker, index)) for broker in self.cluster.brokers]
            assert contents[0] == contents[1] == contents[2], f"the logs of partition {index} differ"


def content(log: Log) -> tuple[bytes, list[tuple[int, int]]]:
    """All batches of a log, and its epochs."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, max_offset=log.log_end_offset)
        assert part is not None
        data = part.read()
        found += data
        offset = _next_offset(data)
    return found, log.leader_epochs.entries()


def _next_offset(data: bytes) -> int:
    position = next_offset = 0
    while position < len(data):
        base_offset = int.from_bytes(data[position : position + 8], "big")
        next_offset = base_offset + int.from_bytes(data[position + 23 : position + 27], "big") + 1
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return next_offset


def run(seed: int, rounds: int = 40, configs: Mapping[str, str] = {}) -> Copies:
    copies = Copies(seed, 2, configs)
    random = copies.random
    with replayable(seed, copies.world.trace):
        for _ in range(rounds):
            for index in range(copies.partitions):
                if random.random() < 0.8:
                    copies.write(index)
                if random.random() < 0.4:
                    copies.lead(index, random.randrange(1, BROKERS + 1))
                    if random.random() < 0.5:  # again at once: the one between has hardly led (KAFKA-6361)
                        copies.scheduler.run_for(random.uniform(0, 20))
                        copies.write(index)
                        copies.lead(index, random.randrange(1, BROKERS + 1))
            copies.disturb()
            copies.scheduler.run_for(random.expovariate(1 / 60))
            copies.check_offsets()
        copies.world.network.heal_all()
        copies.wait(copies.is_settled, "all replicas are in sync")
        copies.check_equal()
    return copies


@pytest.mark.parametrize("seed", chosen_seeds(range(6)))
def test_logs_are_the_same_after_all_that_can_happen_to_leaders_and_links(seed: int) -> None:
    copies = run(seed)
    assert copies.written > 50
    cut = [line for broker in copies.cluster.brokers for line in broker.process.report.lines if "parts from" in line[1]]
    assert cut, "no log ever parted"


@pytest.mark.parametrize("seed", chosen_seeds(range(2)))
def test_what_a_follower_acknowledges_is_on_its_disk_where_every_record_is_flushed(seed: int) -> None:
    run(seed, rounds=15, configs={"flush.messages": "1"})


def test_a_follower_that_was_cut_off_begins_where_the_leaders_log_begins_by_now() -> None:
    copies = Copies(5, 1)
    with replayable(5, copies.world.trace):
        leader = copies.cluster[1]
        copies.write(0)
        copies.wait(copies.is_settled, "all replicas are in sync")
        for other in (2, 3):
            copies.world.network.cut("broker-1", f"broker-{other}")
            copies.world.network.cut(f"broker-{other}", "broker-1")
        for _ in range(30):
            copies.write(0)
        log = copies.log(leader, 0)
        log.advance_high_watermark(log.log_end_offset - 1)
        log.delete_records(log.log_end_offset - 1)
        copies.world.network.heal_all()
        copies.wait(copies.is_settled, "all replicas are in sync", within_ms=40_000)
        assert copies.log(copies.cluster[2], 0).log_start_offset == log.log_start_offset
        copies.check_equal()


def test_a_follower_shows_nothing_that_was_not_committed_when_its_log_parts() -> None:
    """KAFKA-14704: the high watermark of an answer that says where logs part belongs to the leader's log."""
    copies = Copies(6, 1)
    with replayable(6, copies.world.trace):
        controller = copies.controller
        former, other = [broker for broker in copies.cluster.brokers if broker is not controller]
        copies.lead(0, former.node_id)
        copies.wait(lambda: has_role(former), "it leads")
        copies.write(0)
        copies.wait(copies.is_settled, "all replicas are in sync")
        committed = copies.log(former, 0).high_watermark
        copies.world.network.isolate(former.machine.name)
        copies.write(0)
        ghost = content(copies.log(former, 0))[0]
        copies.lead(0, other.node_id)
        copies.wait(lambda: len(copies.leaders(0)) == 2, "another leads, too")
        replica = other.server.node.replicas.partition(TOPIC, 0)
        replica.append(memoryview(build_batch([NewRecord(b"key", b"other", (), 0)] * 9)), 0)
        copies.scheduler.run_for(1_000)
        copies.world.network.heal_all()
        while not copies.is_settled():
            log = copies.log(former, 0)
            if content(log)[0] == ghost:
                assert log.high_watermark <= committed, "what only the former leader has is shown"
            assert copies.scheduler.step()
        copies.check_equal()


def has_role(broker: SimulatedBroker) -> bool:
    return broker.server.node.replicas.role(TOPIC, 0) is Role.LEADER
