"""Real brokers in a simulated world, unchanged: `BrokerServer` in the environment of a simulated process."""

from collections.abc import Callable, Mapping

from barnabas.base.network import Address
from barnabas.broker.server import BrokerServer
from tests.simulation.world import Machine, Process, World

PORT = 9092
CLUSTER_ID = "simulated-cluster-0000"


class SimulatedBroker:
    """One machine with one broker on it, as often as it is started."""

    def __init__(self, world: World, node_id: int, properties: Mapping[str, str] = {}) -> None:
        self.world = world
        self.machine: Machine = world.machine(f"broker-{node_id}")
        self.address = Address(self.machine.name, PORT)
        self.is_ready = False
        self.server: BrokerServer
        self._properties = {
            "node.id": str(node_id),
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://:{PORT}",
            **properties,
        }

    @property
    def is_running(self) -> bool:
        return self.machine.process is not None

    @property
    def process(self) -> Process:
        assert self.machine.process is not None, f"{self.machine.name} does not run"
        return self.machine.process

    def start(self, on_crash: Callable[[], None] | None = None) -> None:
        """`on_crash` is called when the process dies of `Crash`, which a disk raises that was told to."""
        process = self.machine.start(on_crash)
        self.world.trace.tell(self.machine.name, "starts")
        server = self.server = BrokerServer(self._properties, process.environment, cluster_id=CLUSTER_ID)
        process.loop.call_soon(server.start, self._ready)

    def _ready(self) -> None:
        self.is_ready = True
        self.world.trace.tell(self.machine.name, "is ready")

    def stop(self, then: Callable[[], None] = lambda: None) -> None:
        """Stops cleanly."""
        self.world.trace.tell(self.machine.name, "is stopped")
        self.is_ready = False

        def ended(*_: object) -> None:
            assert self.server.ended.error is None, self.server.ended.error
            self.machine.exit()
            then()

        self.server.ended.when_done(ended)
        self.process.loop.call_soon(self.server.stop)

    def kill(self) -> None:
        self.is_ready = False
        self.machine.kill()

    def cut_power(self) -> None:
        self.is_ready = False
        self.machine.cut_power()

    def wait_until_ready(self, within_ms: float = 10_000) -> None:
        self.world.scheduler.run_until_true(
            lambda: self.is_ready, within_ms=within_ms, what=f"{self.machine.name} is ready"
        )
