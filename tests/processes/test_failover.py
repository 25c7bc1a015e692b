"""A process of a replicated cluster is killed under load: no client sees an error, and nothing is lost or repeated.

`FAILOVER_KILLS=20` kills more often than `make test` does. The longest gap between two acknowledgements of a partition
is printed (`-s`); the bounds are those that only a defect breaks on a busy machine.
"""

import asyncio
import gc
import logging
import os
import signal
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.client.admin import create_topic
from barnabas.client.client import Client
from tests.processes.test_cluster import RunningCluster, cluster
from tests.processes.test_cluster_kills import PATIENCE_S, eventually, everything, kill, pid_of, quorum

KILLS = int(os.environ.get("FAILOVER_KILLS", "1"))
PARTITIONS = 3
LASTING_S = 60.0
"""How long a process must live so that the supervisor forgets that it was killed, and starts it at once again."""


# A client may forget to close the socket of a connection that failed: that is its own affair.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """Collects the sockets that clients forgot, so that no other test is blamed for them. What they log would hold on
    to their sockets."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class Sender(ABC, threading.Thread):
    """A client that sends numbers to every partition, each a moment after the one before, until it is stopped."""

    def __init__(self, running: RunningCluster) -> None:
        super().__init__()
        self.servers = [str(address) for address in running.addresses]
        self.is_stopped = False
        self.errors: list[BaseException | str] = []
        self.acknowledged: dict[int, list[tuple[float, int, bytes]]] = {index: [] for index in range(PARTITIONS)}
        """When each record was acknowledged, its offset, and its value, by partition."""

    def run(self) -> None:
        try:
            self.send_all()
        except BaseException as error:
            self.errors.append(error)

    @abstractmethod
    def send_all(self) -> None: ...

    def value(self, number: int) -> bytes:
        return f"{type(self).__name__} {number}".encode()

    def note(self, partition: int, offset: int, value: bytes) -> None:
        self.acknowledged[partition].append((time.monotonic(), offset, value))

    def gaps_since(self, begin: float) -> list[float]:
        """Returns the longest silence of each partition, from this time on."""
        gaps = []
        for index in range(PARTITIONS):
            times = [begin, *(at for at, _, _ in self.acknowledged[index] if at > begin)]
            gaps.append(max((later - earlier for earlier, later in pairwise(times)), default=0.0))
        return gaps


class Librdkafka(Sender):
    def send_all(self) -> None:
        producer = Producer(
            {"bootstrap.servers": ",".join(self.servers), "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )

        def delivered(error: object, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.note(message.partition(), message.offset(), message.value())

        number = 0
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                producer.produce("orders", self.value(number), partition=partition, on_delivery=delivered)
            number += 1
            producer.poll(0.02)
        assert producer.flush(PATIENCE_S) == 0


class KafkaPython(Sender):
    def send_all(self) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.servers, acks="all", enable_idempotence=True)
        number = 0
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                value = self.value(number)
                sent = producer.send("orders", value, partition=partition)
                sent.add_callback(lambda told, value=value: self.note(told.partition, told.offset, value))
                sent.add_errback(self.errors.append)
            number += 1
            time.sleep(0.02)
        producer.close(PATIENCE_S)


class Aiokafka(Sender):
    def send_all(self) -> None:
        asyncio.run(self._send_all())

    async def _send_all(self) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(bootstrap_servers=self.servers, enable_idempotence=True, acks="all")
        await producer.start()
        under_way: set[asyncio.Future[Any]] = set()
        number = 0
        while not self.is_stopped:
            for partition in range(PARTITIONS):
                value = self.value(number)
                sent = await producer.send("orders", value, partition=partition)
                sent.add_done_callback(lambda sent, value=value: self._sent(sent, value))
                under_way.add(sent)
                sent.add_done_callback(under_way.discard)
            number += 1
            await asyncio.sleep(0.02)
        await producer.stop()

    def _sent(self, sent: "asyncio.Future[Any]", value: bytes) -> None:
        if (error := sent.exception()) is not None:
            self.errors.append(error)
        else:
            told = sent.result()
            self.note(told.partition, told.offset, value)


def leader_of(running: RunningCluster, index: int) -> int:
    with Client(running.addresses, timeout_s=10) as client:
        leader: int = client.topic("orders").partitions[index].leader_id
    assert leader > 0
    return leader


def controller_of(running: RunningCluster) -> int:
    controller: int = quorum(running.addresses[0]).leader_id
    assert controller > 0
    return controller


def follower_of(running: RunningCluster, index: int) -> int:
    """Returns a broker that neither leads this partition nor is the controller."""
    (other, *_) = {1, 2, 3} - {leader_of(running, index), controller_of(running)}
    return other


Victim = Callable[[RunningCluster, int], int]
VICTIMS: dict[str, Victim] = {
    "leader": leader_of,
    "follower": follower_of,
    "controller": lambda running, _index: controller_of(running),
}


def chosen(running: RunningCluster, victim: str, number: int) -> int:
    found: int = eventually(lambda: VICTIMS[victim](running, number % PARTITIONS))
    return found


def all_in_sync(running: RunningCluster) -> None:
    with Client(running.addresses, timeout_s=10) as client:
        assert len(client.metadata(()).brokers) == 3
        for partition in client.topic("orders").partitions:
            assert len(partition.isr) == 3


@contextmanager
def under_load(data: Path) -> Iterator[tuple[RunningCluster, list[Sender]]]:
    """Starts three brokers and three clients. In the end all that was acknowledged is there, once and in order."""
    with cluster("--brokers", "3", "--port", "0", "--data-dir", str(data)) as running:
        with Client(running.addresses) as client:
            create_topic(client, "orders", PARTITIONS, 3, configs={"min.insync.replicas": "2"})
        senders: list[Sender] = [Librdkafka(running), KafkaPython(running), Aiokafka(running)]
        for sender in senders:
            sender.start()
        try:
            wait_for_acknowledgements(senders)
            yield running, senders
        finally:
            for sender in senders:
                sender.is_stopped = True
            for sender in senders:
                sender.join(2 * PATIENCE_S)
        found = everything(running, "orders", PARTITIONS)
    for sender in senders:
        assert sender.errors == []
        for index, acknowledged in sender.acknowledged.items():
            values = [value for _, _, value in acknowledged]
            prefix = type(sender).__name__.encode()
            assert [value for value in found[index] if value.startswith(prefix)] == values, f"partition {index}"
            assert [found[index][offset] for _, offset, _ in acknowledged] == values


def print_gaps(what: str, senders: list[Sender], begin: float) -> None:
    gaps = ", ".join(f"{type(sender).__name__} {max(sender.gaps_since(begin)):.2f}" for sender in senders)
    print(f"{what}: longest gap between acknowledgements in seconds: {gaps}")


@pytest.mark.parametrize("victim", VICTIMS)
def test_clients_do_not_notice_that_a_process_was_killed(tmp_path: Path, victim: str) -> None:
    with under_load(tmp_path) as (running, senders):
        for number in range(KILLS):
            killed = chosen(running, victim, number)
            killed_at = time.monotonic()
            kill(running, killed)
            wait_for_acknowledgements(senders)
            eventually(lambda: all_in_sync(running))
            back_s = time.monotonic() - killed_at
            print_gaps(f"{victim} {killed} killed, all in sync after {back_s:.2f} s", senders, killed_at)
            if number + 1 < KILLS:
                time.sleep(LASTING_S)


def test_clients_do_not_notice_a_rolling_restart(tmp_path: Path) -> None:
    with under_load(tmp_path) as (running, senders):
        before, began_at = set(running.pids()), time.monotonic()
        running.process.send_signal(signal.SIGHUP)

        def all_are_new() -> None:
            assert len(running.pids()) == 3
            assert not before & set(running.pids())
            all_in_sync(running)

        eventually(all_are_new)
        wait_for_acknowledgements(senders)
        print_gaps("rolling restart", senders, began_at)


def test_a_leader_that_hangs_is_replaced_when_its_session_ends(tmp_path: Path) -> None:
    with under_load(tmp_path) as (running, senders):
        (leader, *_) = {leader_of(running, index) for index in range(PARTITIONS)} - {controller_of(running)}
        pid, paused_at = pid_of(running, leader), time.monotonic()
        os.kill(pid, signal.SIGSTOP)
        try:
            others = [address for node_id, address in enumerate(running.addresses, 1) if node_id != leader]

            def nobody_is_sent_there() -> None:
                with Client(others, timeout_s=5) as client:
                    assert leader not in {partition.leader_id for partition in client.topic("orders").partitions}

            eventually(nobody_is_sent_there)
            print(f"leader {leader} was replaced {time.monotonic() - paused_at:.2f} s after it was paused")
        finally:
            os.kill(pid, signal.SIGCONT)  # what clients have under way there is refused now, and sent elsewhere
        eventually(lambda: all_in_sync(running))
        wait_for_acknowledgements(senders)


def wait_for_acknowledgements(senders: list[Sender], count: int = 25) -> None:
    """Waits until every client has had so many more records of each partition acknowledged."""
    wanted = [
        (sender, index, len(acknowledged) + count)
        for sender in senders
        for index, acknowledged in sender.acknowledged.items()
    ]
    deadline = time.monotonic() + 2 * PATIENCE_S
    for sender, index, size in wanted:
        while len(sender.acknowledged[index]) < size:
            assert sender.errors == []
            assert sender.is_alive()
            assert time.monotonic() < deadline, f"{type(sender).__name__} has no acknowledgement of partition {index}"
            time.sleep(0.01)
