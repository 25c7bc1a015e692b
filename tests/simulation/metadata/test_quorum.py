"""A metadata quorum of real drivers, logs and connections, while processes, machines and connections fail."""

import os

import pytest

from barnabas.replication.quorum.driver import _CARRY_OUT, QuorumDriver
from barnabas.replication.quorum.exchange.effects import Truncate
from tests.simulation.metadata.nodes import QuorumNode, voters_of
from tests.simulation.metadata.oracle import Oracle
from tests.simulation.net.streams import End
from tests.simulation.seeds import SimulationFailed, replayable, run_seeds
from tests.simulation.world import World

DECISION_INTERVAL_MS = 100


class Cluster:
    def __init__(self, seed: int, size: int = 3) -> None:
        self.world = World(seed)
        self.random = self.world.random("cluster", "faults")
        self.oracle = Oracle()
        voters = voters_of(size)
        self.nodes = [QuorumNode(self.world, node_id, voters, self.oracle) for node_id in range(1, size + 1)]
        self.decisions = 0
        for node in self.nodes:
            node.start()

    @property
    def deciding(self) -> QuorumNode | None:
        return next((node for node in self.nodes if node.may_decide), None)

    def run_for(self, ms: int) -> None:
        for _ in range(0, ms, DECISION_INTERVAL_MS):
            for node in self.nodes:
                if node.may_decide:
                    self.decisions += 1
                    node.decide(self.decisions)
            self.world.scheduler.run_for(DECISION_INTERVAL_MS)

    def leave_one_behind(self, away_ms: int) -> tuple[QuorumNode, QuorumNode]:
        """Returns the leader, and a node that has been away for so long and is still."""
        leader = self.wait_for_leader(500)
        away = next(node for node in self.nodes if node is not leader)
        self.run_for(1_000)
        away.kill()
        self.run_for(away_ms)
        return leader, away

    def wait_for_leader(self, within_ms: int) -> QuorumNode:
        self.world.scheduler.run_until_true(
            lambda: self.deciding is not None, within_ms=within_ms, what="a leader may decide"
        )
        assert self.deciding is not None
        return self.deciding

    def check_all_follow(self) -> None:
        """All nodes end with the same image, which holds everything that was answered."""
        leader = self.wait_for_leader(20_000)
        before = self.oracle.answers
        self.run_for(2_000)
        assert self.oracle.answers > before, "nothing is answered"
        assert leader.driver is not None
        end_offset = leader.driver.core.replica.log.end_offset
        names = [node.machine.name for node in self.nodes]
        self.world.scheduler.run_until_true(
            lambda: all(self.oracle.published_to.get(name) == end_offset for name in names),
            within_ms=10_000,
            what=f"all nodes have published up to {end_offset}",
        )


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_new_quorum_elects_a_leader_at_once_and_replicates(size: int) -> None:
    cluster = Cluster(size, size)
    with replayable(size, cluster.world.trace):
        cluster.wait_for_leader(within_ms=500)
        cluster.check_all_follow()
        assert cluster.oracle.epochs == 1


@pytest.mark.parametrize("how", [QuorumNode.kill, QuorumNode.cut_power])
def test_when_the_leader_dies_another_one_goes_on_and_the_dead_one_catches_up(how: object) -> None:
    cluster = Cluster(1)
    with replayable(1, cluster.world.trace):
        leader = cluster.wait_for_leader(500)
        cluster.run_for(1_000)
        leader.kill() if how is QuorumNode.kill else leader.cut_power()
        # A process that died is noticed by its closed connection, a machine without power by its silence.
        cluster.wait_for_leader(within_ms=500 if how is QuorumNode.kill else 8_000)
        cluster.run_for(1_000)
        leader.start()
        cluster.check_all_follow()


def test_a_node_that_was_away_for_long_gets_a_snapshot() -> None:
    cluster = Cluster(1)
    with replayable(1, cluster.world.trace):
        _, away = cluster.leave_one_behind(20_000)
        away.start()
        cluster.check_all_follow()
        away.kill()
        away.start()  # what it installed is there for good
        cluster.check_all_follow()
    assert f"{away.machine.name}: info: metadata snapshot at offset" in cluster.world.trace.text()


class Chaos:
    """Breaks processes, machines and the network of a quorum, one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random = cluster.random
        kinds = [self.kill, self.cut_power, self.cut_all_power, self.cut_way, self.cut_connection, self.resign]
        self.kinds = self.random.sample(kinds, self.random.randrange(1, len(kinds) + 1))

    def strike(self) -> None:
        self.random.choice(self.kinds)()
        self.cluster.run_for(self.random.choice((100, 300, 1_000, 3_000)))
        if self.random.random() < 0.6:
            self.mend()

    def mend(self) -> None:
        self.cluster.world.network.heal_all()
        for node in self.cluster.nodes:
            if not node.is_running:
                node.start()
        self.cluster.run_for(self.random.choice((100, 400, 2_000)))

    def _running(self) -> list[QuorumNode]:
        return [node for node in self.cluster.nodes if node.is_running]

    def _victim(self) -> QuorumNode | None:
        """The leader, in half of the cases."""
        leader, running = self.cluster.deciding, self._running()
        if leader is not None and self.random.random() < 0.5:
            return leader
        return self.random.choice(running) if running else None

    def kill(self) -> None:
        if (node := self._victim()) is not None:
            node.kill()

    def cut_power(self) -> None:
        if (node := self._victim()) is not None:
            node.cut_power()

    def cut_all_power(self) -> None:
        for node in self._running():
            node.cut_power()

    def cut_way(self) -> None:
        source, target = self.random.sample(self.cluster.nodes, 2)
        self.cluster.world.network.cut(source.machine.name, target.machine.name)

    def cut_connection(self) -> None:
        connections = self.cluster.world.network.connections
        if connections:
            connection = connections[self.random.choice(list(connections))]
            stream = self.random.choice((connection.to_server, connection.to_client))
            stream.cut(self.random.choice(list(End)), self.random.randrange(300))

    def resign(self) -> None:
        if (node := self.cluster.deciding) is not None and node.driver is not None:
            node.driver.resign()


def run(seed: int) -> Cluster:
    cluster = Cluster(seed, size=3 if seed % 4 else 5)
    with replayable(seed, cluster.world.trace):
        chaos = Chaos(cluster)
        for _ in range(12):
            chaos.strike()
        chaos.mend()
        cluster.check_all_follow()
    return cluster


@pytest.mark.parametrize("shard", range(2))
def test_whatever_fails_what_was_answered_stays_and_all_nodes_agree(shard: int) -> None:
    clusters = run_seeds(run, int(os.environ.get("SIM_SEEDS", "24")), shard=shard, shards=2)
    assert sum(cluster.oracle.epochs for cluster in clusters) > 3 * len(clusters)
    assert sum(cluster.oracle.answers for cluster in clusters) > 10 * len(clusters)


def test_a_seed_tells_the_same_story_twice() -> None:
    assert run(3).world.trace.hash() == run(3).world.trace.hash()


def test_a_driver_that_forgets_what_is_left_after_a_cut_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(driver: QuorumDriver, effect: Truncate) -> None:
        driver.log.truncate_to(effect.end_offset)
        driver.loader.truncate_to(effect.end_offset)

    monkeypatch.setitem(_CARRY_OUT, "Truncate", truncate)
    with pytest.raises(SimulationFailed, match=r"has another image|lacks Answer"):
        run_seeds(run, 20, shard=0, shards=1)


def test_a_disk_that_fails_ends_the_node() -> None:
    cluster = Cluster(1)
    leader = cluster.wait_for_leader(500)
    leader.machine.files.failing_syncs.add("__cluster_metadata-0")
    with pytest.raises(AssertionError, match=f"{leader.machine.name} failed: KafkaStorageError"):
        cluster.run_for(1_000)
