"""Machines and the ways between them. A way has a direction: one may be cut while the way back is open."""

from collections.abc import Callable
from random import Random
from typing import Protocol

from tests.simulation.scheduler import MS, Scheduler


class Held(Protocol):
    """A stream that goes on when its path heals."""

    def arrive(self) -> None: ...

    def acknowledge(self) -> None: ...


class Path:
    """From one machine to another."""

    def __init__(self, latency_ms: float, jitter_ms: float) -> None:
        self.latency_ms = latency_ms
        self.jitter_ms = jitter_ms
        self.is_cut = False
        self.refuses = False
        """Whether what stands between the machines refuses connections, as a firewall does."""
        self.connect_ms = 0.0
        """How much longer a new connection takes."""
        self.slower_ms = 0.0
        """How much longer everything takes."""
        self._healed_us = 0
        self.streams: dict[Held, None] = {}
        """Those whose bytes take it."""
        self.acknowledged: dict[Held, None] = {}
        """Those whose acknowledgements take it."""

    def latency_us(self, random: Random) -> int:
        return int((self.latency_ms + self.slower_ms + random.random() * self.jitter_ms) * MS)

    def cut(self) -> None:
        self.is_cut = True

    @property
    def is_in_trouble(self) -> bool:
        return self.is_cut or self.refuses or self.connect_ms > 0 or self.slower_ms > 0

    def was_well_since(self, when_us: int) -> bool:
        return not self.is_in_trouble and (self._healed_us <= when_us or not self._healed_us)

    def heal(self, scheduler: Scheduler, random: Random) -> None:
        """Everything that was held back is sent again, each stream at its own time."""
        if not self.is_in_trouble:
            return
        self.is_cut = self.refuses = False
        self.connect_ms = self.slower_ms = 0.0
        self._healed_us = scheduler.now_us
        for stream in self.streams:
            scheduler.at(scheduler.now_us + random.randrange(200 * MS), random, stream.arrive)
        for stream in self.acknowledged:
            scheduler.at(scheduler.now_us + random.randrange(200 * MS), random, stream.acknowledge)


class Host:
    """A machine: it has an address, and it has power or not."""

    def __init__(self, name: str, ip: str = "10.0.0.0") -> None:
        self.name = name
        self.ip = ip
        """As servers see it."""
        self.is_up = True
        self._when_up: list[Callable[[], None]] = []
        self._last_port = 50_000

    def free_port(self) -> int:
        self._last_port += 1
        return self._last_port

    def when_up(self, callback: Callable[[], None]) -> None:
        self._when_up.append(callback)

    def power_off(self) -> None:
        self.is_up = False

    def power_on(self) -> None:
        self.is_up = True
        waiting, self._when_up = self._when_up, []
        for callback in waiting:
            callback()
