"""Produces and reads with confluent-kafka, quickly and in the order of partitions and offsets."""

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 20


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int | None = None


def create_topic(bootstrap: str, name: str, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=configs or {})
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.create_topics([topic])[name].result(TIMEOUT_S)


def delete_topic(bootstrap: str, name: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    client.delete_topics([name])[name].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, records: Iterable[Record]) -> None:
    """Returns when all are acknowledged."""
    errors: list[object] = []
    # One request at a time keeps the order too, and does not wait half a second for a producer id.
    order = {"max.in.flight.requests.per.connection": 1, "acks": "all"}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **order})

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(error)

    for record in records:
        more = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        headers = list(record.headers)
        producer.produce(
            topic, record.value, record.key, record.partition, headers=headers, on_delivery=delivered, **more
        )
        producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    assert not errors, errors
    assert left == 0, f"{left} records were not acknowledged"


def read(bootstrap: str, topic: str) -> list[Record]:
    """Everything that is in the topic now, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the end of a partition is told when a fetch has waited in vain
        }
    )
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        ended: set[int] = set()
        found: list[Record] = []
        while len(ended) < len(partitions):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "the broker did not answer in time"
            if message.error() is None:
                found.append(_record(message))
            elif message.error().name() == "_PARTITION_EOF":
                ended.add(message.partition())
            else:
                raise AssertionError(message.error())
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset or 0))


def _record(message: object) -> Record:
    kind, timestamp_ms = message.timestamp()  # type: ignore[attr-defined]
    return Record(
        message.key(),  # type: ignore[attr-defined]
        message.value(),  # type: ignore[attr-defined]
        tuple(message.headers() or ()),  # type: ignore[attr-defined]
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.partition(),  # type: ignore[attr-defined]
        message.offset(),  # type: ignore[attr-defined]
    )
