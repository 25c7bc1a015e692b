"""What Kafka's kafka-consumer-groups.sh and kafka-groups.sh print, column by column, for groups of both protocols."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.brokers import Broker
from compat_tests.conftest import Drivers
from compat_tests.harness.driver import Record
from compat_tests.harness.groups import Group, Topic, classic, new_protocol

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUPS = "org.apache.kafka.tools.GroupsCommand"

TOPIC = "reported"
PARTITIONS = 3
WRITTEN = 5

Row = tuple[str, ...]


class Tools:
    """The tools inside the driver of their version, and the three groups that they are asked about."""

    def __init__(self, drivers: Drivers) -> None:
        self.drivers = drivers
        self.old, self.new, self.empty = (Group(drivers.__getitem__, name) for name in ("old", "new", "empty"))

    def run(self, tool: str, *arguments: str) -> str:
        where = ["--bootstrap-server", self.drivers["java-4.3"].bootstrap]
        done = self.drivers["java-4.3"].ask("tool", tool=tool, arguments=[*where, *arguments])
        assert done["code"] == 0, done["printed"]
        printed: str = done["printed"]
        return printed

    def table(self, tool: str, *arguments: str) -> set[Row]:
        """Returns the rows below the headings of the groups in this file, as words."""
        lines = [tuple(line.split()) for line in self.run(tool, *arguments).splitlines()]
        return {line for line in lines if line and line[0] in ("old", "new", "empty")}

    def groups(self, *arguments: str) -> set[Row]:
        return self.table(CONSUMER_GROUPS, *arguments)

    def reset(self, group: str, *arguments: str) -> set[Row]:
        what = ("--reset-offsets", "--group", group)
        return self.table(CONSUMER_GROUPS, *what, *arguments)


@pytest.fixture(scope="module")
def tools(drivers: Drivers) -> Iterator[Tools]:
    """Creates a group of each protocol with one member that read everything, and an empty one that read all but the
    last."""
    topic = Topic(drivers["kafka-python-3"], TOPIC, PARTITIONS)
    tools = Tools(drivers)
    topic.write(WRITTEN - 1)
    tools.empty.join(classic("java-4.3", "range"), TOPIC)
    tools.empty.wait_until_read(topic.written)
    tools.empty.leave()
    topic.write(1)
    tools.old.join(classic("java-4.3", "range"), TOPIC, settings={"client.id": "client"})
    tools.new.join(new_protocol("java-4.3"), TOPIC, settings={"client.id": "client"})
    for group in (tools.old, tools.new):
        group.wait_until_shared(TOPIC, partitions=PARTITIONS)
        group.wait_until_read(topic.written)
        group.wait_until_committed(drivers["java-4.3"], topic.ends())
    yield tools
    for group in (tools.old, tools.new):
        group.leave()


def member_id(group: Group) -> str:
    (member,) = group.members
    name: str = member.state()["member_id"]
    return name


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ([], {("old",), ("new",), ("empty",)}),
        (["--state"], {("old", "Stable"), ("new", "Stable"), ("empty", "Empty")}),
        (["--state", "stable"], {("old", "Stable"), ("new", "Stable")}),
        (["--state", "empty"], {("empty", "Empty")}),
        (["--type"], {("old", "Classic"), ("new", "Consumer"), ("empty", "Classic")}),
        (["--type", "consumer"], {("new", "Consumer")}),
        (["--type", "classic", "--state", "Stable"], {("old", "Classic", "Stable")}),
    ],
)
def test_groups_are_listed_by_state_and_type(tools: Tools, options: list[str], rows: set[Row]) -> None:
    assert tools.groups("--list", *options) == rows


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ([], {("old", "Classic", "consumer"), ("new", "Consumer", "consumer"), ("empty", "Classic", "consumer")}),
        (["--group-type", "consumer"], {("new", "Consumer", "consumer")}),
        (["--group-type", "classic"], {("old", "Classic", "consumer"), ("empty", "Classic", "consumer")}),
        (["--protocol", "other"], set()),
    ],
)
def test_groups_of_all_types_are_listed_by_protocol(tools: Tools, options: list[str], rows: set[Row]) -> None:
    assert tools.table(GROUPS, "--list", *options) == rows


def test_the_lag_of_every_partition_is_described(tools: Tools) -> None:
    for name, offset, lag, owner in (
        ("old", "5", "0", (member_id(tools.old), "/127.0.0.1", "client")),
        ("new", "5", "0", (member_id(tools.new), "/127.0.0.1", "client")),
        ("empty", "4", "1", ("-", "-", "-")),
    ):
        rows = {(name, TOPIC, str(partition), offset, "5", lag, *owner) for partition in range(PARTITIONS)}
        assert tools.groups("--describe", "--group", name) == rows
        assert rows < tools.groups("--describe", "--all-groups")
    # The leader epoch of the last record that was read is part of a commit.
    verbose = tools.groups("--describe", "--group", "new", "--offsets", "--verbose")
    assert {row[3] for row in verbose} == {"0"}


def test_the_members_of_a_group_are_described(tools: Tools) -> None:
    (old,) = tools.groups("--describe", "--group", "old", "--members", "--verbose")
    assert old == ("old", member_id(tools.old), "/127.0.0.1", "client", "3", "-", f"{TOPIC}:0,1,2", "-", "-")
    (new,) = tools.groups("--describe", "--group", "new", "--members", "--verbose")
    *identity, epoch, assignment, target_epoch, target = new
    assert identity == ["new", member_id(tools.new), "/127.0.0.1", "client", "3"]
    assert (assignment, target) == (f"{TOPIC}:0,1,2", f"{TOPIC}:0,1,2")
    assert epoch == target_epoch == str(tools.new.members[0].state()["generation"])
    assert tools.groups("--describe", "--group", "empty", "--members") == set()


def test_the_state_of_a_group_is_described(tools: Tools, broker: Broker) -> None:
    coordinators = [(address, f"({node_id})") for node_id, address in enumerate(broker.addresses, start=1)]
    described = tools.groups("--describe", "--all-groups", "--state")
    assert {(group, *rest) for group, address, node_id, *rest in described if (address, node_id) in coordinators} >= {
        ("old", "range", "Stable", "1"),
        ("new", "uniform", "Stable", "1"),
        ("empty", "-", "Empty", "0"),
    }


def test_what_is_not_there_or_in_use_is_said(tools: Tools) -> None:
    missing = r"GroupIdNotFoundException: (Group unknown not found|The group id does not exist)\."
    for wanted, *arguments in (
        (missing, "--describe", "--group", "unknown"),
        (missing, "--delete", "--group", "unknown"),
        (missing, "--delete-offsets", "--group", "unknown", "--topic", TOPIC),
        ("GroupNotEmptyException: The group is not empty", "--delete", "--group", "old"),
        ("GroupNotEmptyException: The group is not empty", "--delete", "--group", "new"),
        ("GroupSubscribedToTopicException", "--delete-offsets", "--group", "old", "--topic", TOPIC),
        ("GroupSubscribedToTopicException", "--delete-offsets", "--group", "new", "--topic", TOPIC),
        (
            "only be reset if the group 'old' is inactive, but the current state is Stable",
            *("--reset-offsets", "--group", "old", "--topic", TOPIC, "--to-earliest", "--execute"),
        ),
    ):
        assert re.search(wanted, tools.run(CONSUMER_GROUPS, *arguments)), arguments


@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-offset", "2"], 2),
        (["--shift-by", "-1"], 3),
        (["--shift-by", "9"], 5),  # not above the end
        (["--to-current"], 4),
        (["--to-datetime", "2020-01-01T00:00:00.000"], 0),
        (["--by-duration", "PT1H"], 0),
    ],
)
def test_offsets_are_reset(tools: Tools, scenario: list[str], offset: int) -> None:
    assert tools.reset("empty", "--topic", TOPIC, "--to-offset", "4", "--execute")
    rows = {("empty", TOPIC, str(partition), str(offset)) for partition in range(PARTITIONS)}
    assert tools.reset("empty", "--topic", TOPIC, *scenario, "--dry-run") == rows
    committed = {row[2:4] for row in tools.groups("--describe", "--group", "empty")}
    assert committed == {(str(partition), "4") for partition in range(PARTITIONS)}
    assert tools.reset("empty", "--topic", TOPIC, *scenario, "--execute") == rows
    committed = {row[2:4] for row in tools.groups("--describe", "--group", "empty")}
    assert committed == {(str(partition), str(offset)) for partition in range(PARTITIONS)}


def test_offsets_are_reset_from_a_file_deleted_and_the_group_with_them(tools: Tools, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{TOPIC},0,2\n{TOPIC},1,3\n")
    assert tools.reset("empty", "--from-file", str(file), "--execute") == {
        ("empty", TOPIC, "0", "2"),
        ("empty", TOPIC, "1", "3"),
    }
    exported = tools.run(
        CONSUMER_GROUPS, *("--reset-offsets", "--group", "empty", "--topic", f"{TOPIC}:0,1"), "--to-current", "--export"
    )
    assert sorted(line for line in exported.splitlines() if line.startswith(TOPIC)) == [f"{TOPIC},0,2", f"{TOPIC},1,3"]

    deleted = tools.run(CONSUMER_GROUPS, "--delete-offsets", "--group", "empty", "--topic", f"{TOPIC}:0")
    assert re.search(rf"{TOPIC}\s+0\s+Successful", deleted)
    assert {row[2] for row in tools.groups("--describe", "--group", "empty")} == {"1", "2"}
    deleted = tools.run(CONSUMER_GROUPS, "--delete", "--group", "empty")
    assert "Deletion of requested consumer groups ('empty') was successful." in deleted
    assert ("empty",) not in tools.groups("--list")


def test_offsets_of_a_group_that_never_was_are_set(tools: Tools) -> None:
    assert tools.reset("empty", "--topic", TOPIC, "--to-latest", "--execute") == {
        ("empty", TOPIC, str(partition), "5") for partition in range(PARTITIONS)
    }
    tools.drivers["kafka-python-3"].produce(TOPIC, [Record(value=b"one more")])
    assert {row[2:6] for row in tools.groups("--describe", "--group", "empty")} == {
        ("0", "5", "6", "1"),
        ("1", "5", "5", "0"),
        ("2", "5", "5", "0"),
    }
    # Nobody ever joined, so there is no protocol.
    assert ("empty", "Classic") in tools.table(GROUPS, "--list")
