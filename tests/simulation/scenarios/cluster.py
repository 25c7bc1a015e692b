"""A cluster of real brokers in a simulated world, formatted as `barnabas format` does it."""

from collections.abc import Mapping, Sequence

from barnabas.base.files import write_file
from barnabas.replication.metadata.batches import QuorumVoter
from barnabas.replication.metadata.image import empty_image
from barnabas.replication.metadata.snapshots import write_snapshot
from barnabas.storage.metadata_files import META_PROPERTIES, MetaProperties
from tests.simulation.scenarios.brokers import CLUSTER_ID, PORT, SimulatedBroker
from tests.simulation.world import World

CONTROLLER_PORT = 9093


def voters_for(brokers: int) -> list[int]:
    """Two voters are worse than one."""
    return [1, 2, 3] if brokers >= 3 else [1]


class SimulatedCluster:
    """Brokers on machines of their own; the first one or three of them are the controllers, too."""

    def __init__(
        self, world: World, brokers: int, properties: Mapping[str, str] = {}, *, voters: int | None = None
    ) -> None:
        self.world = world
        voter_ids = self.voter_ids = voters_for(brokers) if voters is None else list(range(1, voters + 1))
        self.brokers = [
            SimulatedBroker(world, node_id, node_properties(node_id, voter_ids) | dict(properties))
            for node_id in range(1, brokers + 1)
        ]
        directory_ids = self.directory_ids = {
            broker.node_id: world.random(broker.machine.name, "directory id").randbytes(16) for broker in self.brokers
        }
        quorum = [
            QuorumVoter(node_id, directory_ids[node_id], [("CONTROLLER", f"broker-{node_id}", CONTROLLER_PORT)])
            for node_id in voter_ids
        ]
        for broker in self.brokers:
            format_disk(broker, directory_ids[broker.node_id], quorum if broker.node_id in voter_ids else ())

    def __getitem__(self, node_id: int) -> SimulatedBroker:
        return self.brokers[node_id - 1]

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()

    def wait_until_ready(self, within_ms: float = 10_000) -> None:
        self.world.scheduler.run_until_true(
            lambda: all(broker.is_ready for broker in self.brokers), within_ms=within_ms, what="all brokers are ready"
        )

    @property
    def controller(self) -> SimulatedBroker | None:
        """The broker whose controller is active, if there is just one."""
        active = [broker for broker in self.brokers if broker.is_controller]
        return active[0] if len(active) == 1 else None


def node_properties(node_id: int, voter_ids: Sequence[int]) -> dict[str, str]:
    listeners, roles = f"PLAINTEXT://:{PORT}", "broker"
    if node_id in voter_ids:
        listeners += f",CONTROLLER://broker-{node_id}:{CONTROLLER_PORT}"
        roles = "broker,controller"
    return {
        "process.roles": roles,
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://broker-{node_id}:{PORT}",
        "controller.quorum.bootstrap.servers": ",".join(f"broker-{voter}:{CONTROLLER_PORT}" for voter in voter_ids),
    }


def format_disk(broker: SimulatedBroker, directory_id: bytes, voters: Sequence[QuorumVoter]) -> None:
    files = broker.machine.files
    files.makedirs("/data/__cluster_metadata-0")
    owner = MetaProperties(CLUSTER_ID, broker.node_id, directory_id)
    write_file(files, f"/data/{META_PROPERTIES}", owner.to_bytes(), sync=True)
    if voters:
        write_snapshot(files, "/data/__cluster_metadata-0", empty_image(CLUSTER_ID), voters, now_ms=0)
    files.sync_dir("/")
    files.sync_dir("/data")
    files.sync_dir("/data/__cluster_metadata-0")
