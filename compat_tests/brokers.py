"""The broker under test as a process: Barnabas through its command line, alone or as a cluster, or Apache Kafka in its
place."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
KAFKA_LIBS = Path(os.environ.get("KAFKA_LIBS", CACHE / "kafka-4.3.0" / "libs"))

# Short-lived JVMs spend most of their time compiling: the quick compiler alone is half the time of both.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

READY_SECONDS = 60
FIRST_SEGMENT = f"{0:020}.log"
NODES = 3
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
"""The id of every cluster that is made by hand here, so that a broker of the other kind can join it."""


class Broker(NamedTuple):
    """A broker, or several that are one cluster: node 1 has the first address and the first data directory."""

    bootstrap: str
    data_dirs: tuple[Path, ...]
    process: subprocess.Popen[str]

    @property
    def addresses(self) -> list[str]:
        return self.bootstrap.split(",")

    @property
    def ports(self) -> list[int]:
        return [int(address.rpartition(":")[2]) for address in self.addresses]

    @property
    def port(self) -> int:
        return self.ports[0]

    def log_dir(self, topic: str, partition: int = 0) -> Path:
        """Returns the folder of a partition, on the node that has most of it: a follower may be a moment behind."""
        folders = [folder for data_dir in self.data_dirs if (folder := data_dir / f"{topic}-{partition}").is_dir()]
        return max(folders, key=lambda folder: (folder / FIRST_SEGMENT).stat().st_size)

    def first_segment(self, topic: str, partition: int = 0) -> bytes:
        return (self.log_dir(topic, partition) / FIRST_SEGMENT).read_bytes()

    def send_signal(self, number: signal.Signals) -> None:
        """Signals the broker. A cluster stops by a word to its supervisor; a machine that fails takes all of it."""
        if number is signal.SIGKILL:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)


@contextmanager
def barnabas(folder: Path, settings: dict[str, str], port: int = 0) -> Iterator[Broker]:
    """Starts a broker. With a folder and a port that were in use before it is a restart."""
    data_dir = folder / "data"
    with barnabas_process(folder, settings, "--port", str(port)) as (bootstrap, process):
        yield Broker(bootstrap, (data_dir,), process)


@contextmanager
def barnabas_cluster(folder: Path, settings: dict[str, str], port: int = 0) -> Iterator[Broker]:
    """Starts three brokers, each a process, at this port and the two after it."""
    port = port or free_ports(NODES)
    data_dirs = tuple(folder / "data" / str(node_id) for node_id in range(1, NODES + 1))
    options = ("--brokers", str(NODES), "--port", str(port), "--cluster-id", CLUSTER_ID)
    with barnabas_process(folder, settings, *options) as (bootstrap, process):
        yield Broker(bootstrap, data_dirs, process)


@contextmanager
def barnabas_process(
    folder: Path, settings: dict[str, str], *options: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Runs `barnabas start`. Yields the addresses that it tells when it is ready, and the process."""
    changed = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "barnabas", "start", *options, "--data-dir", str(folder / "data"), *changed]
    with running(command, folder / "broker.log", cwd=folder) as (process, lines):
        ready = wait_for(r"barnabas is ready on (\S+:\d+) ", lines, process, folder / "broker.log")
        yield ready[1], process


@contextmanager
def apache_kafka(folder: Path, settings: dict[str, str], port: int = 0) -> Iterator[Broker]:
    port, controller_port = port or free_port(), free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{controller_port}"}
    with kafka_process(folder, 1, port, controller_port, {**voters, **settings}) as (process, lines):
        wait_for(r"Kafka Server started", lines, process, folder / "broker.log")
        yield Broker(f"127.0.0.1:{port}", (folder / "data",), process)


@contextmanager
def kafka_process(
    folder: Path, node_id: int, port: int, controller_port: int, settings: dict[str, str], *formatting: str
) -> Iterator[tuple[subprocess.Popen[str], "Queue[str | None]"]]:
    """Formats a data directory if it is new, and starts a broker on it that is also a controller."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **settings,
    }
    config = folder / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    options = ("--ignore-formatted", "-t", CLUSTER_ID, "-c", str(config), *formatting)
    formatted = kafka_tool("kafka.tools.StorageTool", "format", *options)
    assert formatted.returncode == 0, formatted.stderr
    logging = folder / "log4j2.properties"
    logging.write_text(LOG4J2)
    command = ["java", "-Xmx1G", "-cp", f"{KAFKA_LIBS}/*", f"-Dlog4j2.configurationFile={logging}", "kafka.Kafka"]
    with running([*command, str(config)], folder / "broker.log", cwd=folder) as (process, lines):
        yield process, lines


@contextmanager
def kafka_cluster(folder: Path, settings: dict[str, str], *formatting: str) -> Iterator[Broker]:
    """Starts three Apache Kafkas as one cluster. Its process is that of the first."""
    first = free_ports(NODES)
    ids = range(1, NODES + 1)
    controllers = {node_id: f"127.0.0.1:{first + 9_999 + node_id}" for node_id in ids}
    voters = ",".join(f"{node_id}@{at}:{node_id}AAAAAAAAAAAAAAAAAAAAA" for node_id, at in controllers.items())
    settings = {"controller.quorum.bootstrap.servers": ",".join(controllers.values()), **REPLICATED, **settings}
    with ExitStack() as stack:
        started = []
        for node_id in ids:
            (own := folder / str(node_id)).mkdir()
            ports = (first + node_id - 1, first + 9_999 + node_id)
            node = kafka_process(own, node_id, *ports, settings, "--initial-controllers", voters, *formatting)
            started.append((own, *stack.enter_context(node)))
        for own, process, lines in started:
            wait_for(r"Kafka Server started", lines, process, own / "broker.log")
        bootstrap = ",".join(f"127.0.0.1:{first + node_id - 1}" for node_id in ids)
        yield Broker(bootstrap, tuple(own / "data" for own, _, _ in started), started[0][1])


# What three Barnabas have by themselves, and Kafka has to be told.
REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}

LOG4J2 = """appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
"""

BROKERS = {"barnabas": barnabas, "barnabas-cluster": barnabas_cluster, "kafka": apache_kafka}
BROKER = os.environ.get("BROKER", "barnabas")
"""The one under test."""


@contextmanager
def running(command: list[str], log: Path, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], "Queue[str | None]"]]:
    """Yields the process and its lines as they come; ends it on the way out, whatever happened."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, start_new_session=True
    )
    lines: Queue[str | None] = Queue()
    reader = threading.Thread(target=copy_lines, args=(process, lines, log), daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        end(process)
        reader.join()
        close_pipes(process)


def copy_lines(process: subprocess.Popen[str], lines: "Queue[str | None]", log: Path) -> None:
    assert process.stdout is not None
    with log.open("w") as file:
        for line in process.stdout:
            file.write(line)
            file.flush()
            lines.put(line)
    lines.put(None)


def wait_for(pattern: str, lines: "Queue[str | None]", process: subprocess.Popen[str], log: Path) -> re.Match[str]:
    try:
        while (line := lines.get(timeout=READY_SECONDS)) is not None:
            if found := re.search(pattern, line):
                return found
    except Empty:
        raise AssertionError(f"not ready after {READY_SECONDS} s:\n{log.read_text()[-4000:]}") from None
    raise AssertionError(f"ended with {process.wait()} before it was ready:\n{log.read_text()[-4000:]}")


def end(process: subprocess.Popen[str]) -> None:
    """Ends a process with SIGTERM, then with SIGKILL if it is still there."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def kafka_tool(main_class: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs one of Apache Kafka's own command-line tools, unmodified."""
    command = ["java", *JVM_OPTIONS, "-cp", f"{KAFKA_LIBS}/*", main_class, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def free_ports(count: int) -> int:
    """Returns the first of consecutive ports that are free, as those for controllers above them are. None is of those
    that the system gives to whoever asks for any: they have to be free again after a restart."""
    while True:
        first = random.randrange(10_000, 22_000)
        if all(is_free(port + above) for port in range(first, first + count) for above in (0, 10_000)):
            return first


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
