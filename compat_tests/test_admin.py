"""Topics and their configuration, from creation to deletion, by every client that has an admin."""

import re

import pytest

from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.groups import eventually

WEEK_MS = "604800000"
UNKNOWN_TOPIC = r"(?i)unknown.?topic|does not host|error 3\b"


def test_the_life_of_a_topic(admin: Driver) -> None:
    """In Apache Kafka the controller answers, and the broker that is asked next may hear of it a little later."""

    def is_listed() -> bool:
        return topic in admin.ask("list_topics")["topics"]

    def has_partitions(count: int) -> bool:
        return admin.ask("describe_topic", topic=topic) == {"partitions": count}

    topic = f"life-{admin.client.name}"
    admin.ask("create_topic", topic=topic, partitions=3, configs={"retention.ms": WEEK_MS, "cleanup.policy": "compact"})
    eventually(is_listed, "the topic is listed")
    assert has_partitions(3)

    admin.ask("create_partitions", topic=topic, partitions=5)
    eventually(lambda: has_partitions(5), "it has five partitions")

    admin.ask("delete_topic", topic=topic)
    eventually(lambda: not is_listed(), "the topic is gone")


def test_the_configuration_of_a_topic_is_described_and_altered(admin: Driver) -> None:
    topic = f"configured-{admin.client.name}"
    admin.ask("create_topic", topic=topic, partitions=1, configs={"retention.ms": "1000000"})
    configs = admin.ask("topic_configs", topic=topic)["configs"]
    assert configs["retention.ms"] == "1000000"
    assert configs["cleanup.policy"] == "delete"  # a default
    assert configs["message.timestamp.type"] == "CreateTime"

    changes = {"retention.ms": "2000000", "max.message.bytes": "5000"}
    admin.ask("alter_topic_configs", topic=topic, configs=changes)

    def altered() -> bool:
        configs = admin.ask("topic_configs", topic=topic)["configs"]
        return {key: configs[key] for key in changes} == changes

    eventually(altered, "the broker that is asked next has heard of it")


def test_records_before_an_offset_are_deleted(admin: Driver) -> None:
    topic = f"cut-{admin.client.name}"
    admin.ask("create_topic", topic=topic, partitions=1, configs={})
    admin.produce(topic, [Record(value=b"%d" % number) for number in range(10)])
    assert admin.ask("delete_records", topic=topic, partition=0, before=4) == {"low_watermark": 4}
    assert admin.offsets(topic)["beginning"] == 4
    assert [record.offset for record in admin.consume(topic, 6)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("topic", "partitions", "configs", "error"),
    [
        pytest.param("offsets/../x", 1, {}, "(?i)invalid|error 17", id="not a name"),
        pytest.param("none", 0, {}, "(?i)partition|error 37", id="no partitions"),
        pytest.param("unknown", 1, {"retention.millis": "1"}, "(?i)config|error 40", id="unknown config"),
        pytest.param("refused", 1, {"retention.ms": "soon"}, "(?i)config|error 40", id="value of the wrong type"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    admin: Driver, topic: str, partitions: int, configs: dict[str, str], error: str
) -> None:
    with pytest.raises(DriverError, match=error):
        admin.ask("create_topic", topic=topic, partitions=partitions, configs=configs)


def test_a_topic_is_created_only_once(admin: Driver) -> None:
    topic = f"once-{admin.client.name}"
    admin.ask("create_topic", topic=topic, partitions=1, configs={})
    with pytest.raises(DriverError, match=r"(?i)exists|error 36"):
        admin.ask("create_topic", topic=topic, partitions=1, configs={})


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        pytest.param({"retention.millis": "1"}, r"(?i)config|error 40", id="unknown config"),
        pytest.param({"retention.ms": "soon"}, r"(?i)config|error 40", id="value of the wrong type"),
        pytest.param({"segment.bytes": "-1"}, r"(?i)config|error 40", id="value out of its range"),
    ],
)
def test_a_change_of_configuration_that_cannot_be_is_refused(
    admin: Driver, configs: dict[str, str], error: str
) -> None:
    topic = f"unchanged-{admin.client.name}-{next(iter(configs))}"
    admin.ask("create_topic", topic=topic, partitions=1, configs={})
    before = admin.ask("topic_configs", topic=topic)
    with pytest.raises(DriverError, match=error):
        admin.ask("alter_topic_configs", topic=topic, configs=configs)
    assert admin.ask("topic_configs", topic=topic) == before


@pytest.mark.parametrize(
    ("op", "fields", "error"),
    [
        pytest.param("delete_topic", {}, UNKNOWN_TOPIC, id="delete"),
        pytest.param(
            "create_partitions", {"partitions": 2}, r"(?i)unknown.?topic|does not host|error 3\b", id="extend"
        ),
    ],
)
def test_a_topic_that_is_not_there_cannot_be_changed(
    admin: Driver, op: str, fields: dict[str, int], error: str
) -> None:
    with pytest.raises(DriverError, match=error):
        admin.ask(op, topic="nobody-created-this", **fields)


def test_a_topic_does_not_lose_partitions(admin: Driver) -> None:
    topic = f"keeps-{admin.client.name}"
    admin.ask("create_topic", topic=topic, partitions=3, configs={})
    with pytest.raises(DriverError, match=r"(?i)partition|error 37"):
        admin.ask("create_partitions", topic=topic, partitions=2)
    assert admin.ask("describe_topic", topic=topic) == {"partitions": 3}


def test_records_that_are_not_there_cannot_be_deleted(admin: Driver) -> None:
    topic = f"not-so-many-{admin.client.name}"
    admin.ask("create_topic", topic=topic, partitions=1, configs={})

    def refusal() -> str:
        with pytest.raises(DriverError) as refused:
            admin.ask("delete_records", topic=topic, partition=0, before=1)
        return str(refused.value)

    is_out_of_range = re.compile(r"(?i)out.?of.?range|error 1\b").search
    eventually(lambda: is_out_of_range(refusal()), "the leader, which may hear of the topic later, refuses it")
