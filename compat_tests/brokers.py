"""The broker under test as a process: Barnabas through its command line, or Apache Kafka in its place."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
KAFKA_LIBS = Path(os.environ.get("KAFKA_LIBS", CACHE / "kafka-4.3.0" / "libs"))

# Short-lived JVMs spend most of their time compiling: the quick compiler alone is half the time of both.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

READY_SECONDS = 60


class Broker(NamedTuple):
    bootstrap: str
    data_dir: Path
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


@contextmanager
def barnabas(folder: Path, settings: dict[str, str], port: int = 0) -> Iterator[Broker]:
    """Starts a broker. With a folder and a port that were in use before it is a restart."""
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "start",
        "--port",
        str(port),
        "--data-dir",
        str(folder / "data"),
        *options,
    ]
    with running(command, folder / "broker.log", cwd=folder) as (process, lines):
        ready = wait_for(r"barnabas is ready on (\S+:\d+) ", lines, process, folder / "broker.log")
        yield Broker(ready[1], folder / "data", process)


@contextmanager
def apache_kafka(folder: Path, settings: dict[str, str], port: int = 0) -> Iterator[Broker]:
    port, controller_port = port or free_port(), free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        **settings,
    }
    config = folder / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    formatted = kafka_tool(
        "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(config)
    )
    assert formatted.returncode == 0, formatted.stderr
    logging = folder / "log4j2.properties"
    logging.write_text(LOG4J2)
    command = ["java", "-Xmx1G", "-cp", f"{KAFKA_LIBS}/*", f"-Dlog4j2.configurationFile={logging}", "kafka.Kafka"]
    with running([*command, str(config)], folder / "broker.log", cwd=folder) as (process, lines):
        wait_for(r"Kafka Server started", lines, process, folder / "broker.log")
        yield Broker(f"127.0.0.1:{port}", folder / "data", process)


LOG4J2 = """appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
"""

BROKERS = {"barnabas": barnabas, "kafka": apache_kafka}


@contextmanager
def running(command: list[str], log: Path, cwd: Path) -> Iterator[tuple[subprocess.Popen[str], "Queue[str | None]"]]:
    """Yields the process and its lines as they come; ends it on the way out, whatever happened."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd)
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
