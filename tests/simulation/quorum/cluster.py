"""A quorum of simulated nodes, its clients, and what is demanded of it when all that was broken is mended."""

from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.replication.quorum.states import Follower
from barnabas.replication.quorum.voters import ReplicaKey, VoterNode, VoterSet
from tests.simulation.quorum.events import Events
from tests.simulation.quorum.faults import Faults
from tests.simulation.quorum.network import Network
from tests.simulation.quorum.node import Node, address_of
from tests.simulation.quorum.oracle import Oracle, check
from tests.simulation.quorum.settings import Settings

STEP_MS = 20


class Cluster:
    def __init__(self, seed: int, settings: Settings) -> None:
        self.settings = settings
        self.events = Events(seed)
        self.random = self.events.random
        self.oracle = Oracle(self)
        self.network = Network(self)
        self.network.latency_ms_max = settings.latency_ms_max
        self.network.slow_share = settings.slow_share
        self.network.slow_ms_max = settings.config.fetch_timeout_ms
        self.nodes = {node_id: Node(self, node_id) for node_id in range(1, settings.voters + settings.observers + 1)}
        self.faults = Faults(self)
        self.voter_changes = 0
        self.has_quiet_clients = False
        self.healthy: list[Node] = []
        """Those who are to agree at the end."""
        self._next_value = 1
        self._initial = VoterSet([self._voter(node) for node in list(self.nodes.values())[: settings.voters]])
        # All of them, because all may vote one day: a node that lost its disk would ask only itself.
        self.bootstrap = tuple(VoterNode(ReplicaKey(-node_id), (address_of(node_id),)) for node_id in self.nodes)

    # ---- what nodes are configured with

    @staticmethod
    def directory_id(node_id: int, disk: int) -> bytes:
        return bytes((*[0] * 12, 1, node_id, 0, disk))

    def _voter(self, node: Node) -> VoterNode:
        """A static voter is known by its id alone."""
        key = node.key if self.settings.kraft_version else ReplicaKey(node.node_id)
        return VoterNode(key, (address_of(node.node_id),))

    def configured_voters(self, node: Node) -> tuple[VoterSet, int]:
        """Returns the voters of the bootstrap snapshot, which only those have that were formatted as voters."""
        is_initial = any(voter.key.matches(node.key) for voter in self._initial)
        if self.settings.kraft_version == 0 or is_initial:
            return self._initial, self.settings.kraft_version
        return VoterSet([]), 1

    def sync_ms(self) -> int:
        return int(self.random.random() * (self.settings.sync_ms_max + 1))

    # ---- clients

    def leaders(self) -> list[Node]:
        """Those who believe that they lead."""
        return [node for node in self.nodes.values() if node.is_up and node.core.is_leader]

    def _append(self) -> None:
        for node in self.leaders():
            if node.paused_until_ms <= self.events.now_ms:
                count = self.random.choice((1, 1, 3))
                values = tuple(range(self._next_value, self._next_value + count))
                self._next_value += count
                node.append(values)
        if not self.has_quiet_clients:
            self.events.after(int(self.random.random() * 2 * self.settings.append_interval_ms), self._append)

    def ask(self, node: Node, request: Any) -> None:
        """Sends a request as an administrator would."""
        node.deliver(node.receive_request, (None, request), request)

    def admin_answered(self, request: Any, response: Any) -> None:
        self.events.tell("{} is answered with {}", type(request).__name__, ErrorCode(response.error_code).name)
        self.voter_changes += response.error_code == ErrorCode.NONE

    # ---- a run

    def run(self) -> None:
        for node in self.nodes.values():
            self.events.after(int(self.random.random() * 20), node.start)
        self.events.after(100, self._append)
        self.faults.schedule()
        self.events.run_until(self.settings.duration_ms)
        self.heal()
        self.check_liveness()

    def heal(self) -> None:
        """Mends everything, or everything that a majority needs: the rest may stay broken (L8)."""
        self.has_quiet_clients = True
        broken = self.faults.left_broken()
        self.events.tell("all is mended but {}", sorted(broken))
        self.network.heal()
        self.network.slow_share = 0.0
        for node in self.nodes.values():
            if node.node_id in broken:
                self.faults.leave_broken(node)
            elif not node.is_up:
                node.start()
        self.healthy = [node for node in self.nodes.values() if node.node_id not in broken]

    # ---- liveness

    def check_liveness(self) -> None:
        """L1: one leader, whom all follow, and whose records are committed everywhere. L7: it stays."""
        if not self.faults.majority_is_left(self.healthy):
            return  # a majority was wiped: only safety was promised
        config = self.settings.config
        within_ms = 1_000 + 8 * (config.fetch_timeout_ms + config.election_timeout_ms)
        self.events.run_until(self.events.now_ms + config.response_timeout_ms)  # changes of voters end
        check(self._steps_until_one_leads(within_ms), "L1 one leader in", within_ms, "ms")
        epoch = self._leader().core.epoch
        end_offset = self._leader().core.replica.log.end_offset
        within_ms += end_offset * 3 * (self.settings.latency_ms_max + self.settings.sync_ms_max)  # batch by batch
        check(self._steps_until_all_have(end_offset, within_ms), "L1 committed everywhere in", within_ms, "ms")
        self.events.run_until(self.events.now_ms + config.check_quorum_ms)
        epochs = [node.core.epoch for node in self.healthy]
        check(max(epochs) == epoch, "L7 the leader stays", epoch, epochs)

    def _leader(self) -> Node:
        return max(self.leaders(), key=lambda node: node.core.epoch)

    def _steps_until_one_leads(self, within_ms: int) -> bool:
        end_ms = self.events.now_ms + within_ms
        while self.events.now_ms < end_ms:
            self.events.run_until(self.events.now_ms + STEP_MS)
            if self._all_follow_one():
                return True
        return False

    def _all_follow_one(self) -> bool:
        leaders = [node for node in self.leaders() if node in self.healthy]
        if len(leaders) != 1 or not leaders[0].core.replica.is_voter:
            return False  # one that was removed leads until that is committed
        epoch, leader_id = leaders[0].core.epoch, leaders[0].node_id
        states = [node.core.replica.state for node in self.healthy if node is not leaders[0]]
        return all(
            isinstance(state, Follower) and state.has_fetched and (state.epoch, state.leader_id) == (epoch, leader_id)
            for state in states
        )

    def _steps_until_all_have(self, end_offset: int, within_ms: int) -> bool:
        end_ms = self.events.now_ms + within_ms
        while self.events.now_ms < end_ms:
            if all(node.core.high_watermark >= end_offset for node in self.healthy):
                return True
            self.events.run_until(self.events.now_ms + STEP_MS)
        return False
