"""Simulated machines, and on them processes with an `Environment` of which every part obeys the scheduler.

A `Machine` has a disk and a wall clock, which survive; a `Process` is one life on it. `kill` ends a life and leaves the
page cache; `cut_power` takes what was not synced, and the machine is off until it is started again.
"""

from collections.abc import Callable
from random import Random

from barnabas.base.environment import Environment
from tests.inline_compactor import InlineCompactor
from tests.simulation.files import SimulatedFiles
from tests.simulation.loop import SimulatedLoop, WallClock
from tests.simulation.net.network import LOCAL, Latency, ProcessNetwork, SimulatedNetwork
from tests.simulation.scheduler import Scheduler, random_of
from tests.simulation.trace import Trace
from tests.simulation.workers import SimulatedWorkers


class World:
    def __init__(self, seed: int, latency: Latency = LOCAL) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.trace = self.scheduler.trace
        self.network = SimulatedNetwork(self.scheduler, latency)
        self.machines: dict[str, Machine] = {}

    def random(self, who: str, use: str) -> Random:
        return random_of(self.seed, who, use)

    def machine(self, name: str) -> "Machine":
        """A new one."""
        assert name not in self.machines, f"{name} exists already"
        machine = self.machines[name] = Machine(self, name)
        return machine


class Machine:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.host = world.network.host(name)
        self.wall_clock = WallClock(world.scheduler)
        self.files = SimulatedFiles(world.random(name, "disk"), now_ms=self.wall_clock.now_ms)
        self.process: Process | None = None
        self.lives = 0

    def start(self, on_crash: Callable[[], None] | None = None) -> "Process":
        """A new process. `on_crash` is called when it dies of `Crash`; without it the simulation ends."""
        assert self.process is None, f"{self.name} is running"
        if not self.host.is_up:
            self.host.power_on()
        self.lives += 1
        self.process = Process(self, on_crash)
        return self.process

    def kill(self) -> None:
        self._end("was killed", is_power_cut=False)
        self.files.kill()

    def cut_power(self) -> None:
        self._end("lost its power", is_power_cut=True)
        self.host.power_off()
        self.files.cut_power()

    def exit(self) -> None:
        """The process ended by itself."""
        self._end("ended", is_power_cut=False)
        self.files.kill()

    def set_clock(self, offset_ms: int) -> None:
        self.world.trace.tell(self.name, "has its clock set to {:+d} ms", offset_ms)
        self.wall_clock.offset_ms = offset_ms

    def _end(self, how: str, *, is_power_cut: bool) -> None:
        process, self.process = self.process, None
        self.world.trace.tell(self.name, how)
        if process is not None:
            process.end(is_power_cut=is_power_cut)


class Process:
    def __init__(self, machine: Machine, on_crash: Callable[[], None] | None) -> None:
        world, self.name = machine.world, machine.name
        life = f"{machine.name} life {machine.lives}"
        self.random = world.random(life, "order")
        self.loop = SimulatedLoop(world.scheduler, self.random, machine.wall_clock, on_crash)
        self.network = ProcessNetwork(world.network, self.loop, machine.host)
        self.workers = SimulatedWorkers(self.loop, world.random(life, "workers"))
        self.compaction_workers = SimulatedWorkers(
            self.loop, world.random(life, "compaction"), duration_ms_max=50, threads=1
        )
        self.report = TracedReport(world.trace, machine.name)
        self.environment = Environment(
            clock=self.loop,
            network=self.network,
            files=machine.files,
            workers=self.workers,
            random=world.random(life, "entropy"),
            report=self.report,
            compactor=InlineCompactor(machine.files, self.compaction_workers),
        )

    def end(self, *, is_power_cut: bool) -> None:
        self.loop.die()
        self.network.die(self.random, is_power_cut=is_power_cut)

    @property
    def is_quiet(self) -> bool:
        """Nothing but timers is left to do."""
        return self.loop.is_quiet and not self.workers.unfinished and not self.compaction_workers.unfinished


class TracedReport:
    """A broker's log is part of the story."""

    def __init__(self, trace: Trace, name: str) -> None:
        self._trace = trace
        self._name = name
        self.lines: list[tuple[str, str]] = []

    def info(self, text: str, **fields: object) -> None:
        self._tell("info", text)

    def warning(self, text: str, **fields: object) -> None:
        self._tell("warning", text)

    def error(self, text: str, **fields: object) -> None:
        self._tell("error", text)
        assert not text.startswith("a bug:"), f"{self._name}: {text}\n{fields.get('traceback')}"

    def _tell(self, level: str, text: str) -> None:
        self.lines.append((level, text))
        self._trace.tell(self._name, "{}: {}", level, text)
