"""A program that uses a broker: a process on a machine of its own, with links to brokers and a script."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.base.network import Address
from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.peer_client import PeerClient, PeerSettings
from barnabas.protocol.errors import ErrorCode
from tests.simulation.clients.script import Script, run_script
from tests.simulation.scenarios.oracle import Oracle
from tests.simulation.world import Process, World

REQUEST_TIMEOUT_MS = 5_000
BACKOFF_MS = 100
SETTINGS = PeerSettings(timeout_ms=REQUEST_TIMEOUT_MS)


class Failed(Exception):
    """A broker answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(ErrorCode(code).name)
        self.code = ErrorCode(code)


def check(code: int) -> None:
    if code:
        raise Failed(code)


class Place(NamedTuple):
    """Where clients live, whom they ask, and who hears of what they were told."""

    world: World
    broker: Address
    oracle: Oracle
    addresses: Sequence[Address] = ()
    """Of all brokers, for those who know a whole cluster."""


class SimulatedClient:
    """Subclasses say what it does in `script`. It may be killed, and start from the beginning."""

    def __init__(self, place: Place, name: str) -> None:
        self.world, self.broker, self.oracle, self.addresses = world, _, _, _ = place
        self.name = name
        self.machine = world.machine(name)
        self.random = world.random(name, "workload")
        self.is_stopping = False
        self.has_ended = False
        self.process: Process
        self._links: list[PeerClient] = []

    def start(self) -> None:
        self.process = self.machine.start()
        self.clock = self.process.loop
        self._links.clear()
        self._buffers = Buffers()
        self.has_ended = False
        self.prepare()
        self.clock.call_soon(run_script, self.script(), self._ended)

    def prepare(self) -> None:
        """What a process begins with."""

    def script(self) -> Script[None]:
        raise NotImplementedError

    def stop(self) -> None:
        """Asks the script to come to its end."""
        self.is_stopping = True

    def kill(self) -> None:
        self.machine.kill()

    def _ended(self) -> None:
        self.has_ended = True
        for link in self._links:
            link.close()

    def link(self) -> PeerClient:
        return self._kept_until_the_end(
            PeerClient(self.broker, self.process.environment, self._buffers, client_id=self.name, settings=SETTINGS)
        )

    def _kept_until_the_end(self, link: PeerClient) -> PeerClient:
        self._links.append(link)
        if self.has_ended:
            link.close()  # a script that reads in the background has not come to its end so far
        return link

    def sleep(self, delay_ms: float) -> Promise[None]:
        promise: Promise[None] = Promise()
        self.clock.call_later(delay_ms, promise.resolve, None)
        return promise

    def back_off(self) -> Promise[None]:
        return self.sleep(BACKOFF_MS * (0.5 + self.random.random()))

    def tell(self, what: str, *args: Any) -> None:
        self.world.trace.tell(self.name, what, *args)
