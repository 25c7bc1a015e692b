"""What the image runs, as a process of this machine: it starts, is healthy, stops, and says what it leaves out."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.container_health import listening_address, words_of_entry_point
from barnabas.options import Failure
from tests.barnabas.processes import READY, TIMEOUT_S
from tests.container.compose import APACHE_KAFKA, FILES, on_ports

QUIET = {name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "BARNABAS_", "CLUSTER_"))}


def free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def run(module: str, environment: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", module, *words],
        env=QUIET | environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@contextmanager
def started(environment: dict[str, str], *words: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "barnabas.container", *words]
    with subprocess.Popen(
        command, env=QUIET | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert READY.fullmatch(line), f"{line!r} {process.communicate(timeout=TIMEOUT_S)[1]}"
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def stopped(process: "subprocess.Popen[str]") -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, err


@pytest.mark.parametrize("name", FILES)
def test_a_broker_out_of_somebodys_compose_file(name: str, tmp_path: Path) -> None:
    external, internal = free_ports(2)
    environment = on_ports(FILES[name], external, internal) | {"KAFKA_LOG_DIRS": str(tmp_path)}
    with started(environment) as process:
        for port, host in ((external, "localhost"), (internal, "broker")):  # each listener advertises its own
            with Client([Address("127.0.0.1", port)]) as client:
                cluster = client.metadata(())
            assert cluster.brokers == {1: Address(host, port)}
        if cluster_id := environment.get("CLUSTER_ID"):
            assert cluster.cluster_id == cluster_id
        healthy = run("barnabas.container_health", environment)
        assert healthy.returncode == 0, healthy.stdout + healthy.stderr
        code, err = stopped(process)
    assert code == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert "Traceback" not in err
    if name == "confluent":
        assert "WARN  KAFKA_ZOOKEEPER_CONNECT has no effect" in err
        assert "there is no JVM here that could use KAFKA_HEAP_OPTS, KAFKA_JMX_HOSTNAME, KAFKA_JMX_PORT" in err
    else:
        assert "WARN" not in err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"KAFKA_CONTROLLER_QUORUM_VOTERS": "2@b:29093,3@c:29093"},
            "controller.quorum.voters: it must be a list with this node",
        ),
        ({"KAFKA_PROCESS_ROLES": "broker"}, "controller.quorum.voters"),
        (
            {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:SSL"},
            "SSL",
        ),
        (
            {"KAFKA_AUTHORIZER_CLASS_NAME": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"},
            "ACLs are not supported so far",
        ),
        ({"KAFKA_NUM_PARTITIONS": "three"}, "num.partitions"),
        ({"CLUSTER_ID": "two words"}, "must be one word"),
    ],
)
def test_what_cannot_be_had_keeps_it_from_starting(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    done = run("barnabas.container", APACHE_KAFKA | {"KAFKA_LOG_DIRS": str(tmp_path)} | changes)
    assert done.returncode in (1, 2)
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_warnings_are_json_where_the_log_is(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    environment = {"KAFKA_LOG_DIRS": str(tmp_path), "KAFKA_NUM_PARTITONS": "3", "KAFKA_OPTS": "-server"}
    with started(environment, "--port", str(port), "--log-format", "json") as process:
        _, err = stopped(process)
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["variable"] for line in lines if "variable" in line] == ["KAFKA_NUM_PARTITONS"]
    assert [line["variables"] for line in lines if "variables" in line] == [["KAFKA_OPTS"]]


def test_another_command_runs_instead() -> None:
    done = run("barnabas.container", {}, "topics", "list", "--bootstrap-servers", f"127.0.0.1:{free_ports(1)[0]}")
    assert done.returncode == 1
    assert "cannot reach a broker" in done.stderr
    assert "usage: barnabas start" in run("barnabas.container", {}, "--help").stdout


def test_a_stop_while_it_starts_is_heeded(tmp_path: Path) -> None:
    """The kernel spares the first process of a container every signal that it has no handler for."""
    code = (
        "import os, signal, sys, barnabas.container as container\n"
        "container.end_on_sigterm()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "signal.pause()"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=TIMEOUT_S, check=False)
    assert done.returncode == 143


# ---- health


def test_it_is_not_healthy_where_nobody_listens() -> None:
    (port,) = free_ports(1)
    done = run("barnabas.container_health", {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"})
    assert done.returncode == 1
    assert "no broker: cannot reach" in done.stdout


def test_it_is_not_healthy_when_the_broker_is_stuck(tmp_path: Path) -> None:
    """A stopped process still has its port open, and the kernel takes connections for it."""
    (port,) = free_ports(1)
    environment = {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}", "KAFKA_LOG_DIRS": str(tmp_path)}
    with started(environment) as process:
        began = time.monotonic()
        assert run("barnabas.container_health", environment).returncode == 0
        healthy_s = time.monotonic() - began
        process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        done = run("barnabas.container_health", environment)
        stuck_s = time.monotonic() - began
        process.send_signal(signal.SIGCONT)
        assert done.returncode == 1
        assert stuck_s < 4.5 + 2 * healthy_s, "Docker gives it five seconds"
        assert run("barnabas.container_health", environment).returncode == 0


def test_a_stranger_on_the_port_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        stranger.settimeout(TIMEOUT_S)
        check = subprocess.Popen(
            [sys.executable, "-m", "barnabas.container_health"],
            env=QUIET | {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2):  # it asks again
            connection, _ = stranger.accept()
            connection.recv(1_000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()
        said, _ = check.communicate(timeout=TIMEOUT_S)
    assert check.returncode == 1
    assert "no broker: " in said


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--set", "listeners=PLAINTEXT://:9092"], Address("127.0.0.1", 9092)),
        (["--set", "listeners=PLAINTEXT://0.0.0.0:1"], Address("127.0.0.1", 1)),
        (["--set", "listeners=PLAINTEXT://[::]:1"], Address("::1", 1)),
        (["--set", "listeners=PLAINTEXT://broker:1"], Address("broker", 1)),
        (["--set", "listeners=CONTROLLER://:1,A://:2,B://:3"], Address("127.0.0.1", 2)),  # no client asks a controller
        (
            ["--set", "listeners=QUORUM://:1,A://:2", "--set", "controller.listener.names=QUORUM"],
            Address("127.0.0.1", 2),
        ),
        (["--set", "listeners=PLAINTEXT://:1", "--port", "2"], Address("127.0.0.1", 2)),
    ],
)
def test_where_a_broker_listens(options: list[str], expected: Address) -> None:
    assert listening_address(options) == expected


@pytest.mark.parametrize("options", [["--port", "0"], ["--set", "listeners=CONTROLLER://:1"]])
def test_a_port_that_nobody_knows(options: list[str]) -> None:
    with pytest.raises(Failure, match="nobody knows"):
        listening_address(options)


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        (b"python\0-m\0barnabas.container\0--port\x009\0", ["--port", "9"]),
        (b"python\0-m\0barnabas.container\0", []),
        (b"/sbin/docker-init\0--\0python\0-m\0barnabas.container\0-p9\0", ["-p9"]),  # docker run --init
        (b"/sbin/init\0", []),  # docker run --pid host
        (b"", []),
    ],
)
def test_the_options_that_the_container_was_started_with(command_line: bytes, expected: list[str]) -> None:
    assert words_of_entry_point(command_line) == expected
