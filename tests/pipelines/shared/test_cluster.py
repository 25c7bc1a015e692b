"""Kafka's Java Admin client against a broker, and against none."""

import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.failure import Failure
from tests.pipelines.records import Record, produce
from tests.processes.broker_process import BrokerProcess

NewTopic = Callable[..., str]


@pytest.fixture
def cluster(spark: SparkSession, broker: BrokerProcess) -> Cluster:
    return Cluster(spark, {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.client.id": "tests"})


def test_topics_are_found_by_name_and_by_pattern(cluster: Cluster, new_topic: NewTopic) -> None:
    one, other = new_topic(2, retention_ms="86400000"), new_topic()
    with cluster:
        found = cluster.topics([one, "missing"])
        assert list(found) == [one]
        assert (found[one].name, found[one].partitions) == (one, 2)
        assert found[one].configs == {"retention.ms": "86400000"}
        assert len(found[one].id) == 22
        assert set(cluster.topics(pattern=f"{one[:-1]}.")) == {one, other}
        assert cluster.topics(pattern=one[1:]) == {}  # the whole name must match
        assert cluster.topics([]) == {}


def test_offsets_are_those_of_every_partition(cluster: Cluster, broker: BrokerProcess, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    produce(broker.bootstrap_servers, topic, [Record(value=b"x", partition=1)] * 3)
    with cluster:
        assert cluster.begin_offsets([topic]) == {(topic, 0): 0, (topic, 1): 0}
        assert cluster.end_offsets([topic]) == {(topic, 0): 0, (topic, 1): 3}
        with pytest.raises(Failure, match="a topic that is to be read does not exist"):
            cluster.end_offsets(["missing"])


def test_topics_are_created_and_grow(cluster: Cluster, new_topic: NewTopic) -> None:
    name = f"{new_topic()}-made"
    with cluster:
        cluster.create_topic(name, 2, {"cleanup.policy": "compact"}, replication_factor=1)
        cluster.create_partitions(name, 3)
        made = cluster.topics([name])[name]
        assert (made.partitions, made.configs) == (3, {"cleanup.policy": "compact"})
        with pytest.raises(Failure, match=f"could not create topic {name}: .*exists"):
            cluster.create_topic(name, 1, {})
        with pytest.raises(Failure, match=f"could not add partitions to {name}: "):
            cluster.create_partitions(name, 3)
        with pytest.raises(Failure, match=r"could not create topic .*: .*replication factor"):
            cluster.create_topic(f"{name}-2", 1, {}, replication_factor=3)


def test_an_absent_broker_is_told_soon_with_its_address(spark: SparkSession) -> None:
    began = time.monotonic()
    cluster = Cluster(spark, {"kafka.bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5)
    with cluster, pytest.raises(Failure, match=r"^127\.0\.0\.1:1: the brokers do not answer: check that they run"):
        cluster.topics()
    assert time.monotonic() - began < 20  # Kafka's own default is a minute


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"kafka.bootstrap.servers": "no.such.invalid:9092"}, "the host in the bootstrap servers is unknown"),
        ({"kafka.bootstrap.servers": "nonsense"}, "Invalid url in bootstrap.servers: nonsense"),
        ({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.security.protocol": "NONE"}, "security.protocol"),
    ],
)
def test_settings_that_cannot_work_are_told(spark: SparkSession, settings: dict[str, str], told: str) -> None:
    with pytest.raises(Failure, match=told):
        Cluster(spark, settings)
