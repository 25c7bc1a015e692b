"""Real brokers in a simulated world, unchanged: `BrokerServer` in the environment of a simulated process."""

from collections.abc import Callable, Mapping
from functools import partial

from barnabas.base.network import Address
from barnabas.base.promise import Promise
from barnabas.broker.server import BrokerServer
from barnabas.replication.controller.quorum_controller import QuorumController
from tests.simulation.world import Machine, Process, World

PORT = 9092
CLUSTER_ID = "simulated-cluster-0000"


class SimulatedBroker:
    """One machine with one broker on it, as often as it is started."""

    def __init__(self, world: World, node_id: int, properties: Mapping[str, str] = {}) -> None:
        self.world = world
        self.node_id = node_id
        self.machine: Machine = world.machine(f"broker-{node_id}")
        self.address = Address(self.machine.name, PORT)
        self.is_ready = False
        self.server: BrokerServer
        self.on_failure: Callable[[Exception], None] | None = None
        """Called when the broker has ended by itself; without it the simulation ends."""
        self._on_stopped: Callable[[], None] = lambda: None
        self.properties = {
            "node.id": str(node_id),
            "log.dirs": "/data",
            "listeners": f"PLAINTEXT://:{PORT}",
            **properties,
        }

    @property
    def is_running(self) -> bool:
        return self.machine.process is not None

    @property
    def is_controller(self) -> bool:
        """Whether its controller is the active one, as far as it knows."""
        return self.is_running and self._quorum is not None and self._quorum.is_active

    @property
    def _quorum(self) -> QuorumController | None:
        node = getattr(self.server, "node", None)
        return None if node is None else node.quorum

    @property
    def process(self) -> Process:
        assert self.machine.process is not None, f"{self.machine.name} does not run"
        return self.machine.process

    def start(self, on_crash: Callable[[], None] | None = None) -> None:
        """`on_crash` is called when the process dies of `Crash`, which a disk raises that was told to."""
        process = self.machine.start(on_crash)
        self.world.trace.tell(self.machine.name, "starts")
        server = self.server = BrokerServer(self.properties, process.environment, cluster_id=CLUSTER_ID)
        server.ended.when_done(self._ended)
        process.loop.call_soon(server.start, self._ready)

    def _ready(self) -> None:
        self.is_ready = True
        self.world.trace.tell(self.machine.name, "is ready")

    def stop(self, then: Callable[[], None] = lambda: None) -> None:
        """Stops cleanly."""
        self.world.trace.tell(self.machine.name, "is stopped")
        self.is_ready = False
        self._on_stopped = then
        self.process.loop.call_soon(self.server.stop)

    def _ended(self, ended: Promise[None]) -> None:
        """The process ends when the turn of its loop is over, as `BrokerProcess` does."""
        self.is_ready = False
        if ended.error is not None:
            self.world.trace.tell(self.machine.name, "ended: {}", repr(ended.error))
        self.process.loop.stop(partial(self._exit, ended.error))

    def _exit(self, error: Exception | None) -> None:
        assert error is None or self.on_failure is not None, f"{self.machine.name} ended: {error!r}"
        self.machine.exit()
        if error is None or self.on_failure is None:
            return self._on_stopped()
        self.on_failure(error)

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
