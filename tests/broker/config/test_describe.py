"""DescribeConfigs. The expected rows are what a Kafka 4.3 broker answered when it was given the same properties."""

from typing import Any

import pytest

from barnabas.base.config_def import ConfigType
from barnabas.broker.config.broker_config import BrokerProperties
from barnabas.broker.config.describe import ConfigDescriber, DescribedConfig, Synonym
from barnabas.protocol.config_types import ConfigSource
from barnabas.storage.log_config import LogConfig

TOPIC, NODE, CLUSTER, STATIC, DEFAULT = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
    ConfigSource.DEFAULT_CONFIG,
)

PROPERTIES = BrokerProperties(
    static={
        "node.id": "1",
        "num.partitions": "2",
        "log.retention.hours": "24",
        "log.roll.hours": "12",
        "log.segment.bytes": "2097152",
        "log.flush.scheduler.interval.ms": "5000",
        "ssl.keystore.password": "secret",
        "super.users": "User:a",
    },
    cluster={"log.retention.ms": "8888", "message.max.bytes": "2000000"},
    node={"log.retention.ms": "7777", "leader.replication.throttled.rate": "1000"},
)
Synonyms = list[tuple[Any, ...]]
OVERRIDES = {"retention.ms": "1000", "cleanup.policy": "compact, delete"}


def entry(entries: list[DescribedConfig], name: str) -> DescribedConfig:
    return next(entry for entry in entries if entry.name == name)


def row(described: DescribedConfig) -> tuple[str | None, ConfigSource, Synonyms]:
    return described.value, described.source, [tuple(synonym) for synonym in described.synonyms]


BROKERS_RETENTION = [
    ("log.retention.ms", "7777", NODE),
    ("log.retention.ms", "8888", CLUSTER),
    ("log.retention.hours", "24", STATIC),
    ("log.retention.hours", "168", DEFAULT),
]


@pytest.mark.parametrize(
    ("name", "value", "source", "synonyms"),
    [
        ("retention.ms", "1000", TOPIC, [("retention.ms", "1000", TOPIC), *BROKERS_RETENTION]),
        (
            "cleanup.policy",  # the topic's value is shown as it was understood
            "compact,delete",
            TOPIC,
            [("cleanup.policy", "compact,delete", TOPIC), ("log.cleanup.policy", "delete", DEFAULT)],
        ),
        (
            "segment.bytes",
            "2097152",
            STATIC,
            [("log.segment.bytes", "2097152", STATIC), ("log.segment.bytes", "1073741824", DEFAULT)],
        ),
        (
            "max.message.bytes",
            "2000000",
            CLUSTER,
            [("message.max.bytes", "2000000", CLUSTER), ("message.max.bytes", "1048588", DEFAULT)],
        ),
        ("segment.ms", "43200000", DEFAULT, []),  # given by log.roll.hours alone: Kafka shows it so
        ("flush.ms", "5000", DEFAULT, []),
        ("index.interval.bytes", "4096", DEFAULT, [("log.index.interval.bytes", "4096", DEFAULT)]),
        ("remote.storage.enable", "false", DEFAULT, []),  # no broker key stands behind it
        ("leader.replication.throttled.replicas", "", DEFAULT, []),
    ],
)
def test_a_topics_value_comes_with_its_source_and_synonyms(
    name: str, value: str, source: ConfigSource, synonyms: Synonyms
) -> None:
    assert row(entry(ConfigDescriber(PROPERTIES).topic(OVERRIDES), name)) == (value, source, synonyms)


def test_a_topic_that_sets_nothing_shows_the_brokers_value() -> None:
    described = entry(ConfigDescriber(PROPERTIES).topic({}), "retention.ms")
    assert row(described) == ("7777", NODE, BROKERS_RETENTION)
    assert not described.is_default


@pytest.mark.parametrize(
    ("name", "value", "source", "synonyms"),
    [
        ("log.retention.ms", "7777", NODE, BROKERS_RETENTION),
        (
            "log.retention.hours",
            "24",
            STATIC,
            [("log.retention.hours", "24", STATIC), ("log.retention.hours", "168", DEFAULT)],
        ),
        ("log.retention.minutes", None, DEFAULT, []),
        ("log.roll.ms", None, DEFAULT, []),
        ("num.partitions", "2", STATIC, [("num.partitions", "2", STATIC), ("num.partitions", "1", DEFAULT)]),
        ("broker.id", "1", STATIC, [("broker.id", "1", STATIC), ("broker.id", "-1", DEFAULT)]),  # follows node.id
        ("advertised.listeners", None, DEFAULT, []),
        ("leader.replication.throttled.rate", "1000", NODE, [("leader.replication.throttled.rate", "1000", NODE)]),
        ("ssl.keystore.password", None, STATIC, [("ssl.keystore.password", None, STATIC)]),  # never told
        ("super.users", None, STATIC, [("super.users", None, STATIC)]),  # nor what has no known type
    ],
)
def test_a_brokers_value_comes_with_its_source_and_synonyms(
    name: str, value: str | None, source: ConfigSource, synonyms: Synonyms
) -> None:
    assert row(entry(ConfigDescriber(PROPERTIES).broker(), name)) == (value, source, synonyms)


@pytest.mark.parametrize(
    ("name", "read_only", "is_sensitive", "config_type"),
    [
        ("log.retention.ms", False, False, ConfigType.LONG),
        ("log.retention.hours", True, False, ConfigType.INT),
        ("node.id", True, False, ConfigType.INT),
        ("ssl.keystore.password", False, True, ConfigType.PASSWORD),
        ("super.users", True, True, ConfigType.UNKNOWN),
        ("log.cleanup.policy", False, False, ConfigType.LIST),
    ],
)
def test_a_broker_key_says_whether_it_can_change_and_whether_it_is_secret(
    name: str, read_only: bool, is_sensitive: bool, config_type: ConfigType
) -> None:
    described = entry(ConfigDescriber(PROPERTIES).broker(), name)
    assert (described.read_only, described.is_sensitive, described.config_type) == (
        read_only,
        is_sensitive,
        config_type,
    )


def test_the_clusters_own_values_are_those_altered_for_every_broker() -> None:
    described = ConfigDescriber(PROPERTIES).cluster_default()
    assert {entry.name: row(entry) for entry in described} == {
        "log.retention.ms": ("8888", CLUSTER, [("log.retention.ms", "8888", CLUSTER)]),  # not this node's 7777
        "message.max.bytes": ("2000000", CLUSTER, [("message.max.bytes", "2000000", CLUSTER)]),
    }


def test_every_topic_key_is_described_once_with_documentation() -> None:
    described = ConfigDescriber(BrokerProperties()).topic({})
    assert [entry.name for entry in described] == [name for name, key in LogConfig.KEYS.items() if not key.internal]
    assert all(entry.documentation and entry.is_default and not entry.read_only for entry in described)


def test_an_internal_key_is_shown_where_it_is_set() -> None:
    described = entry(ConfigDescriber(PROPERTIES).topic({"internal.segment.bytes": "1000"}), "internal.segment.bytes")
    assert row(described) == ("1000", TOPIC, [Synonym("internal.segment.bytes", "1000", TOPIC)])


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["retention.ms", "segment.ms"], ["retention.ms", "segment.ms"]),
        (["no.such.key"], []),  # left out without an error
    ],
)
def test_only_the_keys_that_are_asked_for_are_described(names: list[str], expected: list[Any] | list[str]) -> None:
    assert [entry.name for entry in ConfigDescriber(PROPERTIES).topic({}, names)] == expected


@pytest.mark.parametrize("names", [None, []])
def test_no_names_ask_for_every_key(names: list[Any] | None) -> None:
    assert len(ConfigDescriber(PROPERTIES).topic({}, names)) == sum(not key.internal for key in LogConfig.KEYS.values())
