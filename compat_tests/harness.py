"""A broker and clients as processes of their own, and the contract between the tests and the clients' drivers.

A driver is a program that reads one JSON request per line and answers each with one line:

    {"op": "produce", "bootstrap", "topic", "records": [record], "compression", "acks": "0" | "1" | "all",
     "idempotence"} -> {"offsets": [offset, or anything where the client does not tell or acks=0]}
    {"op": "consume", "bootstrap", "topic", "partitions": [number], "start": {} | {"offset"} | {"timestamp"}, "count",
     "timeout_ms"} -> {"records": [record with partition, offset, timestamp]}: `count` of them, fewer if time runs out
    {"op": "offsets", "bootstrap", "topic", "partitions": [number], "timestamps": [ms]}
        -> {"beginning", "end", "at": [offset or null]}
    create_topic, list_topics, describe_topic, topic_configs, alter_topic_configs, create_partitions, delete_records,
    delete_topic: see any driver

    {"op": "join", "bootstrap", "member": name, "group", "settings": {Kafka's name: value}, "commits": bool,
     "topics": [name] | null, "pattern": regex | null, "broker_matches": bool, "assign": [[topic, partition]] | null}
        -> {}: a consumer that is polled in the background from now on; one driver may hold several
    {"op": "member_states", "members": [name]} -> {"states": {name: {"assignment": [[topic, partition]],
     "records": [[topic, partition, offset]], "member_id", "generation" (null where unknown), "revocations", "error"}}}
    {"op": "leave", "members": [name]} -> {"states"}: the last ones, of members that have left
    commit, committed, seek_to_committed: see members.py
    list_groups, describe_group, group_offsets, alter_group_offsets, delete_group_offsets, delete_group: see any driver

    anything that fails -> {"error": class or name, "message"}

A record is {"partition", "key", "value", "headers": [[name, value]], "timestamp"}; keys and values are base64 or null.
A new client is one file in drivers/ and one row of CLIENTS. Nothing here imports the broker: it is started through its
command line, and BROKER=kafka puts Apache Kafka in its place, so that a wrong test cannot pass for compatibility.
"""

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
DRIVERS = ROOT / "compat_tests" / "drivers"
KAFKA_LIBS = Path(os.environ.get("KAFKA_LIBS", CACHE / "kafka-4.3.0" / "libs"))
KAFKA_PYTHON_2 = CACHE / "kafka-python-2.3.3"

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers in the attributes of a batch

# Short-lived JVMs spend most of their time compiling: the quick compiler alone is half the time of both.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")

READY_SECONDS = 60
ANSWER_SECONDS = 90


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int | None = None


class Client(NamedTuple):
    name: str
    command: tuple[str, ...]
    needs: tuple[str | Path, ...] = ()  # system commands, and what `make setup` fetched
    environment: tuple[tuple[str, str], ...] = ()
    admin: bool = True
    sets_timestamps: bool = True
    sends_null_headers: bool = True
    tells_offsets: bool = True


def python_driver(name: str) -> tuple[str, ...]:
    return (sys.executable, str(DRIVERS / name))


def java_client(name: str, version: str, libs: Path) -> Client:
    classes = CACHE / f"driver-{version}"
    command = ("java", *JVM_OPTIONS, "-Xmx512m", "-cp", f"{classes}:{libs}/*", "Driver")
    return Client(name, command, needs=("java", classes, libs))


CLIENTS = (
    Client("kafka-python-3", python_driver("kafka_python_client.py"), sends_null_headers=False),
    Client(
        "kafka-python-2",
        python_driver("kafka_python_client.py"),
        needs=(KAFKA_PYTHON_2,),
        environment=(("PYTHONPATH", str(KAFKA_PYTHON_2)),),
        sends_null_headers=False,
    ),
    Client("aiokafka", python_driver("aiokafka_client.py")),
    Client("confluent-kafka", python_driver("confluent_client.py")),
    java_client("java-3.9", "3.9.0", CACHE / "kafka-clients-3.9.0" / "libs"),
    java_client("java-4.3", "4.3.0", KAFKA_LIBS),
    Client(
        "kcat",
        python_driver("kcat_client.py"),
        needs=("kcat",),
        admin=False,
        sets_timestamps=False,
        tells_offsets=False,
    ),
)


# Only joins groups: Kafka's own consumer for tests of brokers.
VERIFIABLE_CONSUMER = Client(
    "verifiable-consumer",
    (
        *python_driver("verifiable_consumer.py"),
        *("java", *JVM_OPTIONS, "-cp", f"{KAFKA_LIBS}/*", "org.apache.kafka.tools.VerifiableConsumer"),
    ),
    needs=("java", KAFKA_LIBS),
    admin=False,
)


class DriverError(Exception):
    """What the client itself reported."""


class Driver:
    """One client as a process, started when it is first asked something."""

    def __init__(self, client: Client, bootstrap: str, log: Path) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self.log = log
        self.process: subprocess.Popen[str] | None = None
        self.turn = threading.Lock()  # tests may ask from several threads

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        with self.turn:
            return self._ask(op, **fields)

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        # A driver that hangs is ended, which ends the readline below.
        alarm = threading.Timer(ANSWER_SECONDS, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps({"op": op, "bootstrap": self.bootstrap, **fields}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            ended = f"{self.client.name} ended with {process.wait()} instead of an answer to {op}"
            raise AssertionError(f"{ended}:\n{self.log.read_text()[-4000:]}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise DriverError(f"{self.client.name} {op}: {answer['error']}: {answer['message']}")
        return answer

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotence: bool = False,
    ) -> list[int | None]:
        given = [encoded(record) for record in records]
        options = {"compression": compression, "acks": acks, "idempotence": idempotence}
        offsets: list[int | None] = self.ask("produce", topic=topic, records=given, **options)["offsets"]
        return offsets

    def consume(
        self,
        topic: str,
        count: int,
        *,
        partitions: Iterable[int] = (0,),
        start: dict[str, int] | None = None,
        timeout_ms: int = 20_000,
    ) -> list[Record]:
        """Exactly `count` records, in the order of partitions and offsets."""
        where = {"topic": topic, "partitions": list(partitions), "start": start or {}}
        answer = self.ask("consume", count=count, timeout_ms=timeout_ms, **where)
        records = sorted((decoded(record) for record in answer["records"]), key=lambda r: (r.partition, r.offset))
        assert len(records) == count, f"{self.client.name} read {len(records)} of {count} records"
        return records

    def offsets(self, topic: str, *, partition: int = 0, timestamps: Iterable[int] = ()) -> dict[str, Any]:
        return self.ask("offsets", topic=topic, partitions=[partition], timestamps=list(timestamps))

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)
            close_pipes(self.process)

    def kill(self) -> None:
        """The client and all its members at once, without a word to the broker."""
        assert self.process is not None
        self.process.kill()
        self.stop()

    def _start(self) -> subprocess.Popen[str]:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.client.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **dict(self.client.environment)},
            )
        return self.process


def encoded(record: Record) -> dict[str, Any]:
    return {
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": to_text(record.key),
        "value": to_text(record.value),
        "headers": [[name, to_text(value)] for name, value in record.headers],
    }


def decoded(record: dict[str, Any]) -> Record:
    return Record(
        key=to_bytes(record["key"]),
        value=to_bytes(record["value"]),
        headers=tuple((name, to_bytes(value)) for name, value in record["headers"]),
        timestamp=record["timestamp"],
        partition=record["partition"],
        offset=record["offset"],
    )


def to_text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Broker(NamedTuple):
    bootstrap: str
    data_dir: Path
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])


@contextmanager
def barnabas(folder: Path, settings: dict[str, str], port: int = 0) -> Iterator[Broker]:
    """A folder and a port that were in use before are a restart."""
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
    """The process and its lines as they come; it is ended on the way out, whatever happened."""
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
    """SIGTERM, then SIGKILL for what does not listen."""
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
    """One of Apache Kafka's own command-line tools, unmodified."""
    command = ["java", *JVM_OPTIONS, "-cp", f"{KAFKA_LIBS}/*", main_class, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)


def compressions_in(segment: bytes) -> set[str]:
    """Read from the batches on disk: length at byte 8, attributes end at byte 22."""
    found, position = set(), 0
    while position < len(segment):
        found.add(COMPRESSIONS[segment[position + 22] & 7])
        position += 12 + int.from_bytes(segment[position + 8 : position + 12])
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def missing(needs: Iterable[str | Path]) -> str | None:
    """One line saying what is not there, or None."""
    lacking = [str(need) for need in needs if not (need.exists() if isinstance(need, Path) else shutil.which(need))]
    return f"needs {', '.join(lacking)}: `make setup` fetches it or says what to install" if lacking else None
