"""A million updates of ten thousand keys, with clients at work, while the broker and its worker are killed."""

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.processes.broker_process import BrokerProcess

UPDATES = 1_000_000
KEYS = 10_000
SEGMENT_BYTES = 1 << 20
SETTINGS = {"log.cleaner.backoff.ms": "50", "log.segment.delete.delay.ms": "500"}
TOPIC = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.1"}
CLEANER_RATE = "log.cleaner.io.max.bytes.per.second"
CLIENT = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "log_level": 2}
WAIT_S = 60


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"it took too long: {what}"
        time.sleep(0.02)


def workers_of(broker: BrokerProcess) -> list[int]:
    """The compaction processes. They are started by a thread of the broker, not by its first one."""
    tasks = Path(f"/proc/{broker.pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def has_another_worker(broker: BrokerProcess, worker: int) -> bool:
    """Says whether one other is left: a worker that was killed can still be listed beside the next one."""
    workers = workers_of(broker)
    return len(workers) == 1 and workers != [worker]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Updates(threading.Thread):
    """Update number n goes to key n % KEYS: each key's last value is known."""

    def __init__(self, bootstrap_servers: str, count: int) -> None:
        super().__init__(name="updates")
        self.count = count
        self.acknowledged = 0
        self.failures: list[str] = []
        self._producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                "queue.buffering.max.messages": 200_000,
                "message.timeout.ms": WAIT_S * 1_000,
            }
        )

    def run(self) -> None:
        for number in range(self.count):
            while True:
                try:
                    self._producer.produce("t", b"%d" % number, b"%d" % (number % KEYS), on_delivery=self._on_delivery)
                    break
                except BufferError:
                    self._producer.poll(0.01)
            if number % 1_000 == 0:
                self._producer.poll(0)
        self._producer.flush(WAIT_S)

    def _on_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failures.append(str(error))


class Reader:
    """From the start; what it read of each key, which never goes back."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap_servers,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
            }
        )
        self._consumer.assign([TopicPartition("t", 0, 0)])
        self.table: dict[int, int] = {}
        self.offset = -1
        self.count = 0

    def read_to_the_end(self, is_done: Callable[[], bool] = lambda: True) -> None:
        """Up to an end of the partition that is found when it is done."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            was_done = is_done()
            for message in self._consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is None:
                    self._take(message.offset(), int(message.key()), int(message.value()))
                    deadline = time.monotonic() + WAIT_S  # a busy machine may take longer for all of them
                elif error.code() == KafkaError._PARTITION_EOF and was_done:
                    self._consumer.close()
                    return
        raise AssertionError(f"no end after offset {self.offset}")

    def _take(self, offset: int, key: int, number: int) -> None:
        assert offset > self.offset, "offsets only grow"
        assert number > self.table.get(key, -1), f"key {key} goes back from {self.table[key]} to {number}"
        self.offset = offset
        self.table[key] = number
        self.count += 1


def create_topic(broker: BrokerProcess) -> None:
    admin = AdminClient({**CLIENT, "bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, config=TOPIC)])["t"].result()


def set_cleaner_rate(broker: BrokerProcess, bytes_per_second: str) -> None:
    admin = AdminClient({**CLIENT, "bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry(CLEANER_RATE, bytes_per_second, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result()


def log_bytes(broker: BrokerProcess) -> int:
    sizes = 0
    for path in (broker.data_dir / "t-0").glob("*.log"):
        try:
            sizes += path.stat().st_size
        except FileNotFoundError:
            pass  # replaced just now
    return sizes


needs_proc = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the worker in /proc")


@needs_proc
def test_a_million_updates_shrink_to_the_last_values_whatever_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", settings=SETTINGS) as broker:
        create_topic(broker)
        updates = Updates(broker.bootstrap_servers, UPDATES)
        updates.start()
        reader = Reader(broker.bootstrap_servers)
        reading = threading.Thread(target=reader.read_to_the_end, args=(lambda: not updates.is_alive(),))
        reading.start()
        wait_until(lambda: updates.acknowledged >= UPDATES // 3 and bool(workers_of(broker)), "a compaction")
        workers = workers_of(broker)
        broker.kill()
        wait_until(lambda: not any(map(is_alive, workers)), "the worker ends with the broker")
        broker.start()
        updates.join()
        reading.join()
        assert updates.failures == []
        assert updates.acknowledged == UPDATES
        assert (reader.offset, reader.table[KEYS - 1]) == (UPDATES - 1, UPDATES - 1)

        wait_until(lambda: log_bytes(broker) < 2 * SEGMENT_BYTES, "the log is compacted")
        fresh = Reader(broker.bootstrap_servers)
        fresh.read_to_the_end()
        assert fresh.table == {key: UPDATES - KEYS + key for key in range(KEYS)}
        assert fresh.count < UPDATES // 3
    text = broker.log.read_text()
    assert "compacted up to offset" in text
    assert "ERROR" not in text


@needs_proc
def test_a_killed_worker_is_only_a_run_that_is_tried_again(tmp_path: Path) -> None:
    slow = {**SETTINGS, CLEANER_RATE: "50000"}  # a run takes so long that every worker is killed in the middle of one
    with BrokerProcess(tmp_path / "data", settings=slow) as broker:
        create_topic(broker)
        updates = Updates(broker.bootstrap_servers, UPDATES // 4)
        updates.start()
        updates.join()
        assert updates.acknowledged == UPDATES // 4
        wait_until(lambda: bool(workers_of(broker)), "a compaction")
        for _ in range(2):
            (worker,) = workers_of(broker)
            os.kill(worker, signal.SIGKILL)
            wait_until(partial(has_another_worker, broker, worker), "another one")
        set_cleaner_rate(broker, "1e9")  # the run after the next kill is as quick as it can be
        (worker,) = workers_of(broker)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: "compacted up to offset" in broker.log.read_text(), "the log is compacted")
        fresh = Reader(broker.bootstrap_servers)
        fresh.read_to_the_end()
        assert fresh.table == {key: UPDATES // 4 - KEYS + key for key in range(KEYS)}
    assert broker.log.read_text().count("its compaction will be tried again: the process that did it ended") == 3
