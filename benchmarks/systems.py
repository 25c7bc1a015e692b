"""The brokers that are measured. Another one is a class with these methods and a row in SYSTEMS."""

import compileall
import hashlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar, Protocol

from benchmarks.processes import Process, tree

ROOT = Path(__file__).resolve().parent.parent
KAFKA_LIBS = Path(os.environ.get("KAFKA_LIBS", ROOT / ".cache" / "kafka-4.3.0" / "libs"))
# Where brokers keep their data while they are measured: on a disk. /tmp may be memory, where an fsync costs nothing.
DATA = ROOT / ".cache"
SOURCES = ("barnabas", "broker", "protocol", "replication", "storage")
START_SECONDS = 300  # what was killed may have much to recover

# Metadata version 1 of no topics: the smallest question that only a working broker answers.
METADATA_REQUEST = struct.pack(">ihhih5si", 19, 3, 1, 1, 5, b"bench", 0)


class Failed(Exception):
    """A broker that failed, or a check: the sample has no figure, and the run says why."""


class System(Protocol):
    """One broker, or a cluster, with a data directory of its own. `settings` are Kafka's keys and mean the same to all
    systems. Where partitions have one replica, `brokers` are processes of Barnabas, for which Apache Kafka has threads
    in one; where they have several, both have as many brokers."""

    name: str
    addresses: list[str]  # of each broker, whose ids count from 1
    replicas: int  # of each partition

    @classmethod
    def missing(cls) -> str | None: ...  # one line that says what to do, or None
    @classmethod
    def version(cls) -> str: ...
    @classmethod
    def described(cls) -> dict[str, str]: ...  # the settings that a reader of the figures needs

    def __init__(self, folder: Path, settings: dict[str, str], brokers: int = 1, replicas: int = 1) -> None: ...
    def prepare(self) -> None: ...  # once per data directory, before the first start
    def start(self) -> float: ...  # returns the seconds to the first answer
    def kill(self) -> None: ...
    def end_broker(self, broker_id: int, number: signal.Signals) -> None: ...  # one of several
    def start_broker(self, broker_id: int) -> None: ...  # again, and returns at once
    def pids(self) -> list[int]: ...
    def log_dir(self) -> Path: ...


class LocalBroker:
    """Brokers on this machine: free ports, a log file, and a request until it is answered."""

    name = ""

    def __init__(self, folder: Path, settings: dict[str, str], brokers: int = 1, replicas: int = 1) -> None:
        self.folder = folder
        self.settings = settings
        self.brokers = brokers
        self.replicas = replicas
        self.port = free_port()
        self.addresses = [f"127.0.0.1:{self.port}"]
        self.processes: list[Process] = []
        folder.mkdir(parents=True)

    def commands(self) -> list[list[str]]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Does nothing."""

    def log_dir(self) -> Path:
        return self.folder / "data"

    def start(self) -> float:
        started = time.perf_counter()
        self.processes = [Process(command, self.folder / "broker.log") for command in self.commands()]
        while not self.is_ready():
            if self._has_ended() or time.perf_counter() - started > START_SECONDS:
                raise Failed(f"{self.name} did not start: {last_lines(self.folder / 'broker.log')}")
            time.sleep(0.001)
        return time.perf_counter() - started

    def is_ready(self) -> bool:
        """Returns whether each broker answers, and knows the others."""
        return all(known_brokers(address) == len(self.addresses) for address in self.addresses)

    def pids(self) -> list[int]:
        assert self.processes
        if self._has_ended():
            raise Failed(f"{self.name} ended: {last_lines(self.folder / 'broker.log')}")
        return [pid for process in self.processes for pid in tree(process.pid)]

    def kill(self) -> None:
        for process in self.processes:
            process.end(signal.SIGKILL)

    def _has_ended(self) -> bool:
        return any(process.ended() for process in self.processes)


class Barnabas(LocalBroker):
    name = "barnabas"

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def version(cls) -> str:
        commit = output("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10")
        # A commit may be rebased away; what these folders hold stays the same.
        sources = output("git", "-C", str(ROOT), "ls-tree", "-r", "HEAD", *SOURCES) + "\n"
        digest = hashlib.sha256(sources.encode()).hexdigest()[:10]
        return f"{commit or 'checkout'}, sources {digest}, Python {sys.version.split()[0]}"

    @classmethod
    def described(cls) -> dict[str, str]:
        return {"command": "barnabas start", "settings": "defaults"}

    def prepare(self) -> None:
        """Compiles the checkout, as pip compiles what it installs; otherwise it starts at half the speed."""
        for folder in SOURCES:
            compileall.compile_dir(ROOT / folder, quiet=2)

    def commands(self) -> list[list[str]]:
        options = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        port = self.port if self.brokers == 1 else 0  # several find free ports, and say which
        where = ["--port", str(port), "--brokers", str(self.brokers), "--data-dir", str(self.log_dir())]
        return [[str(Path(sys.executable).with_name("barnabas")), "start", *where, *options]]

    def is_ready(self) -> bool:
        """Returns whether each broker answers. Several say where, when all are part of the cluster."""
        if self.brokers > 1:
            said = re.search(r"is ready on (\S+) ", (self.folder / "broker.log").read_text())
            if said is None:
                return False
            self.addresses = said[1].split(",")
        return super().is_ready()

    def end_broker(self, broker_id: int, number: signal.Signals) -> None:
        lock = str((self.log_dir() / str(broker_id) / ".lock").resolve())
        for pid in self.pids():
            if any(os.path.realpath(descriptor) == lock for descriptor in Path(f"/proc/{pid}/fd").iterdir()):
                os.kill(pid, number)
                return
        raise Failed(f"broker {broker_id} does not run")

    def start_broker(self, broker_id: int) -> None:
        """Does nothing: the supervisor starts a broker that has ended."""


class ApacheKafka(LocalBroker):
    """One process, broker and controller, with the heap, collector and thread counts of Kafka's own start script; or
    three of them, where partitions have three replicas."""

    name = "kafka"

    JVM = (
        *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
        "-Djava.awt.headless=true",
    )
    PROPERTIES: ClassVar = {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    REPLICATED: ClassVar = {
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "min.insync.replicas": "2",
    }
    LOGGING = (
        "appender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\n"
        "appender.out.layout.pattern=[%d] %p %m (%c)%n\nrootLogger.level=INFO\nrootLogger.appenderRef.out.ref=out\n"
    )

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("java") is None:
            return "Apache Kafka needs Java: install a JDK 17 or later (Debian: openjdk-17-jdk-headless)"
        return None if KAFKA_LIBS.is_dir() else "Apache Kafka is missing: `make setup` fetches it"

    @classmethod
    def version(cls) -> str:
        (jar,) = KAFKA_LIBS.glob("kafka_2.13-*.jar")
        java = output("java", "-version").splitlines()[0].split('"')[1]
        return f"{jar.stem.removeprefix('kafka_2.13-')}, Java {java}"

    @classmethod
    def described(cls) -> dict[str, str]:
        return {"command": " ".join(cls.JVM), "settings": " ".join(f"{k}={v}" for k, v in cls.PROPERTIES.items())}

    def __init__(self, folder: Path, settings: dict[str, str], brokers: int = 1, replicas: int = 1) -> None:
        super().__init__(folder, settings, brokers if replicas > 1 else 1, replicas)
        ports = [self.port, *(free_port() for _ in range(1, self.brokers))]
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.controllers = [f"127.0.0.1:{free_port()}" for _ in ports]

    def prepare(self) -> None:
        """Formats data directories once in a run and copies them from then on: a JVM for every sample would take
        minutes."""
        formatted = self.folder.parent / f"kafka-formatted-{self.brokers}"
        for broker_id in self._broker_ids():
            if not self._data(formatted, broker_id).is_dir():
                formatted.mkdir(exist_ok=True)
                self._format(formatted, broker_id)
            shutil.copytree(self._data(formatted, broker_id), self._data(self.folder, broker_id))
            self._configure(self.folder, broker_id)

    def _broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    def _data(self, folder: Path, broker_id: int) -> Path:
        return folder / "data" if self.brokers == 1 else folder / "data" / str(broker_id)

    def _configure(self, folder: Path, broker_id: int) -> Path:
        client, controller = self.addresses[broker_id - 1], self.controllers[broker_id - 1]
        voters = (f"{voter_id}@{address}" for voter_id, address in enumerate(self.controllers, 1))
        properties = {
            **self.PROPERTIES,
            **(self.REPLICATED if self.replicas > 1 else {}),
            "node.id": str(broker_id),
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
            "log.dirs": str(self._data(folder, broker_id)),
            **self.settings,
        }
        (folder / "log4j2.properties").write_text(self.LOGGING)
        config = folder / f"server-{broker_id}.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return config

    def _format(self, folder: Path, broker_id: int) -> None:
        tool = ["java", "-cp", f"{KAFKA_LIBS}/*", "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk"]
        command = [*tool, "-c", str(self._configure(folder, broker_id))]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Failed(f"kafka: the data directory was not formatted: {done.stdout[-1000:]}")

    def commands(self) -> list[list[str]]:
        return [self._command(broker_id) for broker_id in self._broker_ids()]

    def _command(self, broker_id: int) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        classes = ["-cp", f"{KAFKA_LIBS}/*", "kafka.Kafka"]
        return ["java", *self.JVM, logging, *classes, str(self.folder / f"server-{broker_id}.properties")]

    def end_broker(self, broker_id: int, number: signal.Signals) -> None:
        self.processes[broker_id - 1].send(number)

    def start_broker(self, broker_id: int) -> None:
        self.processes[broker_id - 1].wait()
        self.processes[broker_id - 1] = Process(self._command(broker_id), self.folder / "broker.log")


SYSTEMS: dict[str, type[System]] = {system.name: system for system in (Barnabas, ApacheKafka)}


def known_brokers(address: str) -> int:
    """Returns how many brokers the one at this address knows; 0 if it does not answer."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(METADATA_REQUEST)
            head = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return 0
    (_, _, count) = struct.unpack(">iii", head) if len(head) == 12 else (0, 0, 0)
    return int(count)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def last_lines(log: Path) -> str:
    return " / ".join(log.read_text(errors="replace").splitlines()[-5:])[-1000:]


def output(*command: str) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
