"""What a group can set for itself, and what holds for it then."""

from collections.abc import Mapping

import pytest

from barnabas.base.config_def import ConfigType, parse_value, text_of
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.group_keys import GroupConfigKeys
from barnabas.broker.groups.group_config import GroupConfig, GroupConfigSchema
from barnabas.protocol.errors import InvalidConfig
from tests.kafka_config_probe import accepted_by_kafka, ask_kafka, hexed, text_of_hex

TEXTS = (
    "0", "1", "2", "99", "100", "999", "1000", "-1", " 7 ", "", "x", "1.5", "2147483648", "true", "FALSE",
    "latest", "earliest", "by_duration:PT1H", "by_duration", "read_committed", "READ_COMMITTED",
)  # fmt: skip

RULES = [
    ({}, True, True),
    ({"consumer.session.timeout.ms": "44999"}, False, False),  # the broker's minimum is 45000
    ({"consumer.session.timeout.ms": "45000"}, True, True),
    ({"consumer.session.timeout.ms": "60000"}, True, True),
    ({"consumer.session.timeout.ms": "60001"}, False, False),
    ({"consumer.heartbeat.interval.ms": "4999"}, False, False),
    ({"consumer.heartbeat.interval.ms": "15000"}, True, True),
    ({"consumer.heartbeat.interval.ms": "15001"}, False, False),
    ({"consumer.assignment.interval.ms": "0"}, True, True),
    ({"consumer.assignment.interval.ms": "15001"}, False, False),
    ({"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "9000"}, True, True),
    ({"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "1"}, False, False),  # one is enough
    ({"consumer.group.timeout.ms": "1"}, False, False),
    ({"group.consumer.session.timeout.ms": "45000"}, False, False),  # the broker's name for it
    ({"streams.num.standby.replicas": "1"}, True, True),
    # Where we deviate, on purpose: what has no effect is held to no limits.
    ({"share.session.timeout.ms": "1"}, True, False),
    ({"streams.num.standby.replicas": "99"}, True, False),
]


def is_accepted(texts: Mapping[str, str], broker: BrokerConfig | None = None) -> bool:
    try:
        GroupConfigSchema(broker or BrokerConfig()).with_overrides(texts)
    except InvalidConfig:
        return False
    return True


def test_the_keys_are_kafkas() -> None:
    assert {name: (type_name, text_of_hex(default)) for name, type_name, default, _ in ask_kafka("group-keys")} == {
        key.name: (key.type.name, text_of(key.default)) for key in GroupConfigKeys.KEYS.values()
    }


def test_every_key_takes_and_refuses_the_values_that_kafka_does() -> None:
    cases = [(name, text) for name in GroupConfigKeys.KEYS for text in TEXTS]
    answers = ask_kafka(*(f"group {name} {hexed(text)}" for name, text in cases))
    kafka = {case: None if answer == "refused" else text_of_hex(answer) for case, (answer,) in zip(cases, answers)}
    ours = {case: shown(*case) for case in cases}
    assert {case: (ours[case], kafka[case]) for case in cases if ours[case] != kafka[case]} == {}


def shown(name: str, text: str) -> str | None:
    try:
        return text_of(parse_value(GroupConfigKeys.KEYS[name], text))
    except InvalidConfig:
        return None


@pytest.mark.parametrize(("texts", "expected", "_kafka"), RULES)
def test_the_broker_limits_what_a_group_may_set(texts: dict[str, str], expected: bool, _kafka: bool) -> None:
    assert is_accepted(texts) == expected


def test_the_limits_are_kafkas_but_for_the_named_exceptions() -> None:
    assert accepted_by_kafka("group", [texts for texts, _, _ in RULES]) == [kafka for _, _, kafka in RULES]


def test_a_session_must_outlast_a_heartbeat_whoever_set_the_heartbeat() -> None:
    broker = BrokerConfig.parse({"group.consumer.min.session.timeout.ms": "1"})
    assert is_accepted({"consumer.session.timeout.ms": "5001"}, broker)
    assert not is_accepted({"consumer.session.timeout.ms": "5000"}, broker)  # the broker's heartbeat is 5000
    assert not is_accepted({"consumer.session.timeout.ms": "9000", "consumer.heartbeat.interval.ms": "9000"}, broker)


def test_a_refusal_names_the_limit() -> None:
    expected = r"consumer\.session\.timeout\.ms must be .* group\.consumer\.max\.session\.timeout\.ms \(60000\)"
    with pytest.raises(InvalidConfig, match=expected):
        GroupConfigSchema(BrokerConfig()).with_overrides({"consumer.session.timeout.ms": "70000"})


def test_a_group_that_sets_nothing_has_what_the_broker_says() -> None:
    broker = BrokerConfig.parse(
        {
            "group.consumer.session.timeout.ms": "50000",
            "group.consumer.heartbeat.interval.ms": "6000",
            "group.consumer.assignment.interval.ms": "7",
        }
    )
    assert values(GroupConfig(broker, {})) == (50_000, 6000, 7)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"consumer.session.timeout.ms": "50000"}, (50_000, 5000, 1000)),
        ({"consumer.heartbeat.interval.ms": "6000"}, (45_000, 6000, 1000)),
        ({"consumer.assignment.interval.ms": "0"}, (45_000, 5000, 0)),
        ({"consumer.session.timeout.ms": "1"}, (45_000, 5000, 1000)),  # set when the broker allowed less
        ({"consumer.session.timeout.ms": "99999"}, (60_000, 5000, 1000)),  # or more
        ({"share.session.timeout.ms": "1", "unknown": "x"}, (45_000, 5000, 1000)),
    ],
)
def test_a_groups_own_values_count_as_far_as_the_broker_allows_now(
    own: dict[str, str], expected: tuple[int, int, int]
) -> None:
    assert values(GroupConfig(BrokerConfig(), own)) == expected


def values(config: GroupConfig) -> tuple[int, int, int]:
    return (
        config.consumer_session_timeout_ms,
        config.consumer_heartbeat_interval_ms,
        config.consumer_assignment_interval_ms,
    )


def test_no_key_holds_a_secret() -> None:
    assert not any(key.sensitive or key.type is ConfigType.UNKNOWN for key in GroupConfigKeys.KEYS.values())
