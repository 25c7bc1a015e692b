"""Groups for moving between brokers: their members, offsets and notes, and transactions that moved offsets."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "orders"
GROUPS = ("classic", "next", "simple", "transacted", "aborted")
SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}


def write_groups(bootstrap: str, *, with_transactions: bool) -> dict[str, Any]:
    """Writes groups. Returns what the broker says about them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(4):
        producer.produce(TOPIC, b"value", partition=partition)
    producer.flush()
    for group, protocol in (("classic", "classic"), ("next", "consumer")):
        with consumer_of(bootstrap, group, **{"group.protocol": protocol}) as consumer:
            consumer.subscribe([TOPIC])
            consume(consumer, 4)
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1, f"a note of {group}")], asynchronous=False)
            consumer.commit(offsets=[TopicPartition(TOPIC, 3, 1)], asynchronous=False)
    with consumer_of(bootstrap, "simple") as consumer:
        for offset in range(10):
            consumer.commit(offsets=[TopicPartition(TOPIC, 1, offset)], asynchronous=False)
    if with_transactions:
        transact(bootstrap, "transacted", Producer.commit_transaction)
        transact(bootstrap, "aborted", Producer.abort_transaction)
    return seen(bootstrap, 3)


def transact(bootstrap: str, group: str, end: Callable[..., None]) -> None:
    """Commits an offset, and begins a transaction that moves it."""
    with consumer_of(bootstrap, group) as consumer:
        consumer.commit(offsets=[TopicPartition(TOPIC, 2, 1)], asynchronous=False)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 2, 20)], consumer.consumer_group_metadata(), 30)
        end(producer, 30)


@contextmanager
def consumer_of(bootstrap: str, group: str, **settings: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def consume(consumer: Consumer, count: int) -> None:
    for _ in range(60):
        messages = consumer.consume(count, timeout=1)
        assert all(message.error() is None for message in messages)
        count -= len(messages)
        if count <= 0:
            return
    raise AssertionError("the records did not come")


def seen(bootstrap: str, count: int) -> dict[str, Any]:
    """Returns groups with their types and states, and all their offsets; at least so many."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + 30  # Kafka says that it has started before it has loaded its groups
    while len((listed := admin.list_consumer_groups().result(30)).valid) < count and time.monotonic() < deadline:
        pass
    assert listed.errors == []
    groups = {group.group_id: (group.type.name, group.state.name) for group in listed.valid}
    return {"groups": groups, "offsets": {group: offsets_of(bootstrap, group) for group in groups}}


def offsets_of(bootstrap: str, group: str) -> dict[int, tuple[int, str | None]]:
    with consumer_of(bootstrap, group) as consumer:
        found = consumer.committed([TopicPartition(TOPIC, index) for index in range(4)], timeout=30)
    return {place.partition: (place.offset, place.metadata or None) for place in found if place.offset >= 0}
