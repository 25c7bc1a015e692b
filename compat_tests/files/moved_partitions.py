"""Partitions for moving between brokers: written once, and read in every way before and after."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.differential.batches import Batch, Record
from compat_tests.differential.sides import Side
from compat_tests.harness.groups import eventually

HOUR_MS = 3_600_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Records are hours apart, so that every few of them get a segment of their own; every batch gets an entry in the index.
HOURLY = {"segment.ms": "600000", "index.interval.bytes": "1"}
CONFIGS = {
    "mixed": HOURLY,
    "compacted": {**HOURLY, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "sequences": {"index.interval.bytes": "1"},
    "transacted": HOURLY,
    "stranger": {},
}
TOPICS = ("mixed", "compacted", "sequences")
"""The topics that both brokers write. Only Kafka does transactions, so far."""
SETTINGS = {"log.cleaner.backoff.ms": "50"}

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class Reading(NamedTuple):
    records: list[Row]
    committed: list[Row]
    by_time: dict[int, int]


class Written(NamedTuple):
    producer_id: int
    readings: dict[str, Reading]


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, 1, 1, config=configs) for topic, configs in CONFIGS.items()])
    for future in made.values():
        future.result(30)


def write_partitions(bootstrap: str, port: int, start_ms: int, *, with_transactions: bool) -> Written:
    write_mixed(bootstrap, start_ms)
    write_compacted(bootstrap, start_ms)
    write(bootstrap, "stranger", [(b"k", b"v", [], start_ms)])
    producer_id = write_sequences(port, start_ms)
    topics: tuple[str, ...] = TOPICS
    if with_transactions:
        write_transacted(bootstrap, start_ms)
        topics = (*TOPICS, "transacted")
    return Written(producer_id, {topic: read(bootstrap, topic, start_ms) for topic in topics})


def write(bootstrap: str, topic: str, records: list[tuple[Any, ...]], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 100, **settings})
    for key, value, headers, timestamp in records:
        producer.produce(topic, value, key, partition=0, headers=headers, timestamp=timestamp)
    assert producer.flush(30) == 0


def write_mixed(bootstrap: str, start_ms: int) -> None:
    """Writes a batch of each codec. Times go back within one, and once from one to the next."""
    for number, codec in enumerate(CODECS):
        at = start_ms + number * HOUR_MS
        records = [
            (b"key", b"value" * 50, [], at),
            (None, b"no key", [("header", b"x"), ("header", b""), ("nothing", None)], at + 5),
            (b"a tombstone", None, [], at - 10 * HOUR_MS if number == 3 else at - 5),
            (b"", b"", [], at + 1),
        ]
        write(bootstrap, "mixed", records, **{"compression.codec": codec})


def write_compacted(bootstrap: str, start_ms: int) -> None:
    """Writes five keys, over and over; the last is deleted. Waits until all but the active segment is compacted."""
    for number in range(5):
        at = start_ms + number * HOUR_MS
        records = [(b"%d" % key, b"%d-%d" % (number, key), [("n", b"%d" % number)], at + key) for key in range(5)]
        write(bootstrap, "compacted", [*records, (b"4", None, [], at + 9)], **{"compression.codec": "lz4"})
    eventually(
        lambda: len(records_of(bootstrap, "compacted")) == 5 + 6,  # each key once, and the active segment
        "compacted",
        lambda: records_of(bootstrap, "compacted"),
        seconds=30,
    )


def write_sequences(port: int, start_ms: int) -> int:
    """Writes three batches of an idempotent producer, byte by byte: the next one is known, and what would be a
    repetition."""
    side = Side("writer", port)
    try:
        answer = side.call("InitProducerId", {"TransactionalId": None, "TransactionTimeoutMs": 10_000}, 5)
        producer_id: int = answer["ProducerId"]
        for sequence in (0, 2, 4):
            assert send(side, producer_id, sequence, start_ms) == (0, sequence)
    finally:
        side.close()
    return producer_id


def send(side: Side, producer_id: int, sequence: int, at_ms: int) -> tuple[int, int]:
    """Returns the error code and base offset that a batch of two records gets."""
    records = (Record(value=b"%d" % sequence), Record(value=b"%d" % (sequence + 1)))
    batch = Batch(records=records, timestamp=at_ms, producer_epoch=0, base_sequence=sequence)
    partition = {"Index": 0, "Records": batch.encoded(producer_id)}
    topic = {"Name": "sequences", "PartitionData": [partition]}
    answer = side.call("Produce", {"Acks": -1, "TimeoutMs": 10_000, "TopicData": [topic]}, 9)
    (told,) = answer["Responses"][0]["PartitionResponses"]
    return told["ErrorCode"], told["BaseOffset"]


def write_transacted(bootstrap: str, start_ms: int) -> None:
    """Writes with two producers by turns: one commits, aborts, commits; the other uses no transaction."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
    producer.init_transactions(30)
    ends = (Producer.commit_transaction, Producer.abort_transaction, Producer.commit_transaction)
    for number, end in enumerate(ends):
        producer.begin_transaction()
        for key in (b"a", b"b"):
            at = start_ms + number * HOUR_MS
            producer.produce("transacted", b"%d" % number, key, partition=0, timestamp=at, headers=[("h", b"1")])
        assert producer.flush(30) == 0
        write(bootstrap, "transacted", [(b"other", b"%d" % number, [], start_ms + number * HOUR_MS)])
        end(producer, 30)


def read(bootstrap: str, topic: str, start_ms: int) -> Reading:
    times = [start_ms + number * HOUR_MS + more for number in (-10, *range(-1, 6)) for more in (-1, 0, 6)]
    return Reading(
        records_of(bootstrap, topic),
        records_of(bootstrap, topic, isolation="read_committed"),
        dict(zip(times, offsets_by_time(bootstrap, topic, times))),
    )


def records_of(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Row]:
    settings = {"isolation.level": isolation, "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "fetch.wait.max.ms": 10, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    deadline = time.monotonic() + 30
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return rows
            headers = list(message.headers() or ())
            rows.append((message.offset(), message.timestamp()[1], message.key(), message.value(), headers))
        raise AssertionError(f"{topic} does not end")
    finally:
        consumer.close()


def offsets_by_time(bootstrap: str, topic: str, times: list[int]) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    try:
        asked = [consumer.offsets_for_times([TopicPartition(topic, 0, at)], 30)[0] for at in times]
    finally:
        consumer.close()
    return [found.offset for found in asked]


def epochs_in(partition: Path) -> list[tuple[int, int]]:
    """Returns the leader epochs and their first offsets, from `leader-epoch-checkpoint`."""
    _, _, *lines = (partition / "leader-epoch-checkpoint").read_text().splitlines()
    return [(int(epoch), int(offset)) for epoch, offset in (line.split() for line in lines)]
