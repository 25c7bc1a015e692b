"""Broker configuration: its own rules, and every key held against Kafka 4.3."""

import subprocess
import sys

import pytest

from barnabas.base.config_def import ConfigType, parse_value, text_of
from barnabas.base.properties import parse_properties
from barnabas.broker.config.broker_config import BrokerConfig, BrokerProperties, without_effect
from barnabas.broker.config.ignored_keys import ignored_keys
from barnabas.protocol.errors import InvalidConfig
from tests.kafka_config_probe import accepted_by_kafka, ask_kafka, hexed, is_accepted, text_of_hex

OURS = {name for name in BrokerConfig.KEYS if name.startswith("barnabas.")}

NOT_IN_KAFKAS_DEFINITION = {
    # Quotas, which exist only as dynamic configuration.
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    # Read by Kafka's authorizer.
    "allow.everyone.if.no.acl.found",
    "super.users",
}

OTHER_DEFAULTS = {
    "node.id": "1",  # Kafka's has none: a single broker should start without a file
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092",  # open to the network only when asked to be
    "log.dir": "./data",
    "log.dirs": "./data",
    "socket.send.buffer.bytes": "-1",  # the system adapts them; a fixed size slows large fetches down
    "socket.receive.buffer.bytes": "-1",
}

NOT_DYNAMIC_HERE = {"listeners", "listener.security.protocol.map"}


KafkaKeys = dict[str, tuple[str, str, bool]]


@pytest.fixture(scope="module")
def kafka_keys() -> KafkaKeys:
    """name -> type, default, internal"""
    return {name: (kind, default, internal == "true") for name, kind, default, internal in ask_kafka("broker-keys")}


def test_every_broker_key_of_kafka_is_declared_or_accepted_without_effect(kafka_keys: KafkaKeys) -> None:
    declared, ignored = BrokerConfig.KEYS.keys() - OURS, ignored_keys().keys()
    assert (declared | ignored) - NOT_IN_KAFKAS_DEFINITION == kafka_keys.keys()
    assert not declared & ignored


def test_every_key_has_kafkas_type(kafka_keys: KafkaKeys) -> None:
    keys = BrokerConfig.KEYS | ignored_keys()
    assert {name: keys[name].type.name for name in kafka_keys} == {
        name: kind for name, (kind, _, _) in kafka_keys.items()
    }


def test_every_declared_key_has_kafkas_default_but_for_the_named_exceptions(kafka_keys: KafkaKeys) -> None:
    names = BrokerConfig.KEYS.keys() - OURS - NOT_IN_KAFKAS_DEFINITION
    ours = {name: text_of(BrokerConfig.KEYS[name].default) for name in names}
    kafka = {name: None if kafka_keys[name][1] == "required" else text_of_hex(kafka_keys[name][1]) for name in ours}
    assert {name: text for name, text in ours.items() if text != kafka[name]} == OTHER_DEFAULTS


def test_every_declared_key_is_internal_where_kafkas_is(kafka_keys: KafkaKeys) -> None:
    ours = {name for name, key in BrokerConfig.KEYS.items() if key.internal}
    declared = BrokerConfig.KEYS.keys() - OURS
    assert ours == {name for name in declared if name in NOT_IN_KAFKAS_DEFINITION or kafka_keys[name][2]}


def test_the_keys_that_may_change_at_run_time_are_kafkas() -> None:
    keys = BrokerConfig.KEYS | ignored_keys()
    ours = {name: key.update_mode.value for name, key in keys.items() if not key.read_only}
    kafka = {name: mode for name, mode in ask_kafka("dynamic") if name not in NOT_DYNAMIC_HERE}
    assert ours == kafka


TEXTS = [
    *("-32769", "-2", "-1", "0", "1", "2", "3", "4", "9", "10", "17", "18", "22", "23", "32767", "32768"),
    *("1023", "1024", "9999", "10000", "524287", "524288", "1048576", "8388607", "8388608"),
    *("2147483647", "2147483648", "9223372036854775807", "9223372036854775808", " 7 ", "1_0", "0.5", "1.5"),
    *("", "true", "False", "yes", "gzip", "delete", "compact,delete", "CreateTime", "Disabled", "a,,b", "a,a", ","),
    *("broker", "controller,broker", "classic", "consumer, share", "uniform"),
]

READS_MORE_THAN_THE_TYPE = {
    # Their rules have tests of their own.
    *("listeners", "advertised.listeners", "listener.security.protocol.map", "broker.id", "node.id"),
    *("controller.quorum.voters", "controller.quorum.bootstrap.servers"),
}


def test_every_declared_key_takes_and_refuses_the_values_that_kafka_does_and_shows_them_alike() -> None:
    names = sorted(BrokerConfig.KEYS.keys() - OURS - READS_MORE_THAN_THE_TYPE - NOT_IN_KAFKAS_DEFINITION)
    cases = [(name, text) for name in names for text in TEXTS]
    answers = ask_kafka(*(f"broker {name} {hexed(text)}" for name, text in cases))
    kafka = {case: None if answer == "refused" else text_of_hex(answer) for case, (answer,) in zip(cases, answers)}
    ours = {case: _shown(*case) for case in cases}
    assert {case: (ours[case], kafka[case]) for case in cases if ours[case] != kafka[case]} == {}


def _shown(name: str, text: str) -> str | None:
    """The value by its type and its own rule; the rules between keys come later, in Kafka too."""
    try:
        return text_of(parse_value(BrokerConfig.KEYS[name], text))
    except InvalidConfig:
        return None


RULES = [
    ({"log.retention.ms": "0"}, False, False),
    ({"log.retention.ms": "-5"}, True, True),  # any negative is forever
    ({"log.retention.hours": "0"}, False, False),
    ({"log.retention.minutes": "-1"}, True, True),
    ({"log.roll.ms": "0"}, False, False),
    ({"log.roll.hours": "0"}, False, False),
    ({"log.roll.jitter.ms": "-1"}, False, False),
    ({"queued.max.request.bytes": "5"}, False, False),  # less than one request
    ({"queued.max.request.bytes": "5", "socket.request.max.bytes": "5"}, True, True),
    ({"max.connections.per.ip": "0"}, False, False),  # nobody could connect
    ({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}, True, True),
    ({"max.connections.per.ip.overrides": "::1:5"}, True, True),
    ({"max.connections.per.ip.overrides": "localhost"}, False, False),
    ({"max.connections.per.ip.overrides": "localhost:x"}, False, False),
    ({"node.id": "2", "broker.id": "2", "controller.quorum.voters": "2@a:1"}, True, True),
    ({"node.id": "1", "broker.id": "2"}, False, False),
    ({"node.id": "-1"}, False, False),
    ({"process.roles": ""}, False, False),
    ({"process.roles": "controller"}, False, False),
    ({"process.roles": "leader"}, False, False),
    ({"controller.quorum.voters": "2@a:1"}, False, False),  # this node is not among them
    ({"controller.quorum.voters": "a:1"}, False, False),
    ({"log.dirs": ""}, False, False),
    ({"log.dirs": "/a, /b"}, True, True),
    ({"compression.type": "none"}, False, False),
    ({"group.consumer.session.timeout.ms": "44999"}, False, False),  # less than its own minimum
    ({"group.consumer.max.session.timeout.ms": "44999"}, False, False),
    ({"group.consumer.session.timeout.ms": "50000"}, True, True),
    ({"group.consumer.heartbeat.interval.ms": "15001"}, False, False),
    (
        {"group.consumer.heartbeat.interval.ms": "45000", "group.consumer.max.heartbeat.interval.ms": "45000"},
        False,
        False,
    ),
    (
        {"group.consumer.heartbeat.interval.ms": "44999", "group.consumer.max.heartbeat.interval.ms": "45000"},
        True,
        True,
    ),
    ({"group.consumer.min.assignment.interval.ms": "1001"}, False, False),
    ({"group.consumer.assignors": "range"}, True, True),
    ({"group.consumer.assignors": "range,sticky"}, False, False),
    ({"group.coordinator.rebalance.protocols": "consumer"}, False, False),  # classic is always served
    ({"group.coordinator.rebalance.protocols": "classic"}, True, True),
    ({"offsets.topic.compression.codec": "4"}, True, True),
    ({"offsets.topic.compression.codec": "5"}, False, False),
    ({"log.cleaner.dedupe.buffer.size": "1048576"}, False, False),  # more than that for each thread
    ({"log.cleaner.dedupe.buffer.size": "1048577"}, True, True),
    # Where we deviate, on purpose:
    ({"log.cleaner.io.buffer.load.factor": "0"}, False, True),  # nothing would ever be compacted
    ({"log.cleaner.io.max.bytes.per.second": "0"}, False, True),
    ({"controller.quorum.voters": "1@a:1,2@b:1"}, False, True),  # a quorum of one yet
    ({"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "5"}, False, True),
    ({"no.such.key": "1"}, False, True),
]


@pytest.mark.parametrize(("texts", "expected", "_kafka"), RULES)
def test_the_rules_between_keys(texts: dict[str, str], expected: bool, _kafka: bool) -> None:
    assert is_accepted(BrokerConfig.parse, texts) == expected


def test_the_rules_between_keys_are_kafkas_but_for_the_named_exceptions() -> None:
    assert accepted_by_kafka("broker", [texts for texts, _, _ in RULES]) == [kafka for _, _, kafka in RULES]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"log.retention.hour": "1"},
            "Unknown broker config name: log.retention.hour; did you mean log.retention.hours?",
        ),
        ({"num.io.thread": "1"}, "Unknown broker config name: num.io.thread; did you mean num.io.threads?"),
        (
            {"num.io.threads": "x"},
            "Invalid value x for configuration num.io.threads: it must be a whole number of 32 bits",
        ),
        (
            {"controller.quorum.voters": "1@a:1,2@b:1"},
            "Invalid value PLAINTEXT://127.0.0.1:9092 for configuration listeners: "
            "it must be a list with one for the other controllers, as CONTROLLER://host:port",
        ),
        (
            {"controller.quorum.voters": "2@a:1,3@b:1"},
            "Invalid value 2@a:1,3@b:1 for configuration controller.quorum.voters: "
            "it must be a list with this node (1@host:port), or process.roles=broker",
        ),
        (
            {"controller.quorum.bootstrap.servers": "other:9093", "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
            "CONTROLLER://:9093 listens on every interface: say in advertised.listeners at which address the other "
            "nodes reach it, as CONTROLLER://host:9093",
        ),
        (
            {"process.roles": "broker"},
            "process.roles is broker: say in controller.quorum.bootstrap.servers or controller.quorum.voters where "
            "the controllers are",
        ),
        (
            {"process.roles": "controller"},
            "Invalid value PLAINTEXT://127.0.0.1:9092 for configuration listeners: "
            "it must be none but the controller's, CONTROLLER: this node is no broker",
        ),
        (
            {"broker.id": "2", "node.id": "3"},
            "Invalid value 2 for configuration broker.id: it must be the same as node.id (3)",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        BrokerConfig.parse(texts)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("texts", "attribute", "expected"),
    [
        ({}, "retention_ms", 604_800_000),
        ({"log.retention.hours": "1"}, "retention_ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention_ms", 120_000),  # the finest unit wins
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, "retention_ms", 3),
        ({"log.retention.hours": "-1"}, "retention_ms", -1),  # forever, in any unit
        ({"log.roll.hours": "1"}, "segment_ms", 3_600_000),
        ({"log.roll.hours": "1", "log.roll.ms": "7"}, "segment_ms", 7),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "5"}, "flush_ms", 5),
        ({"log.flush.scheduler.interval.ms": "5", "log.flush.interval.ms": "3"}, "flush_ms", 3),
        ({"message.max.bytes": "99"}, "max_message_bytes", 99),
        ({"log.cleanup.policy": "compact"}, "compact", True),
        ({"min.insync.replicas": "2"}, "min_insync_replicas", 2),
    ],
)
def test_a_topic_without_settings_takes_the_brokers(texts: dict[str, str], attribute: str, expected: int) -> None:
    assert getattr(BrokerConfig.parse(texts).log_defaults, attribute) == expected


def test_a_topics_own_setting_wins() -> None:
    defaults = BrokerConfig.parse({"log.retention.ms": "5", "log.segment.bytes": "2097152"}).log_defaults
    topic = defaults.with_overrides({"retention.ms": "9"})
    assert (topic.retention_ms, topic.segment_bytes) == (9, 2_097_152)


@pytest.mark.parametrize(
    ("texts", "attribute", "expected"),
    [
        ({"broker.id": "5"}, "node_id", 5),  # the old name
        ({}, "broker_id", 1),  # which tells what node.id is, whoever said it
        ({"node.id": "5"}, "broker_id", 5),
        ({"log.dir": "/a"}, "log_dirs", ("/a",)),
        ({"log.dir": "/a", "log.dirs": "/b,/c"}, "log_dirs", ("/b", "/c")),
        (
            {"max.connections.per.ip.overrides": "10.0.0.1:5, ::1:7"},
            "connections_per_ip_overrides",
            {"10.0.0.1": 5, "::1": 7},
        ),
    ],
)
def test_old_names_and_pairs(texts: dict[str, str], attribute: str, expected: object) -> None:
    assert getattr(BrokerConfig.parse(texts), attribute) == expected


def test_what_was_altered_at_run_time_wins_and_the_nodes_own_most() -> None:
    properties = BrokerProperties(
        static={"log.retention.ms": "1", "message.max.bytes": "1", "max.connections": "1"},
        cluster={"log.retention.ms": "2", "message.max.bytes": "2"},
        node={"log.retention.ms": "3"},
    )
    config = properties.effective()
    assert (config.log_retention_ms, config.message_max_bytes, config.max_connections) == (3, 2, 1)


SERVER_PROPERTIES = """
# One node, as Kafka's own example has it.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/var/lib/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
listener.name.plaintext.ssl.key.password=secret
"""


def test_a_properties_file_of_kafkas_loads_and_what_has_no_effect_is_listed() -> None:
    properties = parse_properties(SERVER_PROPERTIES)
    config = BrokerConfig.parse(properties)
    assert config.log_dirs == ("/var/lib/kraft-combined-logs",)
    assert without_effect(properties) == [
        "listener.name.plaintext.ssl.key.password",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "share.coordinator.state.topic.min.isr",
        "share.coordinator.state.topic.replication.factor",
    ]


def test_a_key_for_one_listener_has_the_type_of_the_key_it_specialises() -> None:
    assert BrokerConfig.key("listener.name.inside.ssl.key.password").type is ConfigType.PASSWORD
    assert BrokerConfig.key("listener.name.inside.scram-sha-256.sasl.jaas.config").type is ConfigType.UNKNOWN


HEAVY = (
    *("argparse", "asyncio", "dataclasses", "datetime", "difflib", "inspect", "json"),
    *("logging", "pathlib", "random", "subprocess", "tempfile", "uuid"),
)


def test_importing_the_configuration_brings_no_heavy_module_along() -> None:
    # -S, because what the .pth files of installed packages import is not ours
    program = f"""
import sys
sys.path[:0] = {sys.path!r}
import barnabas.broker.config.broker_config
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_key_is_documented_in_a_sentence() -> None:
    for key in BrokerConfig.KEYS.values():
        assert key.documentation.endswith("."), key.name
        assert 15 < len(key.documentation) < 400, key.name
