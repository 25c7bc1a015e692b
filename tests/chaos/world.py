"""Where the brokers of a run are: a network and a small disk for each of them.

In namespaces each broker has a machine of its own as far as the network goes, 10.77.0.1 to 10.77.0.3, on one bridge
with the clients at 10.77.0.10, and a file system in memory that can be filled. Without namespaces all are on loopback:
there processes can be killed, stopped and paused, and nothing else.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

CLIENTS = 0
BROKERS = (1, 2, 3)
DISK_BYTES = 256 << 20
SLOW = ("tbf", "rate", "512kbit", "burst", "8kb", "latency", "500ms")
PAGE_BYTES = 4096
_BALLAST = "ballast"


class Cut(NamedTuple):
    """Nothing of what `source` sends arrives at `target`. Connections hang, or are reset."""

    source: int
    target: int
    is_reset: bool = False


class Slow(NamedTuple):
    """A machine sends, or hears, no more than 64 kB/s, half a second late."""

    machine: int
    is_sending: bool


class World(Protocol):
    folder: Path

    def __init__(self) -> None: ...
    def has_links(self) -> bool: ...  # that can be cut and slowed down, and disks that can be filled
    def addresses(self, node_id: int) -> tuple[str, str]: ...  # for clients, for controllers
    def disk(self, node_id: int) -> Path: ...
    def command(self, node_id: int, command: list[str]) -> list[str]: ...  # as it runs on that machine
    def shape(self, cuts: Iterable[Cut], slow: Iterable[Slow]) -> None: ...  # the links, all of them anew
    def fill(self, node_id: int) -> None: ...
    def free(self, node_id: int) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...  # what `close` does, in the middle of a run


class Namespaces:
    """The run has entered namespaces of its own. Nothing has to be cleaned up: all of it goes with the run."""

    def __init__(self) -> None:
        self._rules: dict[int, list[str]] = {}
        self._slow: set[Slow] = set()
        run("mount", "-t", "tmpfs", "none", "/run")
        self.folder = Path("/run/chaos")
        self.folder.mkdir()
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "link", "set", "bridge", "up")
        run("ip", "address", "add", f"{host(CLIENTS)}/24", "dev", "bridge")
        for node_id in BROKERS:
            self._add_machine(node_id)

    def _add_machine(self, node_id: int) -> None:
        name = f"machine-{node_id}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"to-{node_id}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"to-{node_id}", "master", "bridge", "up")
        run("ip", "-n", name, "address", "add", f"{host(node_id)}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        self.disk(node_id).mkdir()
        run("mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(self.disk(node_id)))

    def has_links(self) -> bool:
        return True

    def addresses(self, node_id: int) -> tuple[str, str]:
        return f"{host(node_id)}:9092", f"{host(node_id)}:9093"

    def disk(self, node_id: int) -> Path:
        return self.folder / f"disk-{node_id}"

    def command(self, node_id: int, command: list[str]) -> list[str]:
        if node_id == CLIENTS:
            return command
        return ["nsenter", f"--net=/run/netns/machine-{node_id}", "--", *command]

    def shape(self, cuts: Iterable[Cut], slow: Iterable[Slow]) -> None:
        cuts = sorted(set(cuts))
        for machine in (CLIENTS, *BROKERS):
            rules = [_rule(cut) for cut in cuts if cut.target == machine]
            if rules != self._rules.get(machine, []):
                self._rules[machine] = rules
                self._set_rules(machine, rules)
        wanted = set(slow)
        for each in self._slow - wanted:
            run(*self._tc(each, "del"), "root")
        for each in wanted - self._slow:
            run(*self._tc(each, "add"), "root", *SLOW)
        self._slow = wanted

    def _set_rules(self, machine: int, rules: list[str]) -> None:
        text = "\n".join(
            ("*filter", ":INPUT ACCEPT [0:0]", ":FORWARD ACCEPT [0:0]", ":OUTPUT ACCEPT [0:0]", *rules, "COMMIT", "")
        )
        run(*self.command(machine, ["iptables-restore"]), given=text)

    def _tc(self, slow: Slow, action: str) -> list[str]:
        if slow.is_sending:
            return self.command(slow.machine, ["tc", "qdisc", action, "dev", "eth0"])
        return ["tc", "qdisc", action, "dev", f"to-{slow.machine}"]

    def fill(self, node_id: int) -> None:
        """Takes all that is free, while the broker takes some, too."""
        end, size = 0, DISK_BYTES
        with (self.disk(node_id) / _BALLAST).open("wb") as file:
            while size >= PAGE_BYTES:
                try:
                    os.posix_fallocate(file.fileno(), end, size)
                    end += size
                except OSError:
                    size //= 2

    def free(self, node_id: int) -> None:
        (self.disk(node_id) / _BALLAST).unlink()

    def close(self) -> None:
        """Does nothing: the kernel does it."""

    abandon = close


class Loopback:
    """All on this machine's loopback device, with files in a temporary folder."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="barnabas-chaos-"))
        self._ports = free_ports(2 * len(BROKERS))
        for node_id in BROKERS:
            self.disk(node_id).mkdir()

    def has_links(self) -> bool:
        return False

    def addresses(self, node_id: int) -> tuple[str, str]:
        client, controller = self._ports[2 * node_id - 2 : 2 * node_id]
        return f"127.0.0.1:{client}", f"127.0.0.1:{controller}"

    def disk(self, node_id: int) -> Path:
        return self.folder / f"disk-{node_id}"

    def command(self, node_id: int, command: list[str]) -> list[str]:
        """Lets the process end with this one, where the system has a word for that."""
        return ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else command

    def shape(self, cuts: Iterable[Cut], slow: Iterable[Slow]) -> None:
        assert not [*cuts, *slow]

    def fill(self, node_id: int) -> None:
        raise AssertionError("the disk is everybody's")

    free = fill

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def abandon(self) -> None:
        """Ends all that this process has started, and itself. A shell that is none of them removes the files."""
        subprocess.Popen(["sh", "-c", 'sleep 1; rm -rf "$0"', str(self.folder)], start_new_session=True)
        os.killpg(0, signal.SIGKILL)


def host(machine: int) -> str:
    return f"10.77.0.{machine or 10}"


def _rule(cut: Cut) -> str:
    how = "-p tcp -j REJECT --reject-with tcp-reset" if cut.is_reset else "-j DROP"
    return f"-A INPUT -s {host(cut.source)}/32 {how}"


def run(*command: str, given: str = "") -> None:
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
