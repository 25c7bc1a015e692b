"""A cluster of Barnabas and Apache Kafka, each a broker: each leads what the other follows, byte for byte.

Barnabas is the controller. Kafka's process is killed and comes back, and finds what was written without it.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.barnabas.processes import broker, run
from tests.broker.wire import RawClient, good, values_of
from tests.kafka_jars import kafka_libs

PATIENCE_S = 90.0
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
OURS, THEIRS = 1, 2
SEGMENT = "00000000000000000000.log"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Mixed:
    """Where the two are, and what starts Kafka."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.controller_port, self.kafka_port = free_port(), free_port(), free_port()
        self._write(OURS, "broker,controller", self.port, f"CONTROLLER://127.0.0.1:{self.controller_port}")
        self._write(THEIRS, "broker", self.kafka_port)

    def _write(self, node_id: int, roles: str, port: int, *more_listeners: str) -> None:
        listeners = ",".join((f"PLAINTEXT://127.0.0.1:{port}", *more_listeners))
        properties = {
            "node.id": str(node_id),
            "process.roles": roles,
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.directory / str(node_id)),
        }
        lines = (f"{name}={value}\n" for name, value in properties.items())
        self.config(node_id).write_text("".join(lines))

    def config(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.properties"

    def segment(self, node_id: int, topic: str) -> bytes:
        """What the log of a partition holds, without the space that Kafka reserves."""
        return (self.directory / str(node_id) / f"{topic}-0" / SEGMENT).read_bytes()

    def java(self, main: str, *arguments: str) -> list[str]:
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka_libs()}/*", main, *arguments]

    @contextmanager
    def kafka(self) -> Iterator["subprocess.Popen[bytes]"]:
        """A running Kafka, of which the cluster knows; it is killed at the end."""
        config, log = str(self.config(THEIRS)), self.directory / "kafka.log"
        with (
            log.open("ab") as out,
            subprocess.Popen(self.java("kafka.Kafka", config), stdout=out, stderr=out) as process,
        ):
            try:
                yield process
            finally:
                process.kill()


def eventually(is_true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, f"{what} within {PATIENCE_S} s"
        time.sleep(0.05)


def brokers(client: RawClient) -> set[int]:
    return {each.node_id for each in client.call(MetadataRequest(topics=[])).brokers}


def in_sync(client: RawClient, topic: str) -> set[int]:
    asked = [MetadataRequestTopic(name=topic)]
    answer = client.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
    return {node_id for each in answer.topics[0].partitions for node_id in each.isr_nodes}


def wait_in_sync(client: RawClient, topic: str) -> None:
    eventually(lambda: in_sync(client, topic) == {OURS, THEIRS}, f"{topic} is in sync")


def create(client: RawClient, name: str, *replicas: int) -> None:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[])
    assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics[0].error_code == 0


def write(port: int, topic: str, batches: int) -> None:
    """Writes batches of three records with acks=all, each as soon as there is a leader that takes it."""
    with RawClient(port) as producer:
        for _ in range(batches):
            eventually(lambda: producer.produce(topic, good()).error_code == 0, f"{topic} takes records")


def check_readable(mixed: Mixed, topic: str, count: int) -> None:
    """Both brokers serve all of it, also the one that follows."""
    for port in (mixed.port, mixed.kafka_port):
        with RawClient(port) as consumer:
            eventually(lambda: len(values_of(consumer.fetch(topic))) == count, f"{port} serves {topic}")


def test_each_follows_the_other_and_goes_on_without_it(tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no java on the path")
    mixed = Mixed(tmp_path)
    assert run("format", "-c", str(mixed.config(OURS)), "-t", CLUSTER_ID, "-s").returncode == 0
    arguments = ["format", "-t", CLUSTER_ID, "-c", str(mixed.config(THEIRS)), "--no-initial-controllers"]
    subprocess.run(
        mixed.java("kafka.tools.StorageTool", *arguments), check=True, capture_output=True, timeout=PATIENCE_S
    )
    with broker("--config", str(mixed.config(OURS))), RawClient(mixed.port) as client:
        with mixed.kafka():
            eventually(lambda: brokers(client) == {OURS, THEIRS}, "Kafka joins")
            create(client, "ours", OURS, THEIRS)
            create(client, "theirs", THEIRS, OURS)
            for topic, port in (("ours", mixed.port), ("theirs", mixed.kafka_port)):
                wait_in_sync(client, topic)
                write(port, topic, 30)
                check_readable(mixed, topic, 90)
                assert in_sync(client, topic) == {OURS, THEIRS}
        for topic in ("ours", "theirs"):
            write(mixed.port, topic, 10)
            assert in_sync(client, topic) == {OURS}
        with mixed.kafka():
            for topic in ("ours", "theirs"):
                wait_in_sync(client, topic)
                check_readable(mixed, topic, 120)
                assert mixed.segment(OURS, topic) == mixed.segment(THEIRS, topic)
