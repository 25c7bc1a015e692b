"""What goes wrong in a cluster, in bursts, and how it is mended: all of it, or a majority.

A fault chooses whom it hits when it happens, unless its plan says so; in half of the cases that is the controller.
"""

from collections.abc import Callable, Sequence
from random import Random

from barnabas.broker.server import NotRegistered
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.types import TopicPartition
from barnabas.replication.quorum.voters import VoterSet
from tests.simulation.cluster.faults import disks, network, rot, storage
from tests.simulation.cluster.faults.changes import min_insync_replicas, reassignment
from tests.simulation.cluster.faults.recreation import Recreator
from tests.simulation.cluster.oracle import ClusterOracle
from tests.simulation.cluster.plan import PlannedFault
from tests.simulation.cluster.replicas.watcher import ReplicaWatcher
from tests.simulation.scenarios.brokers import CLUSTER_ID, SimulatedBroker
from tests.simulation.scenarios.cluster import CONTROLLER_PORT, SimulatedCluster
from tests.simulation.scheduler import MS
from tests.simulation.world import World


class ClusterFaults:
    def __init__(self, cluster: SimulatedCluster, oracle: ClusterOracle, watcher: ReplicaWatcher) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.oracle = oracle
        self.claims = oracle.claims
        self.watcher = watcher
        self.happened: dict[str, int] = {}
        self.is_over = False
        self.min_insync_replicas = 1
        self.replicas_min = 1
        """How many replicas a partition keeps at least."""
        self._removes_voters = False
        self.recreator: Recreator | None = None
        self.flipped: list[rot.Flipped] = []
        """The bits that are wrong on the disks."""
        self.broken: list[SimulatedBroker] = []
        """Those that stay broken when the others are mended."""
        self._ask: Callable[[object, type], None] = lambda request, response_class: None
        self.hits = ""
        """Whom the fault hits that happens now, if its plan says so."""

    def expect(self, faults: Sequence[PlannedFault], ask: Callable[[object, type], None]) -> None:
        """Lets the faults of a plan happen, each with randomness of its own. `ask` sends a request to some broker."""
        self._ask = ask
        for fault in faults:
            random = self.world.random(f"fault {fault.number}", fault.kind)
            self.world.scheduler.at(fault.at_ms * MS, random, self._happen, fault, random)

    def _happen(self, fault: PlannedFault, random: Random) -> None:
        if not self.is_over:
            self.happened[fault.kind] = self.happened.get(fault.kind, 0) + 1
            self.oracle.disturbances += 1
            self.hits = fault.hits
            HOW[fault.kind](self, random)

    def later(self, delay_ms: float, random: Random, callback: Callable[[], None]) -> None:
        scheduler = self.world.scheduler
        scheduler.at(scheduler.now_us + int(delay_ms * MS), random, callback)

    def tell(self, who: str, what: str, *args: object) -> None:
        self.world.trace.tell(who, what, *args)

    # ---- whom

    @property
    def running(self) -> list[SimulatedBroker]:
        return [broker for broker in self.cluster.brokers if broker.is_running]

    def victim(self, random: Random) -> SimulatedBroker | None:
        """Returns whom a fault hits; None if there is nobody who could be."""
        if self.hits:
            return self._named(self.hits, random)
        controller = self.cluster.controller
        if controller is not None and random.random() < 0.5:
            return controller
        return random.choice(self.running) if self.running else None

    def _named(self, who: str, random: Random) -> SimulatedBroker | None:
        role, _, partition = who.partition(" of ")
        if partition:
            leaders, others = self._replicas_of(partition)
            candidates = leaders if role == "leader" else others
        elif role == "controller":
            candidates = [self.cluster.controller] if self.cluster.controller else []
        else:
            candidates = [self.cluster[int(role.removeprefix("broker "))]]
        candidates = [broker for broker in candidates if broker.is_running]
        return random.choice(candidates) if candidates else None

    def _replicas_of(self, name: str) -> tuple[list[SimulatedBroker], list[SimulatedBroker]]:
        """Returns who leads a partition now, and its other replicas."""
        topic, _, index = name.rpartition("-")
        described = self.claims.known(TopicPartition(topic, int(index)))
        replicas = [self.cluster[node_id] for node_id in described.replicas]
        leaders = [broker for broker in replicas if broker.node_id == described.leader]
        return leaders, [broker for broker in replicas if broker not in leaders]

    # ---- processes

    def start(self, broker: SimulatedBroker) -> None:
        """Starts a broker, and listens to it. One that ends by itself is started again."""
        if broker.is_running or broker in self.broken:
            return
        self.oracle.disturbances += 1
        storage.repair(self, broker)
        broker.on_failure = lambda error: self._failed(broker, error)
        broker.start()
        self.watcher.watch(broker)
        broker.process.loop.call_soon(self.oracle.watch, broker)

    def _failed(self, broker: SimulatedBroker, error: Exception) -> None:
        has_cause = isinstance(error, NotRegistered) or storage.may_end_brokers(self.happened)
        assert has_cause, f"{broker.machine.name} ended: {error!r}"
        random = self.world.random(f"{broker.machine.name} life {broker.machine.lives}", "restart")
        self.start_later(broker, random)

    def start_later(self, broker: SimulatedBroker, random: Random) -> None:
        delay_ms = 0 if self.is_over else random.choice((0, 500, 5_000))
        self.later(delay_ms, random, lambda: self.start(broker))

    def kill(self, random: Random) -> None:
        if (broker := self.victim(random)) is not None:
            broker.kill()
            self.start_later(broker, random)

    def cut_power(self, random: Random) -> None:
        if (broker := self.victim(random)) is not None:
            self._cut_power(broker)
            self.start_later(broker, random)

    def cut_power_of_all(self, random: Random) -> None:
        for broker in self.running:
            self._cut_power(broker)
            self.start_later(broker, random)

    def _cut_power(self, broker: SimulatedBroker) -> None:
        self.claims.power_was_cut(broker.node_id)
        broker.cut_power()

    def wipe(self, random: Random) -> None:
        """Takes all partitions from a broker's disk, unless that is the last copy of something that has several. What
        the broker knows of the metadata stays."""
        broker = self.victim(random)
        if broker is not None and not self.claims.would_lose(broker.node_id):
            self._wipe(broker)
            disks.wipe_partitions(broker)
            self.start_later(broker, random)

    def wipe_all(self, random: Random) -> None:
        """Takes the whole disk, and what the node has voted with it."""
        broker = self.victim(random)
        if broker is None or self.claims.would_lose(broker.node_id):
            return
        if broker.node_id in self.cluster.voter_ids and self._removes_voters:
            return  # the removal may come late: without both, nobody could be a majority
        if disks.may_be_wiped(self.cluster, broker):
            self._wipe(broker)
            disks.wipe_all(self.cluster, broker)
            self.start_later(broker, random)

    def _wipe(self, broker: SimulatedBroker) -> None:
        broker.kill()
        storage.repair(self, broker)
        self.claims.disk_was_wiped(broker.node_id)
        self.watcher.disk_was_wiped(broker.node_id)
        self.tell(broker.machine.name, "has its disk wiped")

    def stop(self, random: Random) -> None:
        broker = self.victim(random)
        if broker is None or not broker.is_ready or broker.process.loop.is_paused:
            return

        def stopped() -> None:
            self.start_later(broker, random)

        broker.stop(stopped)

    def restart_all(self, random: Random) -> None:
        """Stops one broker after the other cleanly; the next when the one before is ready again."""
        self._restart(random.sample(self.cluster.brokers, len(self.cluster.brokers)), random)

    def _restart(self, brokers: list[SimulatedBroker], random: Random) -> None:
        broker, *others = brokers

        def stopped() -> None:
            self.start_later(broker, random)
            go_on()

        def go_on() -> None:
            """If it does not come back, the others are not stopped either."""
            if broker.is_ready:
                self._restart(others, random)
            elif not self.is_over:
                self.later(100, random, go_on)

        if broker.is_ready and not broker.process.loop.is_paused and not self.is_over and others:
            broker.stop(stopped)

    def pause(self, random: Random) -> None:
        if (broker := self.victim(random)) is not None:
            loop = broker.process.loop
            self.tell(broker.machine.name, "is paused")
            loop.pause()
            self.later(random.choice((100, 1_500, 6_000, 14_000)), random, lambda: self._resume(broker))

    def _resume(self, broker: SimulatedBroker) -> None:
        if broker.is_running and broker.process.loop.is_paused and not self.is_over:
            self.oracle.disturbances += 1
            self.tell(broker.machine.name, "goes on")
            broker.process.loop.resume()

    def jump_clock(self, random: Random) -> None:
        broker = random.choice(self.cluster.brokers)
        broker.machine.set_clock(random.choice((-3_600_000, -700, 0, 900, 60_000)))

    def heal_network(self) -> None:
        if not self.is_over:
            self.oracle.disturbances += 1
            self.world.network.heal_all()

    # ---- the quorum

    def resign(self, _random: Random) -> None:
        controller = self.cluster.controller
        if controller is not None and not controller.process.loop.is_paused:
            self.tell(controller.machine.name, "resigns")
            controller.process.loop.call_soon(controller.server.node.quorum.driver.resign)

    def elect(self, random: Random) -> None:
        """Lets the first replicas lead again, of all partitions."""
        self._ask(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=3_000), ElectLeadersResponse)

    # ---- topics

    def reassign(self, random: Random) -> None:
        """Lets the replicas of some partition move."""
        partition = random.choice(list(self.claims.by_partition))
        request = reassignment(
            partition,
            [broker.node_id for broker in self.cluster.brokers],
            at_least=self.replicas_min,
            random=random,
        )
        self.tell("faults", "{} is to be on {}", partition, request.topics[0].partitions[0].replicas)
        self._ask(request, AlterPartitionReassignmentsResponse)

    def configure(self, random: Random) -> None:
        """Lets some topic ask for fewer or for more replicas in sync."""
        topic = random.choice(list(self.claims.by_partition)).topic
        count = random.randint(1, self.min_insync_replicas)
        self.tell("faults", "{} is to have {} in sync", topic, count)
        self._ask(min_insync_replicas(topic, count), IncrementalAlterConfigsResponse)

    def recreate(self, random: Random) -> None:
        """Lets a topic be deleted, and one of the same name be created, soon or later."""
        assert self.recreator is not None, "nobody would create it again"
        self.recreator.wish(random.choice((0, 50, 3_000)))

    # ---- voters

    def _voters(self) -> VoterSet | None:
        controller = self.cluster.controller
        return None if controller is None else controller.server.node.quorum.driver.core.replica.voters

    def remove_voter(self, random: Random) -> None:
        voters = self._voters()
        if voters is not None and len(voters) > 1 and disks.are_whole(self.cluster, voters):
            self._removes_voters = True
            key = random.choice(list(voters)).key
            self.tell("faults", "voter {} is to be removed", key.node_id)
            request = RemoveRaftVoterRequest(
                cluster_id=CLUSTER_ID, voter_id=key.node_id, voter_directory_id=key.directory_id
            )
            self._ask(request, RemoveRaftVoterResponse)

    def add_voter(self, random: Random) -> None:
        voters = self._voters()
        missing = [
            node_id
            for node_id in self.cluster.voter_ids
            if voters is not None and all(node_id != voter.key.node_id for voter in voters)
        ]
        if missing:
            node_id = random.choice(missing)
            self.tell("faults", "voter {} is to be added", node_id)
            request = AddRaftVoterRequest(
                cluster_id=CLUSTER_ID,
                timeout_ms=3_000,
                voter_id=node_id,
                voter_directory_id=self.cluster.directory_ids[node_id],
                listeners=[Listener(name="CONTROLLER", host=f"broker-{node_id}", port=CONTROLLER_PORT)],
            )
            self._ask(request, AddRaftVoterResponse)

    # ---- the end

    def mend(self, random: Random, *, all_of_it: bool) -> list[SimulatedBroker]:
        """Mends everything, or leaves some brokers broken without whom a majority is left; returns those that are
        well."""
        self.is_over = True
        self.oracle.disturbances += 1
        self.tell("faults", "are over")
        self.world.network.heal_all()
        rot.repair(self.flipped)
        broken = self.broken = [] if all_of_it else self._left_broken(random)
        for broker in self.cluster.brokers:
            if broker not in broken:
                broker.machine.set_clock(0)
                storage.repair(self, broker)
                if broker.is_running and broker.process.loop.is_paused:
                    broker.process.loop.resume()
                self.start(broker)
        for broker in broken:
            self._leave_broken(broker, random)
        return [broker for broker in self.cluster.brokers if broker not in broken]

    def _left_broken(self, random: Random) -> list[SimulatedBroker]:
        brokers = list(self.cluster.brokers)
        random.shuffle(brokers)
        broken: list[SimulatedBroker] = []
        for broker in brokers[: random.randint(1, max(1, len(brokers) - 1))]:
            rest = [each.node_id for each in brokers if each is not broker and each not in broken]
            if rest and self._majority_is_left(rest):
                broken.append(broker)
        return broken

    def _majority_is_left(self, node_ids: list[int]) -> bool:
        """Returns whether these hold, with the disks that vote, a majority of every set of voters that some node holds
        to be in force."""
        sets = [voters for broker in self.cluster.brokers for voters in disks.voters_known_to(broker)]
        left = [(node_id, self.cluster.directory_ids[node_id]) for node_id in node_ids]
        return all(sum(key in left for key in voters.keys) >= voters.majority for voters in sets if voters)

    def _leave_broken(self, broker: SimulatedBroker, random: Random) -> None:
        """Dead, silent, or alive and cut off: such a one would disturb the others if it could."""
        network, name = self.world.network, broker.machine.name
        how = random.choice(("dead", "off", "paused", "deaf", "mute", "isolated"))
        self.tell(name, "stays {}", how)
        if how in ("dead", "off"):
            if broker.is_running:
                broker.kill() if how == "dead" else self._cut_power(broker)
            return
        if how == "paused" and broker.is_running:
            broker.process.loop.pause()
        for other in self.cluster.brokers:
            if other is not broker:
                if how in ("deaf", "isolated"):
                    network.cut(other.machine.name, name)
                if how in ("mute", "isolated"):
                    network.cut(name, other.machine.name)


HOW: dict[str, Callable[[ClusterFaults, Random], None]] = {
    "kill": ClusterFaults.kill,
    "power cut": ClusterFaults.cut_power,
    "power cut of all": ClusterFaults.cut_power_of_all,
    "pause": ClusterFaults.pause,
    "isolate": network.isolate,
    "cut one way": network.cut_one_way,
    "cut both ways": network.cut_both_ways,
    "split": network.split,
    "ring": network.make_a_ring,
    "heal network": network.heal,
    "connection cut": network.cut_connection,
    "stall": network.stall,
    "refuse connects": network.refuse_connects,
    "slow connects": network.slow_connects,
    "slow node": network.slow_node,
    "clean stop": ClusterFaults.stop,
    "restart all": ClusterFaults.restart_all,
    "full disk": storage.fill,
    "failing disk": storage.fail,
    "slow disk": storage.slow_down,
    "wipe": ClusterFaults.wipe,
    "wipe all": ClusterFaults.wipe_all,
    "reassign": ClusterFaults.reassign,
    "configure": ClusterFaults.configure,
    "recreate": ClusterFaults.recreate,
    "elect": ClusterFaults.elect,
    "resign": ClusterFaults.resign,
    "remove voter": ClusterFaults.remove_voter,
    "add voter": ClusterFaults.add_voter,
    "clock jump": ClusterFaults.jump_clock,
    "rot": rot.rot,
}
