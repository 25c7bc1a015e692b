"""Groups seen from outside: listed, described, their offsets read and changed, deleted; by every client that can."""

from typing import Any

import pytest

from compat_tests.conftest import Drivers
from compat_tests.harness.clients import names, taking_part
from compat_tests.harness.driver import Driver, DriverError
from compat_tests.harness.features import (
    ALTERING_OFFSETS,
    DELETING_GROUPS,
    DELETING_OFFSETS,
    WATCHING_GROUPS,
    WATCHING_NEW_GROUPS,
)
from compat_tests.harness.groups import Group, Topic, classic, eventually, new_protocol

NAMES = names(WATCHING_GROUPS)
TOLD_WHAT_IS_UNKNOWN = [client.name for client in taking_part(WATCHING_GROUPS) if client.tells_unknown_groups]

UNKNOWN_GROUP = r"(?i)group.?id.?not.?found|not found|does not exist|dead"
NOT_EMPTY = r"(?i)non.?empty|not empty"


@pytest.fixture
def watcher(request: pytest.FixtureRequest, drivers: Drivers) -> Driver:
    return drivers[request.param]


def offset(topic: Topic, partition: int, value: int, metadata: str = "") -> dict[str, Any]:
    return {
        "topic": topic.name,
        "partition": partition,
        "offset": value,
        "metadata": metadata,
        "leader_epoch": -1,
    }


@pytest.mark.parametrize("watcher", NAMES, indirect=True)
def test_a_group_is_listed_and_described_with_its_members(watcher: Driver, group: Group, topic: Topic) -> None:
    for _ in range(2):
        group.join(classic("confluent-kafka", "range"), topic.name, settings={"client.id": "seen"})
    states = group.wait_until_shared(topic.name)

    (listed,) = [found for found in watcher.ask("list_groups")["groups"] if found["group"] == group.name]
    assert listed.get("state", "Stable") == "Stable"
    assert listed.get("type", "classic").lower() == "classic"
    assert listed.get("protocol_type", "consumer") == "consumer"

    described = watcher.ask("describe_group", group=group.name)
    assert (described["state"], described["assignor"]) == ("Stable", "range")
    members = {member["member_id"]: member for member in described["members"]}
    assert {member["client_id"] for member in members.values()} == {"seen"}
    assert {member["host"] for member in members.values()} == {"/127.0.0.1"}
    assert {name: sorted(member["assignment"]) for name, member in members.items()} == {
        state["member_id"]: state["assignment"] for state in states
    }


@pytest.mark.parametrize("watcher", names(WATCHING_NEW_GROUPS), indirect=True)
def test_a_group_of_the_consumer_protocol_is_described_with_its_members(
    watcher: Driver, group: Group, topic: Topic
) -> None:
    for _ in range(2):
        group.join(new_protocol("confluent-kafka", "range"), topic.name)
    states = group.wait_until_shared(topic.name)
    (listed,) = [found for found in watcher.ask("list_groups")["groups"] if found["group"] == group.name]
    assert listed["type"] == "Consumer"
    described = eventually(
        lambda: (found := watcher.ask("describe_group", group=group.name))["state"] == "Stable" and found,
        "the group is stable",
        lambda: watcher.ask("describe_group", group=group.name),
    )
    assert (described["type"], described["assignor"]) == ("Consumer", "range")
    assert {member["member_id"]: sorted(member["assignment"]) for member in described["members"]} == {
        state["member_id"]: state["assignment"] for state in states
    }


@pytest.mark.parametrize("watcher", NAMES, indirect=True)
def test_the_offsets_of_a_group_are_listed(watcher: Driver, group: Group, topic: Topic) -> None:
    # confluent-kafka reads past the end of metadata that another client has stored.
    three, one = ("", "") if watcher.client.name == "confluent-kafka" else ("three", "one")
    consumer = group.join(classic("kafka-python-3", "range"), assign=[(topic.name, 0)], commits=False)
    consumer.commit(offset(topic, 0, 3, three), offset(topic, 4, 1, one))
    found = watcher.ask("group_offsets", group=group.name)["offsets"]
    entries = sorted((entry["partition"], entry["offset"], entry["metadata"]) for entry in found)
    assert entries == [(0, 3, three), (4, 1, one)]
    assert {entry["topic"] for entry in found} == {topic.name}
    assert watcher.ask("group_offsets", group="nobody-was-ever-here") == {"offsets": []}


@pytest.mark.parametrize("watcher", names(ALTERING_OFFSETS), indirect=True)
def test_the_offsets_of_a_group_are_altered_while_nobody_is_in_it(watcher: Driver, group: Group, topic: Topic) -> None:
    topic.write()
    watcher.ask("alter_group_offsets", group=group.name, offsets=[offset(topic, p, 4) for p in range(topic.partitions)])
    assert group.committed(watcher) == dict.fromkeys(topic.ends(), 4)

    group.join(classic("kafka-python-3", "range"), topic.name)
    group.wait_until_read(record for record in topic.written if record[2] == 4)
    with pytest.raises(DriverError, match=r"(?i)unknown.?member|not.?known|non.?empty|member|running instances"):
        watcher.ask("alter_group_offsets", group=group.name, offsets=[offset(topic, 0, 0)])


@pytest.mark.parametrize("watcher", names(DELETING_OFFSETS), indirect=True)
def test_offsets_are_deleted_for_topics_that_nobody_reads(watcher: Driver, group: Group, topic: Topic) -> None:
    consumer = group.join(classic("kafka-python-3", "range"), assign=[(topic.name, 0)], commits=False)
    consumer.commit(offset(topic, 0, 3), offset(topic, 1, 4))
    consumer.leave()
    watcher.ask("delete_group_offsets", group=group.name, partitions=[(topic.name, 0)])
    assert group.committed(watcher) == {(topic.name, 1): 4}

    group.join(classic("kafka-python-3", "range"), topic.name, commits=False)
    group.wait_until_shared(topic.name)
    with pytest.raises(DriverError, match=r"(?i)subscribed"):
        watcher.ask("delete_group_offsets", group=group.name, partitions=[(topic.name, 1)])
    with pytest.raises(DriverError, match=UNKNOWN_GROUP):
        watcher.ask("delete_group_offsets", group="nobody-was-ever-here", partitions=[(topic.name, 1)])


@pytest.mark.parametrize("watcher", names(DELETING_GROUPS), indirect=True)
def test_a_group_is_deleted_when_its_last_member_has_left(watcher: Driver, group: Group, topic: Topic) -> None:
    topic.write()
    group.join(classic("kafka-python-3", "range"), topic.name)
    group.wait_until_read(topic.written)
    with pytest.raises(DriverError, match=NOT_EMPTY):
        watcher.ask("delete_group", group=group.name)

    group.leave()
    described = watcher.ask("describe_group", group=group.name)
    assert (described["state"], described["members"]) == ("Empty", [])
    watcher.ask("delete_group", group=group.name)
    assert group.name not in [found["group"] for found in watcher.ask("list_groups")["groups"]]
    assert group.committed(watcher) == {}
    with pytest.raises(DriverError, match=UNKNOWN_GROUP):
        watcher.ask("delete_group", group=group.name)


@pytest.mark.parametrize("watcher", [name for name in NAMES if name not in TOLD_WHAT_IS_UNKNOWN], indirect=True)
def test_an_unknown_group_is_a_dead_one(watcher: Driver) -> None:
    described = watcher.ask("describe_group", group="nobody-was-ever-here")
    assert (described["state"], described["members"]) == ("Dead", [])


@pytest.mark.parametrize("watcher", TOLD_WHAT_IS_UNKNOWN, indirect=True)
def test_an_unknown_group_is_not_found_by_newer_clients(watcher: Driver) -> None:
    with pytest.raises(DriverError, match=UNKNOWN_GROUP):
        watcher.ask("describe_group", group="nobody-was-ever-here")


def test_a_static_member_is_removed_from_outside(drivers: Drivers, group: Group, topic: Topic) -> None:
    kind = classic("java-4.3", "range")
    gone = group.join(kind, topic.name, settings={"group.instance.id": "gone", "session.timeout.ms": 60_000})
    stays = group.join(kind, topic.name, settings={"group.instance.id": "stays"})
    group.wait_until_shared(topic.name)
    gone.leave()  # its session goes on
    drivers["java-4.3"].ask("remove_static_member", group=group.name, group_instance_id="gone")
    group.wait_until_shared(topic.name)
    assert len(stays.partitions()) == topic.partitions
