"""Who belongs to a group, and to what: static members, members that are killed, subscriptions by pattern."""

from collections.abc import Callable

import pytest

from compat_tests.conftest import Drivers
from compat_tests.harness.clients import taking_part
from compat_tests.harness.driver import Driver
from compat_tests.harness.features import (
    BROKER_PATTERNS,
    KILLED,
    NEW_KILLED,
    NEW_PATTERNS,
    NEW_STATIC,
    PATTERNS,
    STATIC,
)
from compat_tests.harness.groups import Group, Kind, Topic, eventually, kind_of, kinds

STATIC_MEMBERS = kinds(STATIC, NEW_STATIC)
KILLED_MEMBERS = kinds(KILLED, NEW_KILLED)
MATCHING_CLIENTS = kinds(PATTERNS, NEW_PATTERNS)
MATCHED_BY_THE_BROKER = {client.name: kind_of(client, NEW_PATTERNS) for client in taking_part(BROKER_PATTERNS)}


@pytest.mark.parametrize("kind", STATIC_MEMBERS.values(), ids=STATIC_MEMBERS)
def test_a_static_member_comes_back_without_disturbing_the_others(kind: Kind, group: Group, topic: Topic) -> None:
    away = group.join(kind, topic.name, settings={"group.instance.id": "one"})
    other = group.join(kind, topic.name, settings={"group.instance.id": "two"})
    before, undisturbed = group.wait_until_settled(topic.name)

    away.leave()
    back = group.join(kind, topic.name, settings={"group.instance.id": "one"})
    eventually(lambda: back.partitions() == before["assignment"], "its partitions are back", back.state)
    for what in ("assignment", "generation", "revocations"):
        assert other.state()[what] == undisturbed[what], what
    topic.write()
    group.wait_until_read(topic.written)

    if not other.driver.client.tells_when_fenced:
        return
    intruder = group.join(kind, topic.name, settings={"group.instance.id": "two"})
    # The classic protocol believes the newcomer, the consumer protocol the one who is there.
    refused = intruder if "group.protocol" in kind.settings else other
    error = eventually(lambda: refused.state()["error"], "one of the two is refused", group.states)
    assert "instance" in error.lower() or "fenced" in error.lower(), error


@pytest.mark.parametrize("kind", KILLED_MEMBERS.values(), ids=KILLED_MEMBERS)
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


class Matches:
    """Two topics that a pattern is to find, with records in them, and one that it is not."""

    def __init__(self, writer: Driver, prefix: str) -> None:
        self.writer = writer
        self.prefix = prefix
        self.pattern = f"^{prefix}-m.*"
        self.topics = [self.another(number) for number in (1, 2)]
        for topic in (*self.topics, Topic(writer, f"{prefix}-does-not", 2)):
            topic.write()

    def another(self, number: int) -> Topic:
        return Topic(self.writer, f"{self.prefix}-matches-{number}", 2)

    def are_read_by(self, group: Group) -> None:
        group.wait_until_shared(*(topic.name for topic in self.topics), partitions=2)
        group.wait_until_read(record for topic in self.topics for record in topic.written)


@pytest.fixture
def matches(drivers: Drivers, group: Group) -> Matches:
    return Matches(drivers["kafka-python-3"], group.name)


@pytest.mark.parametrize("kind", MATCHING_CLIENTS.values(), ids=MATCHING_CLIENTS)
def test_a_pattern_finds_the_topics_that_match_it(kind: Kind, group: Group, matches: Matches) -> None:
    members = [group.join(kind, pattern=matches.pattern) for _ in range(2)]
    matches.are_read_by(group)
    if members[0].driver.client.looks_again_for_topics:
        matches.topics.append(matches.another(3))
        matches.are_read_by(group)


@pytest.mark.parametrize("kind", MATCHED_BY_THE_BROKER.values(), ids=MATCHED_BY_THE_BROKER)
def test_a_pattern_that_the_broker_matches_finds_them_too(kind: Kind, group: Group, matches: Matches) -> None:
    for _ in range(2):
        group.join(kind, pattern=matches.pattern, broker_matches=True)
    matches.are_read_by(group)  # it would look for new ones only after ten seconds
