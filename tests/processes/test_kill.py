"""`kill -9` of the real process under load, twenty times, with one idempotent producer that lives through it all."""

import threading
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.processes.broker_process import BrokerProcess

KILLS = 20
ACKS_BETWEEN_KILLS = 150
PARTITIONS = 2
TOPICS = {
    "written": {},  # acknowledged after the write: a killed process leaves the page cache to the kernel
    "synced": {"flush.messages": "1"},  # acknowledged after the fsync
    "rolled": {"segment.bytes": str(1 << 20), "flush.messages": "1"},
}
VALUE_PADDING = b"." * 900


class Load:
    """Numbers each partition's records 0, 1, 2, ... and remembers what was acknowledged where."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.acknowledged: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        self.produced: dict[tuple[str, int], int] = defaultdict(int)
        self.failures: list[str] = []
        self._acks = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "queue.buffering.max.messages": 3_000,
                "message.timeout.ms": 60_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
            }
        )
        self._thread = threading.Thread(target=self._run, name="load")

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "records were left undelivered"

    def wait_for_acks(self, count: int) -> None:
        with self._changed:
            target = self._acks + count
            assert self._changed.wait_for(lambda: self._acks >= target or self.failures, timeout=60), "no acks"

    def _run(self) -> None:
        while not self._stopping.is_set():
            for topic in TOPICS:
                for partition in range(PARTITIONS):
                    self._produce(topic, partition)
            self._producer.poll(0.001)

    def _produce(self, topic: str, partition: int) -> None:
        number = self.produced[topic, partition]
        value = b"%d %b" % (number, VALUE_PADDING)
        try:
            self._producer.produce(topic, value, partition=partition, on_delivery=self._on_delivery)
        except BufferError:
            self._producer.poll(0.05)
        else:
            self.produced[topic, partition] = number + 1

    def _on_delivery(self, error: object, message: Message) -> None:
        with self._changed:
            if error is not None:
                self.failures.append(f"{message.topic()}-{message.partition()}: {error}")
            else:
                key = (message.topic(), message.partition())
                self.acknowledged[key][message.offset()] = int(message.value().split()[0])
                self._acks += 1
            self._changed.notify_all()


def read_all(bootstrap_servers: str, topic: str, partition: int) -> list[tuple[int, int]]:
    """Offset and number of every record."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True}
    )
    try:
        target = TopicPartition(topic, partition, 0)
        _, end = consumer.get_watermark_offsets(target, timeout=10)
        consumer.assign([target])
        found: list[tuple[int, int]] = []
        while len(found) < end:
            messages = consumer.consume(min(1_000, end - len(found)), timeout=10)
            assert messages, f"{topic}-{partition} stops at {found[-1:]} before {end}"
            for message in messages:
                assert message.error() is None, message.error()
                found.append((message.offset(), int(message.value().split()[0])))
        return found
    finally:
        consumer.close()


@pytest.mark.timeout(300)
def test_twenty_kills_lose_nothing_that_was_acknowledged_and_repeat_nothing(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        topics = [NewTopic(name, PARTITIONS, config=config) for name, config in TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(10)
        load = Load(broker.bootstrap_servers)
        load.start()
        try:
            for _ in range(KILLS):
                load.wait_for_acks(ACKS_BETWEEN_KILLS)
                broker.kill()
                broker.start()
        finally:
            load.finish()
        assert not load.failures
        for (topic, partition), acknowledged in load.acknowledged.items():
            found = read_all(broker.bootstrap_servers, topic, partition)
            assert [offset for offset, _ in found] == list(range(len(found))), "offsets repeat or skip"
            assert [number for _, number in found] == list(range(load.produced[topic, partition]))
            by_offset = dict(found)
            assert {offset: by_offset[offset] for offset in acknowledged} == acknowledged
        assert broker.stop() == 0
    text = broker.log.read_text()
    assert text.count("recovered") >= KILLS
    assert "a bug" not in text
