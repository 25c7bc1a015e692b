"""Ten thousand partitions on one broker: no request and no timer looks at all of them."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.testing import Broker
from tests.broker.wire import RawClient, good

TOPICS = 10
PARTITIONS = 1_000
USED = [(f"topic-{number % TOPICS}", number * 37 % PARTITIONS) for number in range(100)]
OPEN_FILES_MAX = 200
SETTINGS = {"barnabas.max.open.files": str(OPEN_FILES_MAX)}


def produce(broker: Broker, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
    errors: list[object] = []
    for topic, partition in USED:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert not any(errors)


def read(broker: Broker) -> dict[tuple[str, int], list[bytes]]:
    settings = {"group.id": "x", "enable.partition.eof": True, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in USED])
        found: dict[tuple[str, int], list[bytes]] = {used: [] for used in USED}
        ended: set[tuple[str, int]] = set()
        while len(ended) < len(USED):
            message = consumer.poll(30)
            assert message is not None, "the broker fell silent"
            used = (message.topic(), message.partition())
            if message.error() is None:
                found[used].append(message.value())
            else:
                ended.add(used)
        return found
    finally:
        consumer.close()


def calls_on_the_loop(broker: Broker, work: Callable[[], object]) -> int:
    """How many Python functions the broker's thread enters while `work` runs on this one."""
    calls = 0
    changed = threading.Event()

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    def switch(profile: object) -> None:
        sys.setprofile(profile)  # type: ignore[arg-type]
        changed.set()

    for profile, then in ((count, work), (None, lambda: None)):
        changed.clear()
        broker._running.call(switch, profile)
        assert changed.wait(10)
        then()
    return calls


def one_of_each(broker: Broker, topic: str) -> None:
    """Metadata, Produce, ListOffsets and Fetch of one partition."""
    with RawClient(broker.port) as client:
        client.topic_id(topic)
        assert client.produce(topic, good()).error_code == 0
        assert client.list_offset(topic, -1).offset > 0
        assert client.fetch(topic).records


@pytest.mark.timeout(300)
def test_ten_thousand_partitions_are_written_read_and_there_again_after_a_restart(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with Broker(config=SETTINGS, data_dir=str(tmp_path)) as broker:
        broker.create_topics({f"topic-{number}": PARTITIONS for number in range(TOPICS)})
        produce(broker, b"first")
        assert all(values == [b"first"] for values in read(broker).values())
        assert len(os.listdir("/proc/self/fd")) - descriptors < OPEN_FILES_MAX + 100
    with Broker(config=SETTINGS, data_dir=str(tmp_path)) as broker:
        produce(broker, b"second")
        assert all(values == [b"first", b"second"] for values in read(broker).values())


@pytest.mark.timeout(300)
def test_what_a_request_costs_does_not_depend_on_the_number_of_partitions(tmp_path: Path) -> None:
    with Broker(topics={"alone": 1}) as broker:
        one_of_each(broker, "alone")
        among_few = calls_on_the_loop(broker, lambda: one_of_each(broker, "alone"))
    with Broker(data_dir=str(tmp_path)) as broker:
        broker.create_topics({f"topic-{number}": PARTITIONS for number in range(TOPICS)})
        broker.create_topics({"alone": 1})
    with Broker(data_dir=str(tmp_path)) as broker:  # again, so that nothing is being created any more
        one_of_each(broker, "alone")
        among_many = calls_on_the_loop(broker, lambda: one_of_each(broker, "alone"))
        at_rest = calls_on_the_loop(broker, lambda: threading.Event().wait(2))
    assert among_many < among_few + 100
    assert at_rest < 500
