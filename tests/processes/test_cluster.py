"""`barnabas start --brokers N` as users run it: several processes, one line when all are ready, and one signal."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.client.errors import Unreachable
from tests.barnabas.processes import TIMEOUT_S, broker, environment, failed_start, one_line

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/task"), reason="only Linux tells the children of another process"
)
READY = re.compile(r"barnabas is ready on (\S+) \(nodes 1-(\d+), data (.+), (\d+) ms\)\n")


class RunningCluster:
    def __init__(self, process: "subprocess.Popen[str]", addresses: list[Address], data: Path, log: "IO[str]") -> None:
        self.process = process
        self.addresses = addresses
        self.data = data
        self._log = log

    def pids(self) -> list[int]:
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def signal(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        status = self.process.wait(TIMEOUT_S)
        return status, self.logged()

    def logged(self) -> str:
        """Returns what all brokers wrote to stderr so far."""
        self._log.seek(0)
        return self._log.read()


@contextmanager
def cluster(*arguments: str) -> Iterator[RunningCluster]:
    """Starts a cluster. What it logs goes to a file: brokers would wait at a pipe that nobody reads."""
    with (
        tempfile.TemporaryFile("a+") as log,
        subprocess.Popen(
            [sys.executable, "-m", "barnabas", "start", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(),
        ) as process,
    ):
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            match = READY.fullmatch(line)
            assert match, f"{line!r} {log.seek(0) or log.read()}"
            pairs = [address.rpartition(":") for address in match[1].split(",")]
            addresses = [Address(host, int(port)) for host, _, port in pairs]
            assert len(addresses) == int(match[2])
            yield RunningCluster(process, addresses, Path(match[3]), log)
        finally:
            process.terminate()
            try:
                process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def cluster_id(address: Address) -> str | None:
    with Client([address]) as client:
        return client.metadata(()).cluster_id


def wait_until_gone(pids: list[int]) -> None:
    """Waits until these processes have ended. They are nobody's children whose end could be waited for."""
    deadline = time.monotonic() + TIMEOUT_S
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, "they still run"
        time.sleep(0.01)


def test_every_broker_serves_when_the_line_is_printed() -> None:
    with cluster("--brokers", "3", "--port", "0", "--ephemeral") as running:
        assert len(running.addresses) == 3
        assert len({cluster_id(address) for address in running.addresses}) == 1
        assert len(running.pids()) == 3
        status, err = running.signal(signal.SIGTERM)
        assert not running.data.exists()
    assert status == 0, err
    lines = err.splitlines()
    assert {line[:3] for line in lines} == {"1| ", "2| ", "3| "}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_cleanly(tmp_path: Path, number: int) -> None:
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(tmp_path)) as running:
        pids = running.pids()
        status, err = running.signal(number)
        wait_until_gone(pids)
    assert (status, "Traceback" in err) == (0, False), err
    assert all((tmp_path / str(node_id) / ".kafka_cleanshutdown").exists() for node_id in (1, 2, 3))


def test_a_broker_that_is_killed_comes_back_where_it_was(tmp_path: Path) -> None:
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(tmp_path)) as running:
        (first, *others) = running.pids()
        known = cluster_id(running.addresses[0])
        os.kill(first, signal.SIGKILL)
        wait_until_gone([first])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                assert {cluster_id(address) for address in running.addresses} == {known}
                break
            except Unreachable:
                assert time.monotonic() < deadline
        again = running.pids()
        assert set(others) < set(again)
        assert first not in again
        assert running.signal(signal.SIGTERM)[0] == 0


def test_brokers_stop_cleanly_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(tmp_path)) as running:
        pids = running.pids()
        running.process.kill()
        wait_until_gone(pids)
    assert all((tmp_path / str(node_id) / ".kafka_cleanshutdown").exists() for node_id in (1, 2, 3))


def test_a_cluster_is_the_same_after_a_restart(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with cluster("--brokers", "3", "--port", "0", "--data-dir", str(tmp_path)) as running:
            found.append((cluster_id(running.addresses[1]), (tmp_path / "cluster.properties").read_text()))
            running.signal(signal.SIGTERM)
    assert found[0] == found[1]


def test_the_supervisor_listens_nowhere() -> None:
    with cluster("--brokers", "3", "--port", "0", "--ephemeral") as running:
        listening = {
            row.split()[9] for row in Path("/proc/net/tcp").read_text().splitlines()[1:] if row.split()[3] == "0A"
        }
        links = [os.readlink(link) for link in Path(f"/proc/{running.process.pid}/fd").iterdir()]
        assert not {f"socket:[{inode}]" for inode in listening} & set(links)


# ---- refused


@pytest.mark.parametrize("which", ["client", "controller"])
def test_a_port_that_is_taken_is_one_line_that_names_it(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if which == "client":
            words = ("--port", str(port - 1), "--internal-port", "0")
        else:
            words = ("--port", "0", "--internal-port", str(port - 2))
        status, err = failed_start("--brokers", "3", "--data-dir", str(tmp_path / "data"), *words)
    assert status == 1
    assert re.search(r"cannot listen on 127\.0\.0\.1:\d+: address already in use", err)
    assert one_line(err)
    assert not (tmp_path / "data" / "cluster.properties").exists()  # nothing was begun


def test_the_data_of_a_single_broker_is_refused_with_the_command_that_moves_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker("--port", "0", "--data-dir", str(data)) as running:
        running.signal(signal.SIGTERM)
    status, err = failed_start("--brokers", "3", "--port", "0", "--data-dir", str(data))
    assert status == 1
    assert one_line(err)
    command = re.search("mv .*", err)
    assert command is not None
    subprocess.run(["sh", "-c", command[0]], check=True)
    assert (data / "1" / "meta.properties").exists()


def test_a_second_cluster_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(tmp_path)):
        status, err = failed_start("--brokers", "3", "--port", "0", "--data-dir", str(tmp_path))
    assert status == 1
    assert "is in use by another cluster" in err
    assert one_line(err)


def test_a_single_broker_does_not_begin_anew_beside_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.properties").write_text("")
    status, err = failed_start("--port", "0", "--data-dir", str(tmp_path))
    assert status == 1
    assert "--brokers" in err
    assert one_line(err)


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("--brokers", "3", "--controllers", "2"), 2, "two are worse than one"),
        (("--brokers", "2", "--controllers", "3"), 2, "there are only 2 brokers"),
        (("--controllers", "3"), 2, "are for --brokers of more than one"),
        (("--brokers", "0"), 2, "must be a whole number of at least 1"),
        (("--brokers", "3", "--port", "65534"), 2, "there are no 3 ports from there on"),
        (("--brokers", "3", "--port", "60000"), 2, "choose with --internal-port"),
        (("--brokers", "3", "--set", "controller.quorum.voters=1@h:1"), 1, "remove it"),
        (("--brokers", "3", "--set", "listeners=A://:1,B://:2"), 1, "one listener for clients"),
        (("--brokers", "3", "--port", "0", "--set", "num.partition=3"), 1, "did you mean num.partitions?"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: tuple[str, ...], status: int, complaint: str) -> None:
    found, err = failed_start("--ephemeral", "--log-level", "error", *words)
    assert found == status, err
    assert complaint in err
    assert one_line(err)
