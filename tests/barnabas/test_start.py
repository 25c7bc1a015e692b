"""`barnabas start` as a real process: it says when it is ready, stops cleanly, and explains why it cannot start."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas.base.network import Address
from barnabas.client.client import Client
from barnabas.commands.start import with_address, with_advertised_port
from barnabas.protocol.frame import encode_request
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.barnabas.processes import READY, broker, environment, failed_start, one_line, run
from tests.broker.wire import RawClient, good, produce_request


@pytest.mark.parametrize(
    ("properties", "host", "port", "expected"),
    [
        ({}, None, 0, "PLAINTEXT://127.0.0.1:0"),
        ({}, "0.0.0.0", None, "PLAINTEXT://0.0.0.0:9092"),
        ({}, "::1", 1, "PLAINTEXT://[::1]:1"),
        ({"listeners": "PLAINTEXT://:9092"}, None, 1, "PLAINTEXT://:1"),
        (  # the controller's listener is not the clients'
            {"listeners": "CONTROLLER://:9093,PLAINTEXT://:9092", "controller.listener.names": "CONTROLLER"},
            None,
            1,
            "CONTROLLER://:9093,PLAINTEXT://:1",
        ),
        ({"listeners": "CONTROLLER://:2,A://h:1"}, None, 3, "CONTROLLER://:2,A://h:3"),  # its name by default
        ({"listeners": "A://h:1,B://h:2"}, None, 3, "A://h:3,B://h:2"),
    ],
)
def test_host_and_port_change_the_first_listener(
    properties: dict[str, str], host: str | None, port: int | None, expected: str
) -> None:
    assert with_address(properties, host, port) == expected


@pytest.mark.parametrize(
    ("advertised", "port", "expected"),
    [
        (
            "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            1,
            "PLAINTEXT://localhost:1,CONTROLLER://localhost:9093",
        ),
        ("plaintext://my.host:9092", 1, "plaintext://my.host:1"),
        ("PLAINTEXT://my.host:80", 1, "PLAINTEXT://my.host:80"),  # a proxy's port is not ours
        ("PLAINTEXT://localhost:9092,OTHER://localhost:9092", 0, "OTHER://localhost:9092"),
        ("PLAINTEXT://localhost:9092", 0, ""),  # nobody knows it yet: clients are told what they dialled
    ],
)
def test_an_advertised_port_follows_the_port_that_it_repeats(advertised: str, port: int, expected: str) -> None:
    properties = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": advertised}
    assert with_advertised_port(properties, port) == expected


def test_one_line_says_that_it_is_ready() -> None:
    with broker("--port", "0", "--ephemeral") as running:
        assert running.host == "127.0.0.1"
        assert running.port > 0
        assert running.node_id == 1
        assert 0 < running.start_up_ms < 10_000
        with socket.create_connection((running.host, running.port)):
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: int) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)) as running:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
        assert run("produce", "orders", stdin=b"hello\n", env=env).returncode == 0
        status, err = running.signal(number)
    assert status == 0
    assert "Traceback" not in err
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux changes the limits of another process")
def test_many_logs_are_written_and_stopped_cleanly_with_few_descriptors(tmp_path: Path) -> None:
    partitions = range(200)
    with broker("--port", "0", "--data-dir", str(tmp_path), "--set", "barnabas.max.open.files=30") as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (60, 60))
        assert run("topics", "create", "many", "--partitions", "200", "-b", running.bootstrap_servers).returncode == 0
        client = RawClient(running.port)
        response = client.call(produce_request("many", {partition: good() for partition in partitions}), 9)
        assert {told.error_code for told in response.responses[0].partition_responses} == {0}
        client.close()
        code, err = running.signal(signal.SIGTERM)
    assert (code, "a bug" in err) == (0, False), err
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.skipif(not os.path.exists("/proc/self/limits"), reason="only Linux tells the limits of another process")
def test_a_broker_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = f"ulimit -Sn 256; exec {sys.executable} -m barnabas start --port 0 --data-dir {tmp_path}"
    with subprocess.Popen(["sh", "-c", command], env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("barnabas is ready")
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        process.terminate()
    assert re.search(r"Max open files +(\d+)", limits)[1] == str(hard)  # type: ignore[index]


def test_a_new_cluster_gets_the_id_that_was_asked_for_and_keeps_it(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--data-dir", str(tmp_path))
    for asked in ("4L6g3nShT-eMCtK--X86sw", "another"):
        with broker(*arguments, "--cluster-id", asked) as running:
            with Client([Address(running.host, running.port)]) as client:
                assert client.metadata(()).cluster_id == "4L6g3nShT-eMCtK--X86sw"
            _, err = running.signal(signal.SIGTERM)
        assert ("this is cluster 4L6g3nShT-eMCtK--X86sw already" in err) == (asked == "another")


@pytest.mark.parametrize("text", ["", " ", "two words", "line\n"])
def test_an_id_of_a_cluster_is_one_word(text: str) -> None:
    status, err = failed_start("--cluster-id", text)
    assert status == 2
    assert "must be one word" in err


def wait_until_refused(host: str, port: int) -> None:
    """Waits until nobody listens there."""
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, port), timeout=30).close()
        except ConnectionRefusedError:
            return
        assert time.monotonic() < deadline, "it still listens"
        time.sleep(0.01)


def test_a_second_ctrl_c_does_not_wait_for_clients() -> None:
    """A client that never reads its answers holds a clean stop up; whoever is in a hurry need not wait."""
    with (
        broker("--port", "0", "--ephemeral", "--set", "socket.send.buffer.bytes=8192") as running,
        socket.socket() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)  # small, so that the answers soon fit nowhere
        client.connect((running.host, running.port))
        client.settimeout(1)
        request = bytes(encode_request(MetadataRequest(topics=None), 12, 1, "slow reader"))
        with pytest.raises(TimeoutError):
            client.sendall(request * 1_000_000)
        running.process.send_signal(signal.SIGINT)
        wait_until_refused(running.host, running.port)  # the signal has arrived: two at once would count as one
        assert running.process.poll() is None
        assert running.signal(signal.SIGINT)[0] == 130
        assert not Path(running.data).exists()


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        with broker("--port", "0", "--data-dir", str(tmp_path)) as running:
            env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
            assert run("produce", "orders", stdin=b"hello\n", env=env).returncode == 0
            running.signal(signal.SIGTERM)
    with broker("--port", "0", "--data-dir", str(tmp_path)) as running:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
        assert run("consume", "orders", env=env).stdout == b"hello\nhello\n"


def test_ephemeral_data_goes_away() -> None:
    with broker("--port", "0", "--ephemeral") as running:
        assert os.path.isdir(running.data)
        running.signal(signal.SIGTERM)
        assert not os.path.exists(running.data)


def test_data_is_in_the_current_directory_by_default(tmp_path: Path) -> None:
    with broker("--port", "0", cwd=str(tmp_path)) as running:
        assert running.data == "./data"
        assert (tmp_path / "data" / "meta.properties").exists()


def test_a_properties_file_is_read_and_options_win_over_it(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=5\nlisteners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path}/a\nnum.partitions=4\n")
    with broker("--config", str(config), "--port", "0", "--set", "num.partitions=2") as running:
        assert (running.node_id, running.data) == (5, f"{tmp_path}/a")
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
        run("produce", "orders", stdin=b"hello\n", env=env)
        (topic,) = json.loads(run("topics", "list", "--json", env=env).stdout)
        assert topic["num_partitions"] == 2


@pytest.mark.parametrize(
    ("lines", "options", "expected"),
    [
        (None, (), "0"),  # as in the file that Kafka ships
        (None, ("--set", "group.initial.rebalance.delay.ms=7"), "7"),
        ("node.id=1\n", (), "3000"),  # a file says all that it wants to say
    ],
)
def test_the_first_consumer_waits_for_others_only_where_somebody_says_so(
    tmp_path: Path, lines: str | None, options: tuple[str, ...], expected: str
) -> None:
    if lines is not None:
        (tmp_path / "server.properties").write_text(lines)
        options = ("--config", str(tmp_path / "server.properties"), *options)
    with broker("--port", "0", "--data-dir", str(tmp_path / "data"), *options) as running:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
        described = run("configs", "describe", "--broker", "1", "--all", "--json", env=env).stdout
        values = {config["name"]: config["value"] for config in json.loads(described)}
        assert values["group.initial.rebalance.delay.ms"] == expected


def test_the_log_is_json_lines_if_asked_for() -> None:
    with broker("--port", "0", "--ephemeral", "--log-format", "json") as running:
        env = environment(BARNABAS_BOOTSTRAP_SERVERS=running.bootstrap_servers)
        run("topics", "create", "orders", "--partitions", "3", env=env)
        _, err = running.signal(signal.SIGTERM)
    lines = [json.loads(line) for line in err.splitlines()]
    assert all({"time", "level", "text"} <= line.keys() for line in lines)
    assert any("orders" in line["text"] for line in lines)


def test_a_taken_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, err = failed_start("--ephemeral", "--port", str(taken.getsockname()[1]))
    assert status == 1
    assert "address already in use" in err.lower()
    assert "--port" in err
    assert one_line(err)


def test_an_address_that_is_not_ours_is_one_line() -> None:
    status, err = failed_start("--ephemeral", "--port", "0", "--host", "192.0.2.1")
    assert status == 1
    assert "cannot listen on" in err
    assert one_line(err)


def test_a_data_directory_that_is_in_use_is_one_line(tmp_path: Path) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)):
        status, err = failed_start("--port", "0", "--data-dir", str(tmp_path))
    assert status == 1
    assert str(tmp_path) in err
    assert "--data-dir" in err
    assert one_line(err)


def test_a_data_directory_of_another_node_is_one_line(tmp_path: Path) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)) as running:
        running.signal(signal.SIGTERM)
    status, err = failed_start("--port", "0", "--data-dir", str(tmp_path), "--set", "node.id=2")
    assert status == 1
    assert "belongs to node 1" in err
    assert one_line(err)


def test_a_data_directory_with_a_broken_meta_properties_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    status, err = failed_start("--port", "0", "--data-dir", str(tmp_path))
    assert status == 1
    assert "meta.properties" in err
    assert one_line(err)


def test_a_data_directory_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    status, err = failed_start("--port", "0", "--data-dir", str(tmp_path / "file" / "data"))
    assert status == 1
    assert str(tmp_path / "file") in err
    assert ".lock" not in err
    assert one_line(err)


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("num.partition=3", "did you mean num.partitions?"),
        ("foo.bar=1", "foo.bar; `barnabas configs describe --broker ID --all` lists the keys"),
        ("num.partitions=three", "num.partitions"),
        ("num.partitions=0", "num.partitions"),
        ("listeners=SSL://127.0.0.1:0", "only PLAINTEXT is supported so far"),
    ],
)
def test_a_bad_setting_is_one_line(setting: str, complaint: str) -> None:
    status, err = failed_start("--ephemeral", "--set", setting)
    assert status == 1
    assert complaint in err
    assert one_line(err)


def test_a_missing_properties_file_is_one_line(tmp_path: Path) -> None:
    status, err = failed_start("--config", str(tmp_path / "missing.properties"))
    assert status == 1
    assert "missing.properties: no such file or directory" in err
    assert one_line(err)


def test_a_failed_start_leaves_no_temporary_directory(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("start", "--ephemeral", "--port", port, env=environment(TMPDIR=str(tmp_path)))
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_a_stop_while_it_starts_leaves_no_temporary_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "start", "--ephemeral", "--port", "0"]
    with subprocess.Popen(command, env=environment(TMPDIR=str(tmp_path)), stdout=subprocess.DEVNULL) as process:
        while not any(tmp_path.iterdir()):
            assert process.poll() is None
        process.terminate()
    assert process.returncode in (0, 143)
    assert list(tmp_path.iterdir()) == []


def test_a_stop_between_two_steps_leaves_no_temporary_directory(tmp_path: Path) -> None:
    """The signal comes before mkdir has returned, and once more while the directory is being removed."""
    program = (
        "import os, shutil, signal, sys\n"
        "from barnabas.__main__ import main\n"
        "mkdir, rmtree = os.mkdir, shutil.rmtree\n"
        "def interrupted_mkdir(*arguments):\n"
        "    mkdir(*arguments)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "def interrupted_rmtree(path, **options):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    rmtree(path, **options)\n"
        "os.mkdir, shutil.rmtree = interrupted_mkdir, interrupted_rmtree\n"
        "sys.exit(main(['start', '--ephemeral', '--port', '0']))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment(TMPDIR=str(tmp_path)), check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_a_flood_of_signals_stops_it_too() -> None:
    with broker("--port", "0", "--ephemeral") as running:
        while running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
        assert running.process.returncode in (0, -signal.SIGTERM)  # Python's last steps are without a handler


def test_connections_leave_descriptors_for_files() -> None:
    """The first flush of a log opens its directory, and a first request imports its handler."""
    command = f"ulimit -n 100; exec {sys.executable} -m barnabas start --port 0 --ephemeral"
    with (
        subprocess.Popen(["sh", "-c", command], env=environment(), stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as stack,
    ):
        assert process.stdout is not None
        ready = READY.fullmatch(process.stdout.readline())
        assert ready is not None
        stack.callback(process.terminate)
        port = int(ready[2])
        client = stack.enter_context(RawClient(port))
        for _ in range(120):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        topic = CreatableTopic(
            name="orders",
            num_partitions=1,
            replication_factor=1,
            assignments=(),
            configs=[CreatableTopicConfig(name="flush.messages", value="1")],
        )
        created = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert created.topics[0].error_code == 0
        assert client.produce("orders", good()).error_code == 0
    assert process.returncode == 0
