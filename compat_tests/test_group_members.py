"""Who belongs to a group, and to what: static members, members that are killed, subscriptions by pattern."""

from collections.abc import Callable

import pytest

from compat_tests.conftest import Drivers
from compat_tests.groups import Group, Kind, Topic, classic, eventually, new_protocol, taking_part
from compat_tests.harness import Driver

STATIC = {
    "kafka-python-3": classic("kafka-python-3", "range"),
    "kafka-python-2": classic("kafka-python-2", "range"),
    "aiokafka": classic("aiokafka", "range"),
    "confluent": classic("confluent-kafka", "range"),
    "confluent consumer protocol": new_protocol("confluent-kafka"),
    "java-3.9": classic("java-3.9", "range"),
    "java-3.9 consumer protocol": new_protocol("java-3.9"),
    "java-4.3": classic("java-4.3", "cooperative-sticky"),
    "java-4.3 consumer protocol": new_protocol("java-4.3"),
    # Not with the consumer protocol: it leaves without the name that its place is kept under, which no broker accepts.
    "franz-go": classic("franz-go", "cooperative-sticky"),
    "sarama": classic("sarama", "range"),
    "sarama-max": classic("sarama-max", "range"),
}
# Fenced members that do not tell their application: one stops its heartbeats, the other joins again and again.
KEEP_IT_TO_THEMSELVES = ("kafka-python-3", "aiokafka")


@pytest.mark.parametrize("kind", taking_part(STATIC).values(), ids=taking_part(STATIC))
def test_a_static_member_comes_back_without_disturbing_the_others(kind: Kind, group: Group, topic: Topic) -> None:
    away = group.join(kind, topic.name, settings={"group.instance.id": "one"})
    other = group.join(kind, topic.name, settings={"group.instance.id": "two"})
    before, undisturbed = group.wait_until_shared(topic.name)

    away.leave()
    back = group.join(kind, topic.name, settings={"group.instance.id": "one"})
    eventually(lambda: back.partitions() == before["assignment"], "its partitions are back", back.state)
    for what in ("assignment", "generation", "revocations"):
        assert other.state()[what] == undisturbed[what], what
    topic.write()
    group.wait_until_read(topic.written)

    if kind.client in KEEP_IT_TO_THEMSELVES:
        return
    intruder = group.join(kind, topic.name, settings={"group.instance.id": "two"})
    # The classic protocol believes the newcomer, the consumer protocol the one who is there.
    refused = intruder if "group.protocol" in kind.settings else other
    error = eventually(lambda: refused.state()["error"], "one of the two is refused", group.states)
    assert "instance" in error.lower() or "fenced" in error.lower(), error


KILLED = {
    "kafka-python-3": classic("kafka-python-3", "range"),
    "aiokafka": classic("aiokafka", "range"),
    "confluent cooperative": classic("confluent-kafka", "cooperative-sticky"),
    "confluent consumer protocol": new_protocol("confluent-kafka"),
    "franz-go": classic("franz-go", "range"),
    "franz-go consumer protocol": new_protocol("franz-go"),
    "sarama": classic("sarama", "range"),
    "kafkajs": classic("kafkajs", "roundrobin"),
}


@pytest.mark.parametrize("kind", taking_part(KILLED).values(), ids=taking_part(KILLED))
def test_the_partitions_of_a_killed_member_move_when_its_session_ends(
    kind: Kind, group: Group, topic: Topic, another: Callable[[str], Driver], drivers: Drivers
) -> None:
    session = {"session.timeout.ms": 1_500}
    if "group.protocol" in kind.settings:  # there the group says how long
        configs = {f"consumer.{key}": str(value) for key, value in session.items()}
        drivers["confluent-kafka"].ask("alter_group_configs", group=group.name, configs=configs)
        session = {}
    doomed = group.join(kind, topic.name, driver=another(kind.client), settings=session)
    group.join(kind, topic.name, settings=session)
    group.wait_until_shared(topic.name)
    topic.write()
    group.wait_until_read(topic.written)
    group.wait_until_committed(drivers["kafka-python-3"], topic.ends())  # confluent-kafka: see test_group_admin.py

    group.kill(doomed)
    group.wait_until_shared(topic.name)
    topic.write()
    group.wait_until_read(topic.written)


CLIENT_MATCHES = {
    "kafka-python-3": classic("kafka-python-3", "range"),
    "kafka-python-2": classic("kafka-python-2", "range"),
    "aiokafka": classic("aiokafka", "range"),
    "confluent": classic("confluent-kafka", "cooperative-sticky"),
    "kcat": classic("kcat", "range"),
    "java-3.9": classic("java-3.9", "range"),
    "java-4.3 consumer protocol": new_protocol("java-4.3"),
    "franz-go": classic("franz-go", "range"),
    "kafkajs": classic("kafkajs", "roundrobin"),
}
BROKER_MATCHES = {
    "franz-go, matched by the broker": new_protocol("franz-go"),
    "java-4.3, matched by the broker": new_protocol("java-4.3"),
    "confluent, matched by the broker": new_protocol("confluent-kafka"),
}
PATTERNS = {
    **{name: (kind, False) for name, kind in taking_part(CLIENT_MATCHES).items()},
    **{name: (kind, True) for name, kind in taking_part(BROKER_MATCHES).items()},
}
# kafka-python narrows what it asks for to what has matched before; kafkajs looks once, when it subscribes.
LOOK_ONLY_ONCE = ("kafka-python-3", "kafka-python-2", "kafkajs")


@pytest.mark.parametrize(("kind", "broker_matches"), PATTERNS.values(), ids=PATTERNS)
def test_a_pattern_finds_the_topics_that_match_it(
    kind: Kind, broker_matches: bool, group: Group, drivers: Drivers
) -> None:
    writer = drivers["kafka-python-3"]
    first, second = (Topic(writer, f"{group.name}-matches-{number}", 2) for number in (1, 2))
    other = Topic(writer, f"{group.name}-does-not", 2)
    for topic in (first, second, other):
        topic.write()
    for _ in range(2):
        group.join(kind, pattern=f"^{group.name}-m.*", broker_matches=broker_matches)
    group.wait_until_shared(first.name, second.name, partitions=2)
    group.wait_until_read(first.written + second.written)

    if not broker_matches and kind.client not in LOOK_ONLY_ONCE:  # a broker looks again only after ten seconds
        third = Topic(writer, f"{group.name}-matches-3", 2)
        group.wait_until_shared(first.name, second.name, third.name, partitions=2)
