"""What goes wrong. A kind of fault is a method; a new one is a row in `FAULTS` of settings.py as well."""

from typing import TYPE_CHECKING

from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.replication.quorum.voters import ReplicaKey, VoterSet
from tests.simulation.quorum.node import CLUSTER_ID, Node, address_of

if TYPE_CHECKING:
    from tests.simulation.quorum.cluster import Cluster


class Faults:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._events = cluster.events
        self._random = cluster.random

    def schedule(self) -> None:
        """Spreads the faults over the run, in bursts: the second often falls into the recovery from the first."""
        settings = self._cluster.settings
        at_ms = 100.0
        for _ in range(settings.faults_count if settings.faults else 0):
            at_ms += self._random.expovariate(settings.faults_count / settings.duration_ms)
            if self._random.random() < 0.3:
                at_ms += self._random.random() * 10
            kind = self._random.choice(settings.faults)
            self._events.after(int(at_ms), self._happen, kind)

    def _happen(self, kind: str) -> None:
        if self._events.now_ms < self._cluster.settings.duration_ms:
            getattr(self, kind)()

    def _any_node(self) -> Node | None:
        """Returns a node that is up. Leaders are more often hit than others."""
        leaders = self._cluster.leaders()
        if leaders and self._random.random() < 0.4:
            return self._random.choice(leaders)
        up = [node for node in self._cluster.nodes.values() if node.is_up]
        return self._random.choice(up) if up else None

    def _some_ms(self) -> int:
        return int(self._random.random() * 1.5 * self._cluster.settings.config.fetch_timeout_ms)

    # ---- processes and disks

    def kill(self) -> None:
        self._end(self._any_node(), power=False)

    def cut_power(self) -> None:
        self._end(self._any_node(), power=True)

    def cut_power_of_all(self) -> None:
        for node in self._cluster.nodes.values():
            if node.is_up:
                self._end(node, power=True)

    def _end(self, node: Node | None, *, power: bool) -> None:
        if node is not None:
            node.kill(power=power)
            self._events.after(self._random.choice((0, 5, self._some_ms())), self._start, node)

    def _start(self, node: Node) -> None:
        if not node.is_up and self._events.now_ms < self._cluster.settings.duration_ms:
            node.start()

    def pause(self) -> None:
        if (node := self._any_node()) is not None:
            end_ms = self._cluster.settings.duration_ms
            node.paused_until_ms = min(end_ms, self._events.now_ms + self._some_ms())
            self._events.tell("{} is paused until {}", node.node_id, node.paused_until_ms)

    def wipe(self) -> None:
        """Replaces a disk. A static voter has no other identity than its id: it must not lose its disk."""
        node = self._any_node()
        if node is None or (
            self._cluster.settings.kraft_version == 0 and node.node_id <= self._cluster.settings.voters
        ):
            return
        if not self.majority_is_left([other for other in self._cluster.nodes.values() if other is not node]):
            return
        node.kill(power=True)
        node.wipe()
        self._events.after(self._some_ms(), self._start, node)

    def hit_new_leaders(self) -> None:
        for node in self._cluster.leaders():
            self._hit(node, node.life)

    def leader_is_new(self, node: Node) -> None:
        """Hits every second leader before its first records are everywhere."""
        if "hit_new_leaders" in self._cluster.settings.faults and self._random.random() < 0.5:
            self._events.after(int(self._random.random() * 120), self._hit, node, node.life)

    def hit_voters(self) -> None:
        self.cut_power()

    def vote_was_sent(self, node: Node) -> None:
        """Kills some who have just asked for votes or answered, and starts them again at once."""
        if "hit_voters" in self._cluster.settings.faults and self._random.random() < 0.2:
            self._events.after(int(self._random.random() * 10), self._restart, node, node.life)

    def _restart(self, node: Node, life: int) -> None:
        if life == node.life and node.is_up and self._events.now_ms < self._cluster.settings.duration_ms:
            node.kill(power=self._random.random() < 0.5)
            node.start()

    def _hit(self, node: Node, life: int) -> None:
        if life == node.life and node.is_up and self._events.now_ms < self._cluster.settings.duration_ms:
            if self._random.random() < 0.5:
                self._end(node, power=self._random.random() < 0.5)
            else:
                self._isolate(node)

    def resign(self) -> None:
        for node in self._cluster.leaders():
            self._events.tell("{} is asked to resign", node.node_id)
            node.deliver(node.resign)

    def snapshot(self) -> None:
        node = self._any_node()
        if node is not None and node.paused_until_ms <= self._events.now_ms:
            node.take_snapshot(delete=self._random.random() < 0.7)

    # ---- the network

    def isolate(self) -> None:
        if (node := self._any_node()) is not None:
            self._isolate(node)

    def _isolate(self, node: Node) -> None:
        self._events.tell("{} is isolated", node.node_id)
        self._cut_off(node, incoming=True, outgoing=True)

    def cut_one_way(self) -> None:
        if (node := self._any_node()) is not None:
            incoming = self._random.random() < 0.5
            self._events.tell("{} {}", node.node_id, "hears nobody" if incoming else "is heard by nobody")
            self._cut_off(node, incoming=incoming, outgoing=not incoming)

    def _cut_off(self, node: Node, *, incoming: bool, outgoing: bool) -> None:
        self._cluster.network.cut_off(node.node_id, incoming=incoming, outgoing=outgoing)
        self._events.after(self._some_ms(), self._rejoin, node)

    def _rejoin(self, node: Node) -> None:
        if self._events.now_ms < self._cluster.settings.duration_ms:
            self._cluster.network.rejoin(node.node_id)

    def heal_network(self) -> None:
        self._cluster.network.heal()

    def reset_connection(self) -> None:
        ids = list(self._cluster.nodes)
        self._cluster.network.reset(self._random.choice(ids), self._random.choice(ids))

    # ---- voters

    def add_voter(self) -> None:
        self.add(self._random.choice(list(self._cluster.nodes.values())))

    def add(self, node: Node) -> None:
        name, host, port = address_of(node.node_id)
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=1_000,
            voter_id=node.node_id,
            voter_directory_id=node.key.directory_id,
            listeners=[Listener(name=name, host=host, port=port)],
        )
        for leader in self._cluster.leaders():
            self._cluster.ask(leader, request)

    def remove_voter(self) -> None:
        for leader in self._cluster.leaders():
            self.remove(leader, self._random.choice(leader.core.replica.voters.keys))

    def remove(self, leader: Node, key: ReplicaKey) -> None:
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=key.node_id, voter_directory_id=key.directory_id
        )
        self._cluster.ask(leader, request)

    # ---- what is left at the end

    def _voter_sets(self) -> list[VoterSet]:
        """Returns every set that some node holds to be in force."""
        sets = [node.core.replica.voters for node in self._cluster.nodes.values() if node.life]
        return [voters for voters in sets if len(voters)]

    def majority_is_left(self, nodes: list[Node]) -> bool:
        """Returns whether these nodes hold a majority of every set of voters, on the disks that voted."""
        return all(
            sum(voters.key_of(node.key) is not None for node in nodes) >= voters.majority
            for voters in self._voter_sets()
        )

    def left_broken(self) -> list[int]:
        """Returns a node that may stay broken, in one of three runs."""
        if self._random.random() > 1 / 3 or not self._cluster.settings.faults_count:
            return []
        nodes = list(self._cluster.nodes.values())
        node = self._random.choice(nodes)
        rest = [other for other in nodes if other is not node]
        return [node.node_id] if self.majority_is_left(rest) and len(nodes) > 1 else []

    def leave_broken(self, node: Node) -> None:
        """Dead, or alive and deaf: that one would disturb the others if it could."""
        if node.is_up and self._random.random() < 0.7:
            self._events.tell("{} stays deaf", node.node_id)
            self._cluster.network.cut_off(node.node_id, incoming=True, outgoing=False)
        elif node.is_up:
            node.kill(power=False)
