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
    systems."""

    name: str
    addresses: list[str]  # of each broker, whose ids count from 1

    @classmethod
    def missing(cls) -> str | None: ...  # one line that says what to do, or None
    @classmethod
    def version(cls) -> str: ...
    @classmethod
    def described(cls) -> dict[str, str]: ...  # the settings that a reader of the figures needs

    def __init__(self, folder: Path, settings: dict[str, str], brokers: int = 1) -> None: ...
    def prepare(self) -> None: ...  # once per data directory, before the first start
    def start(self) -> float: ...  # returns the seconds to the first answer
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def pids(self) -> list[int]: ...
    def log_dir(self) -> Path: ...


class LocalBroker:
    """Brokers on this machine: free ports, a log file, and a request until it is answered."""

    name = ""

    def __init__(self, folder: Path, settings: dict[str, str], brokers: int = 1) -> None:
        self.folder = folder
        self.settings = settings
        self.brokers = brokers
        self.port = free_port()
        self.addresses = [f"127.0.0.1:{self.port}"]
        self.process: Process | None = None
        folder.mkdir(parents=True)

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Does nothing."""

    def log_dir(self) -> Path:
        return self.folder / "data"

    def start(self) -> float:
        started = time.perf_counter()
        self.process = Process(self.command(), self.folder / "broker.log")
        while not self.is_ready():
            if self.process.ended() or time.perf_counter() - started > START_SECONDS:
                raise Failed(f"{self.name} did not start: {last_lines(self.folder / 'broker.log')}")
            time.sleep(0.001)
        return time.perf_counter() - started

    def is_ready(self) -> bool:
        return answers(self.port)

    def pids(self) -> list[int]:
        assert self.process is not None
        if self.process.ended():
            raise Failed(f"{self.name} ended: {last_lines(self.folder / 'broker.log')}")
        return tree(self.process.pid)

    def kill(self) -> None:
        if self.process is not None:
            self.process.end(signal.SIGKILL)

    def stop(self) -> None:
        if self.process is not None:
            self.process.end(signal.SIGTERM)


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

    def command(self) -> list[str]:
        options = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        port = self.port if self.brokers == 1 else 0  # several find free ports, and say which
        where = ["--port", str(port), "--brokers", str(self.brokers), "--data-dir", str(self.log_dir())]
        return [str(Path(sys.executable).with_name("barnabas")), "start", *where, *options]

    def is_ready(self) -> bool:
        """Returns whether each broker answers. Several say so, and where, when all are part of the cluster."""
        if self.brokers == 1:
            return super().is_ready()
        said = re.search(r"is ready on (\S+) ", (self.folder / "broker.log").read_text())
        if said is None:
            return False
        self.addresses = said[1].split(",")
        return all(answers(int(address.rpartition(":")[2])) for address in self.addresses)


class ApacheKafka(LocalBroker):
    """One process, broker and controller, with the heap, collector and thread counts of Kafka's own start script."""

    name = "kafka"

    JVM = (
        *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
        *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15"),
        "-Djava.awt.headless=true",
    )
    PROPERTIES: ClassVar = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "num.network.threads": "3",
        "num.io.threads": "8",
        "socket.send.buffer.bytes": "102400",
        "socket.receive.buffer.bytes": "102400",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
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

    def prepare(self) -> None:
        """Formats a data directory once in a run and copies it from then on: a JVM for every sample would take
        minutes."""
        formatted = self.folder.parent / "kafka-formatted"
        if not formatted.is_dir():
            formatted.mkdir()
            self._format(formatted)
        shutil.copytree(formatted / "data", self.log_dir())
        self._configure(self.folder)

    def _configure(self, folder: Path) -> Path:
        controller = free_port()
        properties = {
            **self.PROPERTIES,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.addresses[0]},CONTROLLER://127.0.0.1:{controller}",
            "log.dirs": str(folder / "data"),
            **self.settings,
        }
        (folder / "log4j2.properties").write_text(self.LOGGING)
        config = folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return config

    def _format(self, folder: Path) -> None:
        tool = ["java", "-cp", f"{KAFKA_LIBS}/*", "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk"]
        command = [*tool, "-c", str(self._configure(folder))]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise Failed(f"kafka: the data directory was not formatted: {done.stdout[-1000:]}")

    def command(self) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
        classes = ["-cp", f"{KAFKA_LIBS}/*", "kafka.Kafka"]
        return ["java", *self.JVM, logging, *classes, str(self.folder / "server.properties")]


SYSTEMS: dict[str, type[System]] = {system.name: system for system in (Barnabas, ApacheKafka)}


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(METADATA_REQUEST)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


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
