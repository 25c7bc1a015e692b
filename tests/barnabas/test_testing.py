"""The broker that other people's tests start: quick, alone, and gone without a trace."""

import gc
import os
import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from barnabas.protocol.errors import InvalidConfig, KafkaError
from barnabas.testing import Broker


def open_files() -> list[str]:
    """What every descriptor of this process leads to."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            pass  # the one that listed them
    return sorted(path for path in found if not path.startswith("/proc/"))


def use(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert producer.send("orders", b"two coffees", partition=0).get(timeout=10).offset == 0
    finally:
        producer.close()


def test_a_client_can_use_it() -> None:
    with Broker(topics={"orders": 3}) as broker:
        use(broker)
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
        try:
            consumer.assign([TopicPartition("orders", 0)])
            assert next(consumer).value == b"two coffees"
            assert consumer.partitions_for_topic("orders") == {0, 1, 2}
        finally:
            consumer.close()


def test_it_leaves_no_thread_no_descriptor_and_no_directory() -> None:
    with Broker({"orders": 1}) as broker:
        use(broker)  # once before, so that whatever is loaded and opened for good is there
    gc.collect()
    threads, files = set(threading.enumerate()), open_files()
    for _ in range(20):
        with Broker({"orders": 1}) as broker:
            assert Path(broker.data_dir, "orders-0").is_dir()
            use(broker)
        assert not Path(broker.data_dir).exists()
    gc.collect()
    assert set(threading.enumerate()) == threads
    assert open_files() == files


def test_it_is_ready_in_well_under_100_ms() -> None:
    """The best of some, since the machine may be busy with something else."""
    times_s = []
    for _ in range(10):
        started = time.perf_counter()
        broker = Broker({"orders": 3}).start()
        times_s.append(time.perf_counter() - started)
        broker.stop()
    assert min(times_s) < 0.05


def test_many_live_side_by_side_in_one_process() -> None:
    brokers = [Broker({"orders": 1}).start() for _ in range(8)]
    try:
        assert len({broker.port for broker in brokers}) == 8
        for broker in brokers:
            use(broker)  # the first record of each
    finally:
        for broker in brokers:
            broker.stop()


def test_a_directory_of_ones_own_is_kept_and_found_again(tmp_path: Path) -> None:
    with Broker({"orders": 1}, data_dir=str(tmp_path)) as broker:
        use(broker)
    with Broker(data_dir=str(tmp_path)) as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        try:
            assert producer.send("orders", b"more").get(timeout=10).offset == 1
        finally:
            producer.close()
    assert (tmp_path / "orders-0").is_dir()


def test_it_can_be_stopped_twice_and_started_again() -> None:
    broker = Broker({"orders": 1})
    for _ in range(2):
        broker.start()
        use(broker)
        broker.stop()
        broker.stop()


@pytest.mark.parametrize(
    ("topics", "config", "error"),
    [
        ({}, {"num.partition": "3"}, InvalidConfig),  # no such key
        ({"no/topic": 1}, {}, KafkaError),
        ({"orders": 0}, {}, KafkaError),
        ({}, {"listeners": "PLAINTEXT://no.such.host.invalid:0"}, KafkaError),
    ],
)
def test_what_cannot_be_started_says_why_and_leaves_nothing(
    topics: dict[str, int], config: dict[str, str], error: type[Exception]
) -> None:
    threads, files = set(threading.enumerate()), open_files()
    broker = Broker(topics, config)
    with pytest.raises(error):
        broker.start()
    gc.collect()
    assert set(threading.enumerate()) == threads
    assert open_files() == files
    assert not Path(broker.data_dir).exists()
