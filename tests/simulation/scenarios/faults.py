"""What goes wrong in a run: a plan that is drawn from the seed before it begins, so that it can be read, and shortened.

Each kind of fault is a row of a table; a fault says what it does when it happens, and later undoes what it did.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from tests.simulation.clients.client import SimulatedClient
from tests.simulation.net.streams import End
from tests.simulation.scenarios.brokers import SimulatedBroker
from tests.simulation.scenarios.oracle import Oracle
from tests.simulation.scheduler import MS
from tests.simulation.world import World


class Fault(NamedTuple):
    at_ms: int
    kind: str


class Target(NamedTuple):
    """What faults may happen to."""

    world: World
    broker: SimulatedBroker
    clients: Sequence[SimulatedClient]
    oracle: Oracle


class Faults:
    """Lets the faults of a plan happen, each with randomness of its own."""

    def __init__(self, target: Target, plan: Sequence[Fault]) -> None:
        self.target = target
        self.happened: dict[str, int] = {}
        self._is_over = False
        world = target.world
        for number, fault in enumerate(plan):
            random = world.random(f"fault {number}", fault.kind)
            world.scheduler.at(fault.at_ms * MS, random, self._happen, fault.kind, random)

    def _happen(self, kind: str, random: Random) -> None:
        if self._is_over or not self.target.broker.is_running:
            return
        self.happened[kind] = self.happened.get(kind, 0) + 1
        KINDS[kind](self, random)

    def end(self) -> None:
        """Mends what is broken; from now on nothing goes wrong any more."""
        self._is_over = True
        self.target.broker.machine.files.crash_after(-1)
        self._tell("faults", "are over")
        self.target.world.network.heal_all()
        self.target.broker.machine.set_clock(0)

    def later(self, delay_ms: float, random: Random, callback: Callable[[], None]) -> None:
        scheduler = self.target.world.scheduler
        scheduler.at(scheduler.now_us + int(delay_ms * MS), random, callback)

    def _tell(self, who: str, what: str, *args: object) -> None:
        self.target.world.trace.tell(who, what, *args)

    # ---- connections

    def cut_connection(self, random: Random) -> None:
        connections = self.target.world.network.connections
        if connections:
            connection = connections[random.choice(list(connections))]
            stream = random.choice((connection.to_server, connection.to_client))
            end, after_bytes = random.choice(list(End)), random.choice((0, 1, 3, 50, random.randrange(2_000)))
            self._tell("network", "cuts {} by {} after {} bytes", repr(connection), end.value, after_bytes)
            stream.cut(end, after_bytes)

    def stall(self, random: Random) -> None:
        connections = self.target.world.network.connections
        if connections:
            connection = connections[random.choice(list(connections))]
            stream = random.choice((connection.to_server, connection.to_client))
            duration_ms = random.choice((50, 1_000, 8_000))
            self._tell("network", "stalls {} for {} ms", repr(connection), duration_ms)
            stream.stall(duration_ms)

    def cut_path(self, random: Random) -> None:
        network, broker = self.target.world.network, self.target.broker.machine.name
        client = random.choice(self.target.clients).name
        source, target = random.choice(((client, broker), (broker, client)))
        network.cut(source, target)
        self.later(random.choice((200, 3_000, 15_000)), random, lambda: network.heal(source, target))

    # ---- processes

    def kill(self, random: Random) -> None:
        self._down(random, self.target.broker.kill)

    def cut_power(self, random: Random) -> None:
        self._down(random, self._cut_power)

    def crash(self, random: Random) -> None:
        """In the middle of one of the next changes to the disk."""
        self.target.broker.machine.files.crash_after(random.randrange(40))

    def crashed(self) -> None:
        """The disk said so."""
        random = self.target.world.random(f"crash at {self.target.world.scheduler.now_us}", "how")
        self._down(random, random.choice((self.target.broker.kill, self._cut_power)))

    def _cut_power(self) -> None:
        self.target.oracle.power_was_cut()
        self.target.broker.cut_power()

    def _down(self, random: Random, how: Callable[[], None]) -> None:
        how()
        self.later(random.choice((0, 500, 5_000)), random, self.start)

    def start(self) -> None:
        if not self.target.broker.is_running:
            self.target.broker.start(self.crashed)

    def stop(self, random: Random) -> None:
        def stopped() -> None:
            self.later(random.choice((0, 500, 5_000)), random, self.start)

        if self.target.broker.is_ready:
            self.target.broker.stop(stopped)

    def pause(self, random: Random) -> None:
        loop = self.target.broker.process.loop
        self._tell(self.target.broker.machine.name, "is paused")
        loop.pause()
        self.later(random.choice((100, 2_000, 12_000)), random, loop.resume)

    def jump_clock(self, random: Random) -> None:
        self.target.broker.machine.set_clock(random.choice((-3_600_000, -700, 0, 900, 60_000)))

    def kill_client(self, random: Random) -> None:
        client = random.choice(self.target.clients)
        if client.machine.process is not None:
            client.kill()
            self.later(random.choice((0, 2_000, 20_000)), random, client.start)


KINDS: dict[str, Callable[[Faults, Random], None]] = {
    "connection cut": Faults.cut_connection,
    "stall": Faults.stall,
    "path cut": Faults.cut_path,
    "kill": Faults.kill,
    "power cut": Faults.cut_power,
    "crash": Faults.crash,
    "clean stop": Faults.stop,
    "pause": Faults.pause,
    "clock jump": Faults.jump_clock,
    "client killed": Faults.kill_client,
}


def draw_plan(random: Random, kinds: Sequence[str], *, count: int, between_ms: tuple[int, int]) -> list[Fault]:
    """Faults come in bursts, so that recovery itself is hit."""
    faults: list[Fault] = []
    while len(faults) < count:
        at_ms = random.randrange(*between_ms)
        for _ in range(random.choice((1, 1, 3, 6))):
            faults.append(Fault(at_ms, random.choice(kinds)))
            at_ms += random.choice((0, 10, 300, 2_000))
    return sorted(faults[:count])
