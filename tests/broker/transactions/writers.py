"""Producers of real clients that write in transactions, and a reader of what was committed."""

from collections.abc import Callable, Iterable
from typing import Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer

TOPIC, PARTITIONS = "orders", 3
WITHIN_S = 60
END = "the end"


class Writer(Protocol):
    """One producer with a transactional id. Creating it fences whoever had the id before."""

    def begin(self) -> None: ...

    def write(self, partition: int, value: str) -> None: ...

    def flush(self) -> None:
        """Returns when what was written is stored."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Confluent:
    def __init__(self, servers: str, transactional_id: str) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": transactional_id, "log_level": 0, "linger.ms": 0}
        )
        self._producer.init_transactions(WITHIN_S)
        self.begin = self._producer.begin_transaction

    def write(self, partition: int, value: str) -> None:
        self._producer.produce(TOPIC, value, partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(WITHIN_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(WITHIN_S)

    def abort(self) -> None:
        self._producer.abort_transaction(WITHIN_S)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython:
    def __init__(self, servers: str, transactional_id: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=servers, transactional_id=transactional_id)
        self._producer.init_transactions()
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction

    def write(self, partition: int, value: str) -> None:
        self._producer.send(TOPIC, value.encode(), partition=partition)

    def flush(self) -> None:
        self._producer.flush(WITHIN_S)

    def close(self) -> None:
        self._producer.close(timeout=WITHIN_S)


WRITERS: dict[str, Callable[[str, str], Writer]] = {"confluent-kafka": Confluent, "kafka-python": KafkaPython}


def write(writer: Writer, values: Iterable[str]) -> None:
    """Spreads these over the partitions."""
    for number, value in enumerate(values):
        writer.write(number % PARTITIONS, value)


def committed(servers: str) -> list[str]:
    """Everything that was committed, in order. A last transaction marks the end of each partition."""
    marker = Confluent(servers, "reader")
    marker.begin()
    write(marker, [END] * PARTITIONS)
    marker.commit()
    return read(servers, "read_committed")


def read(servers: str, isolation_level: str) -> list[str]:
    """What a reader gets up to the end of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers", "isolation.level": isolation_level})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    values: list[str] = []
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(WITHIN_S)
        assert message is not None, f"nothing came after {values}"
        if message.error() is None:
            value = str(message.value(), "utf-8")
            ends += value == END
            values.append(value)
    consumer.close()
    return [value for value in values if value != END]
