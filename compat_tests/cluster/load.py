"""Records that are written all the time while a cluster changes, and what is found of them in the end."""

import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PATIENCE_S = 90


class Load:
    """A producer that numbers the records of each partition, and waits for all in-sync replicas (acks=all)."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = range(partitions)
        self.acknowledged: Counter[int] = Counter()
        self.failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._sent = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._is_over.is_set():
            for partition in self.partitions:
                value = str(self._sent).encode()
                self._producer.produce(self.topic, value, partition=partition, on_delivery=self._delivered)
            self._sent += 1
            self._producer.poll(0)
            self._is_over.wait(0.002)  # some hundred records a second, on machines that do much else

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[message.partition() or 0] += 1
        else:
            self.failures.append(str(error))

    def goes_on(self) -> None:
        """Waits until every partition has acknowledged what was sent after this moment."""
        goal = self._sent + 1
        deadline = time.monotonic() + PATIENCE_S
        while not all(self.acknowledged[partition] > goal for partition in self.partitions):
            assert not self.failures, self.failures[:3]
            assert time.monotonic() < deadline, f"{dict(self.acknowledged)} of {self._sent} are acknowledged"
            time.sleep(0.02)

    def finish(self) -> None:
        """Ends when everything that was sent is acknowledged."""
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0
        assert not self.failures, self.failures[:3]

    def assert_read_back(self) -> None:
        """Reads every partition from its beginning: all numbers are there, once, in their order."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(self.topic, partition, 0) for partition in self.partitions])
            found: dict[int, list[int]] = {partition: [] for partition in self.partitions}
            deadline = time.monotonic() + PATIENCE_S
            while sum(map(len, found.values())) < self._sent * len(self.partitions) and time.monotonic() < deadline:
                for message in consumer.consume(1000, 1.0):
                    note(message, found)
        finally:
            consumer.close()
        for partition in self.partitions:
            assert found[partition] == list(range(self._sent)), f"partition {partition}"


def note(message: Message, found: dict[int, list[int]]) -> None:
    value: Any = message.value()
    if message.error() is None:
        found[message.partition() or 0].append(int(value))
