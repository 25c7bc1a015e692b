"""The three brokers of a run as processes, which are what the faults of the moment make of them."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.errors import Unreachable
from barnabas.protocol.errors import KafkaError
from tests.chaos.faults.effects import Effect
from tests.chaos.systems import ENVIRONMENT, System
from tests.chaos.world import BROKERS, World

READY_S = 180.0
STOPPING_S = 30.0
LOOK_AGAIN_S = 0.1


class Node:
    """A broker: a process, again and again, that writes to one log file."""

    def __init__(self, node_id: int, command: list[str], world: World) -> None:
        self.node_id = node_id
        self.log = world.folder / f"broker-{node_id}.log"
        self.starts = 0
        self._command = world.command(node_id, command)
        self._process: subprocess.Popen[bytes] | None = None
        self.stopping_since: float | None = None
        self.had_full_disk = False

    def start(self) -> None:
        assert not self.is_running
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, cwd=self.log.parent
            )
        self.starts += 1
        self.stopping_since = None
        self.had_full_disk = False

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        if self.is_running:
            assert self._process is not None
            os.kill(self._process.pid, number)
            if number is signal.SIGTERM and self.stopping_since is None:
                self.stopping_since = time.monotonic()

    def kill(self) -> None:
        """Kills the process and waits for its end."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def last_lines(self) -> str:
        return " / ".join(self.log.read_text(errors="replace").splitlines()[-3:])[-600:]


class Cluster:
    def __init__(self, system: System, world: World) -> None:
        self._world = world
        self.addresses = [Address(*_parts(world.addresses(node_id)[0])) for node_id in BROKERS]
        self.nodes = {node_id: Node(node_id, system.command(node_id), world) for node_id in BROKERS}
        self.effect = Effect()
        self.found: list[tuple[str, str]] = []
        """What is wrong with the processes themselves."""

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.addresses))

    def client(self, timeout_s: float = 2.0) -> Client:
        return Client(self.addresses, timeout_s)

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        self.wait_until(self._is_whole, READY_S, "all brokers are there")

    def _is_whole(self) -> bool:
        for node in self.nodes.values():
            assert node.is_running, f"broker {node.node_id} ended: {node.last_lines()}"
        with self.client() as client:
            return len(client.metadata(()).brokers) == len(BROKERS)

    def wait_until(self, is_true: Callable[[], bool], within_s: float, what: str) -> bool:
        """Waits for what a cluster says that goes on. Returns whether it came true in time."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                if is_true():
                    return True
            except (KafkaError, Unreachable, OSError):
                pass
            self.tend()
            time.sleep(LOOK_AGAIN_S)
        return False

    # ---- faults

    def become(self, effect: Effect) -> None:
        """Lets the processes, disks and links be what these faults make of them, and ends those that are over."""
        before, self.effect = self.effect, effect
        self._world.shape(effect.cuts, effect.slow)
        for node_id in sorted(effect.full - before.full):
            self._world.fill(node_id)
        for node_id in sorted(before.full - effect.full):
            self._world.free(node_id)
        for node_id, node in self.nodes.items():
            node.had_full_disk = node.had_full_disk or node_id in effect.full
            if node_id in effect.killed - before.killed:
                node.kill()
            if node_id in effect.paused - before.paused:
                node.signal(signal.SIGSTOP)
            if node_id in before.paused - effect.paused:
                node.signal(signal.SIGCONT)
            if node_id in effect.stopped - before.stopped:
                node.signal(signal.SIGTERM)
        self.tend()

    def tend(self) -> None:
        """Starts what has ended, unless a fault wants it down, or its disk is full."""
        for node_id, node in self.nodes.items():
            if node.is_running:
                self._hurry(node)
            elif node_id not in self.effect.down | self.effect.full:
                self._look_at_end(node)
                node.start()

    def _hurry(self, node: Node) -> None:
        """Kills a broker that has not stopped in time. Without the others it may wait for them for long."""
        since = node.stopping_since
        if since is not None and node.node_id not in self.effect.paused and time.monotonic() > since + STOPPING_S:
            node.kill()

    def _look_at_end(self, node: Node) -> None:
        code = node.exit_code
        if code in (0, -signal.SIGKILL) or node.had_full_disk:
            return
        if node.stopping_since is not None and code in (-signal.SIGTERM, 128 + signal.SIGTERM):
            return  # as a JVM says that it was asked to
        self.found.append(("broker-ended", f"broker {node.node_id} ended with {code}: {node.last_lines()}"))

    def stop(self) -> None:
        """Stops all brokers, together. Whoever does not stop is a finding."""
        for node in self.nodes.values():
            node.signal(signal.SIGTERM)
        deadline = time.monotonic() + 2 * STOPPING_S
        for node in self.nodes.values():
            while node.is_running and time.monotonic() < deadline:
                time.sleep(0.01)
            if node.is_running:
                self.found.append(("broker-does-not-stop", f"broker {node.node_id}: {node.last_lines()}"))
                node.kill()
            else:
                self._look_at_end(node)


def _parts(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
