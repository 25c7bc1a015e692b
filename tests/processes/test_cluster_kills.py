"""Processes of a cluster that are killed, as nobody announces it: what was acknowledged stays, and the rest goes on.

How long it took is printed (`-s`); the bounds are those that only a defect breaks on a busy machine. CLUSTER_KILLS says
how many processes each test kills. The supervisor starts a broker again at once the first time, and after a growing
pause if it soon ends again: so each broker is killed once, and the next kill is in another cluster.
"""

import os
import signal
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.base.network import Address
from barnabas.client.admin import create_topic
from barnabas.client.client import Client
from barnabas.options import Failure
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from tests.processes.test_cluster import RunningCluster, cluster

KILLS = int(os.environ.get("CLUSTER_KILLS", "4"))
PATIENCE_S = 30.0
ONE_BROKER = Path(__file__).parent / "files" / "one_broker.tar.gz"
"""The data of a broker of the version before clusters: a topic of thirty records, and a group that has read them."""


def pid_of(running: RunningCluster, node_id: int) -> int:
    """Returns the process of a node: the one that holds the lock of its directory."""
    lock = str((running.data / str(node_id) / ".lock").resolve())
    for pid in running.pids():
        descriptors = Path(f"/proc/{pid}/fd")
        try:
            if any(os.readlink(descriptor) == lock for descriptor in descriptors.iterdir()):
                return pid
        except OSError:
            continue  # it has just ended
    raise AssertionError(f"node {node_id} does not run")


def kill(running: RunningCluster, node_id: int) -> None:
    os.kill(eventually(lambda: pid_of(running, node_id)), signal.SIGKILL)


def eventually(attempt: Callable[[], Any]) -> Any:
    """Returns the result of the first attempt that succeeds."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return attempt()
        except (AssertionError, Failure, KafkaError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def quorum(address: Address) -> Any:
    """Returns what the leader of the quorum says, through any broker."""
    topic = DescribeQuorumTopic(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumPartition(partition_index=0)]
    )
    with Client([address], timeout_s=10) as client:
        response = client.request(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    assert response.error_code == 0, response
    return response.topics[0].partitions[0]


def test_the_next_controller_decides_soon_after_the_last_was_killed(tmp_path: Path) -> None:
    waits: list[float] = []
    while len(waits) < KILLS:
        data = tmp_path / str(len(waits))
        with cluster("--brokers", "3", "--port", "0", "--data-dir", str(data)) as running:
            waits += kill_controllers(running, KILLS - len(waits))
    print("seconds until the next topic was created:", ", ".join(f"{wait:.2f}" for wait in waits))
    assert max(waits) < PATIENCE_S


def kill_controllers(running: RunningCluster, count: int) -> list[float]:
    """Kills so many leaders of the quorum, or as long as each is another one. Returns how long each time nobody could
    create a topic."""
    waits: list[float] = []
    killed: set[int] = set()
    while len(waits) < count:
        leader = eventually(lambda: quorum(running.addresses[0]).leader_id)
        if leader in killed:
            break
        killed.add(leader)
        kill(running, leader)
        killed_at = time.monotonic()
        survivors = [address for node_id, address in enumerate(running.addresses, 1) if node_id != leader]

        def create(name: str = f"topic-{leader}", survivors: list[Address] = survivors) -> None:
            with Client(survivors, timeout_s=10) as client:
                create_topic(client, name, 3)

        eventually(create)
        waits.append(time.monotonic() - killed_at)
        eventually(lambda: all_voters_caught_up(running))
    return waits


def all_voters_caught_up(running: RunningCluster) -> None:
    found = [quorum(address) for address in running.addresses]
    assert len({described.leader_epoch for described in found}) == 1
    ends = {state.log_end_offset for state in found[0].current_voters}
    assert len(found[0].current_voters) == 3
    assert min(ends) >= found[0].high_watermark
    with Client(running.addresses) as client:
        assert len(client.metadata(()).brokers) == 3


def test_a_killed_broker_is_back_with_all_that_was_acknowledged_and_the_others_notice_nothing(tmp_path: Path) -> None:
    waits: list[float] = []
    while len(waits) < KILLS:
        data = tmp_path / str(len(waits))
        with cluster("--brokers", "3", "--port", "0", "--data-dir", str(data)) as running:
            waits += kill_brokers(running, min(3, KILLS - len(waits)))
    print("seconds until the killed broker had acknowledged again:", ", ".join(f"{wait:.2f}" for wait in waits))


def kill_brokers(running: RunningCluster, count: int) -> list[float]:
    """Kills so many brokers, each once. Returns how long each one's partitions did not answer."""
    waits = []
    with Client(running.addresses) as client:
        create_topic(client, "orders", 6, configs={"flush.messages": "1"})
        partitions = client.topic("orders").partitions
    led_by = {partition.leader_id: partition.partition_index for partition in partitions}
    patient = Sender(running, {"enable.idempotence": True})
    steady = Sender(running, {"acks": "all", "retries": 0})
    for number in range(count):
        victim, other = number % 3 + 1, (number + 1) % 3 + 1
        patient.send(led_by[victim], b"before %d" % number)
        steady.send(led_by[other], b"steady before %d" % number)
        kill(running, victim)
        killed_at = time.monotonic()
        patient.begin(led_by[victim], b"during %d" % number)
        while not patient.is_done:
            steady.send(led_by[other], b"steady %d, %d" % (number, len(steady.acknowledged)))
        waits.append(time.monotonic() - killed_at)
    found = everything(running, "orders", len(partitions))
    for sender in (patient, steady):
        for index in led_by.values():
            sent = [value for partition, value in sender.acknowledged if partition == index]
            assert [value for value in found[index] if value in set(sent)] == sent, f"partition {index}"
    return waits


class Sender:
    """A producer that knows what was acknowledged, and whose failures are the test's."""

    def __init__(self, running: RunningCluster, config: dict[str, object]) -> None:
        servers = ",".join(map(str, running.addresses))
        self._producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": PATIENCE_S * 1_000} | config)
        self._under_way = 0
        self._failures: list[object] = []
        self.acknowledged: list[tuple[int, bytes]] = []

    def begin(self, partition: int, value: bytes) -> None:
        def delivered(error: object, _message: object) -> None:
            self._under_way -= 1
            if error is None:
                self.acknowledged.append((partition, value))
            else:
                self._failures.append(error)

        self._under_way += 1
        self._producer.produce("orders", value, partition=partition, on_delivery=delivered)

    @property
    def is_done(self) -> bool:
        self._producer.poll(0.01)
        assert self._failures == []
        return not self._under_way

    def send(self, partition: int, value: bytes) -> None:
        self.begin(partition, value)
        while not self.is_done:
            pass


def everything(running: RunningCluster, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """Returns the values of each partition in the order of their offsets."""
    servers = ",".join(map(str, running.addresses))
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "everything", "enable.auto.commit": False})
    found: dict[int, list[bytes]] = {}
    for index in range(partitions):
        start, end = consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=PATIENCE_S)
        consumer.assign([TopicPartition(topic, index, start)])
        found[index] = [consumed(consumer) for _ in range(start, end)]
    consumer.close()
    return found


def consumed(consumer: Any) -> bytes:
    deadline = time.monotonic() + PATIENCE_S
    while (message := consumer.poll(0.5)) is None or message.error() is not None:
        assert time.monotonic() < deadline
    value: bytes = message.value()
    return value


# ---- growing


@pytest.fixture
def one_broker(tmp_path: Path) -> Path:
    """The directory of a cluster whose node 1 has the data of a broker that was alone."""
    with tarfile.open(ONE_BROKER) as archive:
        archive.extractall(tmp_path / "1", filter="data")
    return tmp_path


def test_a_broker_that_was_alone_becomes_the_first_of_three(one_broker: Path) -> None:
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(one_broker)) as running:
        eventually(lambda: all_voters_caught_up(running))
        found = everything(running, "orders", 3)
        assert sum(map(len, found.values())) == 30
        servers = ",".join(map(str, running.addresses))
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "kitchen"})
        asked = [TopicPartition("orders", index) for index in range(3)]
        committed = [partition.offset for partition in consumer.committed(asked, timeout=PATIENCE_S)]
        assert committed == [len(found[index]) for index in range(3)]
        consumer.close()
        with Client(running.addresses) as client:
            create_topic(client, "spread", 6)
            leaders = {partition.leader_id for partition in client.topic("spread").partitions}
            assert leaders == {1, 2, 3}
            assert client.metadata(()).cluster_id == "9gom-j2FT2CJbSSnqrVe-g"
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(one_broker)) as running:
        eventually(lambda: all_voters_caught_up(running))
        assert everything(running, "orders", 3) == found
