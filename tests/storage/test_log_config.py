"""Topic configuration: its own rules, and every key held against Kafka 4.3."""

import pytest

from barnabas.base.config_def import ConfigType, text_of
from barnabas.protocol.errors import InvalidConfig
from barnabas.storage.log_config import LONG_MAX, LogConfig
from tests.kafka_config_probe import accepted_by_kafka, ask_kafka, hexed, is_accepted, text_of_hex

KAFKA_KEYS = {name: key for name, key in LogConfig.KEYS.items() if not name.startswith("barnabas.")}


def test_every_topic_key_of_kafka_is_there_with_its_type_and_default() -> None:
    ours = {
        name: (key.type.name, text_of(key.default), "true" if key.internal else "false")
        for name, key in KAFKA_KEYS.items()
    }
    kafka = {name: (kind, text_of_hex(default), internal) for name, kind, default, internal in ask_kafka("topic-keys")}
    assert ours == kafka


def test_every_topic_key_takes_its_default_from_the_broker_keys_that_kafka_takes_it_from() -> None:
    ours = {name: list(key.broker_keys) for name, key in KAFKA_KEYS.items() if key.broker_keys}
    assert ours == {name: synonyms for name, *synonyms in ask_kafka("synonyms")}


TEXTS = [
    *("-131073", "-131072", "-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "17", "18", "22", "23"),
    *("1048575", "1048576", "2147483647", "2147483648", "-2147483649"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "+5",
        " 7 ",
        "1_0",
        "0x10",
        "1.5",
        "0.25",
        "1e-5",
        "1.0001",
        "1e400",
    ),
    *("", " ", "true", "TRUE", " false ", "yes", "producer", "gzip", "GZIP", " gzip", "none", "uncompressed"),
    *("delete", "compact,delete", " compact , delete ", "delete,delete", "delete,", ",", "Compact", "delete compact"),
    *(
        "CreateTime",
        "LogAppendTime",
        "createtime",
        "*",
        "0:1",
        "0:1,1:2",
        "0:1, 1:2",
        "0:1,0:1",
        "*,0:1",
        "0",
        "0:1:2",
        "a:b",
    ),
    *(":", "0:", "-1:0"),
]


def test_every_key_takes_and_refuses_the_values_that_kafka_does_and_shows_them_alike() -> None:
    cases = [(name, text) for name in KAFKA_KEYS for text in TEXTS]
    answers = ask_kafka(*(f"topic {name} {hexed(text)}" for name, text in cases))
    kafka = {case: None if answer == "refused" else text_of_hex(answer) for case, (answer,) in zip(cases, answers)}
    ours = {case: _shown(*case) for case in cases}
    differences = {case: (ours[case], kafka[case]) for case in cases if ours[case] != kafka[case]}
    assert differences == {
        # There is no tiered storage: Kafka's own check of this comes later, and then refuses it too.
        ("remote.storage.enable", "true"): (None, "true"),
        ("remote.storage.enable", "TRUE"): (None, "true"),
        # Two empty entries are no pairs. Java's split() forgets them, so Kafka does not see them.
        ("follower.replication.throttled.replicas", ","): (None, ","),
        ("leader.replication.throttled.replicas", ","): (None, ","),
    }


def _shown(name: str, text: str) -> str | None:
    try:
        config = LogConfig.parse({name: text})
    except InvalidConfig:
        return None
    return config.as_text(name)


RULES = [
    ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, False),
    ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}, True),
    ({"local.retention.ms": "100", "retention.ms": "50"}, True),  # compared only where there is tiered storage
    ({"local.retention.bytes": "100", "retention.bytes": "50"}, True),
    ({"remote.log.copy.disable": "true", "local.retention.ms": "5"}, True),
    ({"remote.log.delete.on.disable": "true"}, True),
    ({"segment.jitter.ms": "100", "segment.ms": "10"}, True),
    ({"nonsense": "1"}, False),
]


@pytest.mark.parametrize(("texts", "expected"), RULES)
def test_rules_between_keys(texts: dict[str, str], expected: bool) -> None:
    assert is_accepted(LogConfig.parse, texts) == expected


def test_rules_between_keys_are_kafkas() -> None:
    assert accepted_by_kafka("topic", [texts for texts, _ in RULES]) == [expected for _, expected in RULES]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms (10) is above max.compaction.lag.ms (5)",
        ),
        ({"remote.storage.enable": "true"}, "remote.storage.enable cannot be true: this broker has no tiered storage"),
        ({"retention.sm": "1"}, "Unknown topic config name: retention.sm; did you mean retention.ms?"),
        (
            {"barnabas.record.validation": "none"},
            "Invalid value none for configuration barnabas.record.validation: it must be one of header, full",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong(texts: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        LogConfig.parse(texts)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    ("texts", "attribute", "expected"),
    [
        ({}, "compact", False),
        ({}, "delete", True),
        ({"cleanup.policy": "compact"}, "compact", True),
        ({"cleanup.policy": "compact"}, "delete", False),
        ({"cleanup.policy": ""}, "delete", False),  # nothing is cleaned up
        ({"message.timestamp.type": "LogAppendTime"}, "is_log_append_time", True),
        ({"segment.ms": "50", "max.compaction.lag.ms": "20"}, "max_segment_ms", 50),  # nothing is compacted
        ({"segment.ms": "50", "max.compaction.lag.ms": "20", "cleanup.policy": "compact"}, "max_segment_ms", 20),
        ({}, "flush_messages", LONG_MAX),
        ({}, "syncs_every_append", False),
        ({"flush.messages": "1"}, "syncs_every_append", True),
        ({"internal.segment.bytes": "1000"}, "segment_bytes", 1000),  # small segments, for tests
    ],
)
def test_what_follows_from_the_keys(texts: dict[str, str], attribute: str, expected: bool | int) -> None:
    assert getattr(LogConfig.parse(texts), attribute) == expected


def test_what_is_ours_is_namespaced_and_changes_nothing_by_default() -> None:
    ours = {name: key for name, key in LogConfig.KEYS.items() if name not in KAFKA_KEYS}
    assert {name: key.default for name, key in ours.items()} == {"barnabas.record.validation": "header"}
    assert ours["barnabas.record.validation"].type is ConfigType.STRING


def test_every_key_is_documented_in_a_sentence() -> None:
    for key in LogConfig.KEYS.values():
        assert key.documentation.endswith("."), key.name
        assert 15 < len(key.documentation) < 300, key.name
