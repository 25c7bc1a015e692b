"""The topic of groups, written by one broker and read by the other: `__consumer_offsets` moves between directories.

Both brokers are started here, whichever BROKER the other tests run against.
"""

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.conftest import require
from compat_tests.harness import BROKERS, KAFKA_LIBS, Broker, kafka_tool

SETTINGS = {"offsets.topic.num.partitions": "3", "group.initial.rebalance.delay.ms": "0"}
TRANSACTIONS = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
TOPIC = "orders"
GROUPS = ("classic", "next", "simple", "transacted", "aborted")


class Site:
    """A data directory that brokers of one kind are started on, one after the other."""

    def __init__(self, name: str, folder: Path, settings: dict[str, str]) -> None:
        self.name = name
        self.folder = folder
        self.settings = settings
        self.data_dir = folder / "data"

    @contextmanager
    def running(self) -> Iterator[Broker]:
        self.folder.mkdir(exist_ok=True)
        with BROKERS[self.name](self.folder, self.settings) as broker:
            yield broker
            broker.process.send_signal(signal.SIGTERM)
            broker.process.wait(timeout=30)

    def take_groups_of(self, other: "Site") -> None:
        """The log files; each topic keeps its own id. What was known about the files that were here is forgotten."""
        for target in self.data_dir.glob("__consumer_offsets-*"):
            for file in target.iterdir():
                if file.name != "partition.metadata":
                    file.unlink()
            for file in (other.data_dir / target.name).iterdir():
                if file.name != "partition.metadata":
                    shutil.copy(file, target)
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
            (self.data_dir / name).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    require(("java", KAFKA_LIBS))
    folder = tmp_path_factory.mktemp("sites")
    return {
        "kafka": Site("kafka", folder / "kafka", {**SETTINGS, **TRANSACTIONS}),
        "barnabas": Site("barnabas", folder / "barnabas", SETTINGS),
    }


@pytest.fixture(scope="module")
def written(sites: dict[str, Site]) -> dict[str, dict[str, Any]]:
    """What each broker says about the groups that it wrote itself."""
    said = {}
    for site in sites.values():
        with site.running() as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
            write_groups(broker.bootstrap, with_transactions=site.name == "kafka")
            said[site.name] = seen(broker.bootstrap, 3)
    return said


def write_groups(bootstrap: str, *, with_transactions: bool) -> None:
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


def transact(bootstrap: str, group: str, end: Callable[..., None]) -> None:
    """The group has an offset, and a transaction that moves it."""
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
    """Groups with their types and states, and all their offsets; at least so many."""
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


def test_both_brokers_say_the_same_about_what_they_wrote_themselves(written: dict[str, dict[str, Any]]) -> None:
    kafka, ours = written["kafka"], written["barnabas"]
    assert set(kafka["groups"]) == set(GROUPS)
    assert ours["groups"] == {name: kafka["groups"][name] for name in ("classic", "next", "simple")}
    assert ours["offsets"] == {name: kafka["offsets"][name] for name in ("classic", "next", "simple")}
    assert kafka["offsets"]["transacted"] == {2: (20, None)}
    assert kafka["offsets"]["aborted"] == {2: (1, None)}


def test_groups_that_kafka_wrote_are_served_by_us(
    sites: dict[str, Site], written: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    ours = Site("barnabas", tmp_path / "site", SETTINGS)
    shutil.copytree(sites["barnabas"].folder, ours.folder)
    ours.take_groups_of(sites["kafka"])
    with ours.running() as broker:
        assert seen(broker.bootstrap, len(GROUPS)) == written["kafka"]
        with consumer_of(broker.bootstrap, "next", **{"group.protocol": "consumer"}) as consumer:
            consumer.subscribe([TOPIC])
            consume(consumer, 2)  # what was not committed


def test_groups_that_we_wrote_are_served_by_kafka(
    sites: dict[str, Site], written: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    kafka = Site("kafka", tmp_path / "site", sites["kafka"].settings)
    shutil.copytree(sites["kafka"].folder, kafka.folder)
    kafka.take_groups_of(sites["barnabas"])
    with kafka.running() as broker:
        assert seen(broker.bootstrap, 3) == written["barnabas"]


def test_kafkas_own_tool_reads_our_records(sites: dict[str, Site], written: dict[str, dict[str, Any]]) -> None:
    del written  # it is there
    segments = [str(path) for path in sites["barnabas"].data_dir.glob("__consumer_offsets-*/*.log")]
    dumped = kafka_tool(
        "org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(segments), "--offsets-decoder", "--deep-iteration"
    )
    assert dumped.returncode == 0, dumped.stderr
    assert "could not be decoded" not in dumped.stdout
    for part in (
        '"group":"simple"',
        '"topic":"orders"',
        "a note of classic",
        "a note of next",
        '"protocolType":"consumer"',
    ):
        assert part in dumped.stdout, part
