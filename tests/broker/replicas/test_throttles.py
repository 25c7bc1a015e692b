"""Throttled replicas in a simulated cluster of real brokers: how long a copy takes, and who does not notice."""

from collections.abc import Callable, Mapping

import pytest

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.records import NewRecord
from barnabas.replication.controller.channel import own_context
from tests.replication.clusters import new_topic
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.cluster import SimulatedCluster
from tests.simulation.world import World

LEADER, FOLLOWER = 1, 2
PROPERTIES = {
    "replica.fetch.max.bytes": "10000",
    "replica.fetch.response.max.bytes": "40000",
    "replica.fetch.wait.max.ms": "5000",  # so long that the end of a wait helps nobody
}
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = {side: f"{side}.replication.throttled.rate" for side in ("leader", "follower")}
THROTTLED = {"leader": {LEADERS: f"0:{LEADER}"}, "follower": {FOLLOWERS: f"0:{FOLLOWER}"}}
SET, DELETE = 0, 1


class Cluster:
    """Two brokers. The first leads every topic, and has to begin with the only replica of most of them."""

    def __init__(self) -> None:
        world = World(1)
        self.scheduler = world.scheduler
        self.brokers = SimulatedCluster(world, 2, PROPERTIES)
        self.brokers.start()
        self.brokers.wait_until_ready()

    def ask(self, request: object) -> None:
        done = self.brokers[LEADER].server.node.controller.submit(request, own_context(request))
        self.wait(lambda: done.done, "the controller answers")

    def create(self, topic: str, replicas: list[int], configs: Mapping[str, str] = {}) -> LeaderPartition:
        self.ask(CreateTopicsRequest(topics=[new_topic(topic, -1, -1, {0: replicas}, dict(configs))]))
        self.wait(lambda: self.leader.server.node.image.topic(topic) is not None, "it is created")
        partition = self.leader.server.node.replicas.partition(topic, 0)
        self.wait(lambda: len(partition.in_sync.isr) == len(replicas), "its replicas are in sync")
        return partition

    def alter(self, resource_type: ResourceType, name: object, configs: Mapping[str, str | None]) -> None:
        """Sets what has a value, and deletes what has none."""
        changes = [
            AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=str(name), configs=changes)
        self.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))

    def limit(self, bytes_per_second: int | None) -> None:
        for broker in (LEADER, FOLLOWER):
            value = None if bytes_per_second is None else str(bytes_per_second)
            self.alter(ResourceType.BROKER, broker, dict.fromkeys(RATES.values(), value))

    def copy(self, topic: str) -> None:
        """Begins to copy a topic to the other broker."""
        partition = ReassignablePartition(partition_index=0, replicas=[LEADER, FOLLOWER])
        self.ask(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[partition])]))

    def copied(self, topic: str) -> int:
        """How many records the follower has."""
        return self.brokers[FOLLOWER].server.node.replicas.follower(topic, 0).log.log_end_offset

    @property
    def now_ms(self) -> float:
        return self.scheduler.now_us / 1_000

    @property
    def leader(self) -> SimulatedBroker:
        return self.brokers[LEADER]

    @property
    def fetches(self) -> int:
        """How many fetches the follower has sent."""
        (session,) = self.leader.server.node.fetch_sessions.of_replicas._by_id.values()
        return session.epoch

    def wait(self, condition: Callable[[], bool], what: str, within_ms: float = 5_000) -> float:
        """Returns how long it took, in seconds."""
        began_ms = self.now_ms
        self.scheduler.run_until_true(condition, within_ms=within_ms, what=what)
        return (self.now_ms - began_ms) / 1_000


def write(partition: LeaderPartition, size: int = 1_000, count: int = 1) -> None:
    for _ in range(count):
        partition.append(memoryview(build_batch([NewRecord(b"key", b"." * (size - 80), (), 0)])), 0)


def size_of(partition: LeaderPartition) -> int:
    unread_bytes = partition.log.unread_bytes(0, max_offset=partition.log.log_end_offset)
    assert unread_bytes is not None
    return unread_bytes


def has(partition: LeaderPartition, follower: int = FOLLOWER) -> Callable[[], bool]:
    return lambda: follower in partition.in_sync.isr


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_new_replica_takes_as_long_as_the_rate_says_and_others_do_not_notice(cluster: Cluster, side: str) -> None:
    other = cluster.create("other", [LEADER, FOLLOWER], {LEADERS: "7:1", FOLLOWERS: "7:2"})
    moved = cluster.create("moved", [LEADER], THROTTLED[side])
    write(moved, count=300)
    cluster.limit(20_000)
    expected_s = size_of(moved) / 20_000
    began_ms, fetches, slowest_s = cluster.now_ms, cluster.fetches, 0.0
    cluster.copy("moved")
    appends = 0
    while FOLLOWER not in moved.in_sync.isr:
        write(other)
        appends += 1
        took_s = cluster.wait(lambda: other.log.high_watermark == other.log.log_end_offset, "it is committed", 1_000)
        slowest_s = max(slowest_s, took_s)
        cluster.scheduler.run_for(100)
    took_s = (cluster.now_ms - began_ms) / 1_000
    assert 0.85 * expected_s < took_s < 1.15 * expected_s
    assert slowest_s < 0.02
    assert cluster.fetches - fetches < 5 * (appends + size_of(moved) / 10_000), "it asks again and again"


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_that_are_copied_together_share_the_rate(cluster: Cluster, side: str) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    partitions = [cluster.create(name, [LEADER], THROTTLED[side]) for name in names]
    for partition in partitions:
        write(partition, count=100)
    cluster.limit(30_000)
    for name in names:
        cluster.copy(name)
    cluster.scheduler.run_for(10_000)
    copied = [cluster.copied(name) for name in names]
    assert 0.8 * 300 < sum(copied) < 1.2 * 340
    assert max(copied) - min(copied) <= 30, copied
    for partition in partitions:
        cluster.wait(has(partition), "it is in sync", 60_000)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_in_sync_never_waits_and_counts(cluster: Cluster, side: str) -> None:
    in_sync = cluster.create("in-sync", [LEADER, FOLLOWER], THROTTLED[side])
    moved = cluster.create("moved", [LEADER], THROTTLED[side])
    write(moved, count=50)
    cluster.limit(1_000)
    for _ in range(40):
        write(in_sync)
        assert cluster.wait(lambda: in_sync.log.high_watermark == in_sync.log.log_end_offset, "committed") < 0.02
    cluster.copy("moved")
    for _ in range(10):
        write(in_sync, size=10_000)
        assert cluster.wait(lambda: in_sync.log.high_watermark == in_sync.log.log_end_offset, "committed") < 0.02
        cluster.scheduler.run_for(500)
    assert cluster.copied("moved") == 0, "the rate is used up by the other"
    assert in_sync.in_sync.isr == (LEADER, FOLLOWER)


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("what", ["rate", "replicas"])
def test_without_its_limit_a_copy_goes_on_at_once(cluster: Cluster, side: str, what: str) -> None:
    moved = cluster.create("moved", [LEADER], THROTTLED[side])
    write(moved, count=200)
    cluster.limit(1)
    cluster.copy("moved")
    cluster.scheduler.run_for(3_000)
    assert FOLLOWER not in moved.in_sync.isr
    assert 0 < cluster.copied("moved") <= 10, "one answer passes, whatever its size"
    if what == "rate":
        cluster.limit(None)
    else:
        cluster.alter(ResourceType.TOPIC, "moved", {LEADERS: None, FOLLOWERS: None})
    assert cluster.wait(has(moved), "it is in sync") < 0.5


def test_a_rate_that_is_raised_holds_for_a_copy_under_way(cluster: Cluster) -> None:
    moved = cluster.create("moved", [LEADER], {LEADERS: "*", FOLLOWERS: "*"})
    write(moved, count=300)
    cluster.limit(5_000)
    cluster.copy("moved")
    cluster.scheduler.run_for(6_000)
    slow = cluster.copied("moved")
    assert 20 <= slow <= 50
    cluster.limit(50_000)
    cluster.scheduler.run_for(2_000)
    assert cluster.copied("moved") - slow >= 80
    cluster.wait(has(moved), "it is in sync", 10_000)
