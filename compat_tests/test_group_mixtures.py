"""Groups whose members differ: clients of all kinds at once, and a group on its way between the two protocols."""

import pytest

from compat_tests.conftest import Drivers, names
from compat_tests.groups import Group, Kind, Topic, classic, new_protocol, taking_part
from compat_tests.harness import CLIENTS


def test_clients_of_all_kinds_share_one_group(group: Group, drivers: Drivers) -> None:
    members = names(CLIENTS)
    topic = Topic(drivers["kafka-python-3"], group.name, 2 * len(members))
    for client in members:
        group.join(classic(client, "range"), topic.name)
    topic.write()
    states = group.wait_until_shared(topic.name, partitions=topic.partitions)
    assert {len(state["assignment"]) for state in states} == {2}
    group.wait_until_read(topic.written)


MIGRATIONS = {
    "java-4.3, range": (classic("java-4.3", "range"), new_protocol("java-4.3", "range")),
    "java-4.3, cooperative": (classic("java-4.3", "cooperative-sticky"), new_protocol("java-4.3")),
    "java-3.9, eager": (classic("java-3.9", "sticky"), new_protocol("java-3.9")),
    "confluent": (classic("confluent-kafka", "cooperative-sticky"), new_protocol("confluent-kafka")),
    "franz-go": (classic("franz-go", "cooperative-sticky"), new_protocol("franz-go")),
}
TAKING_PART = taking_part({name: old for name, (old, _) in MIGRATIONS.items()})


@pytest.mark.parametrize(("old", "new"), [MIGRATIONS[name] for name in TAKING_PART], ids=TAKING_PART)
def test_a_group_moves_to_the_consumer_protocol_and_back_member_by_member(
    old: Kind, new: Kind, group: Group, topic: Topic, drivers: Drivers
) -> None:
    def type_of_the_group() -> str:
        kind: str = drivers["java-4.3"].ask("describe_group", group=group.name)["type"]
        return kind

    for _ in range(2):
        group.join(old, topic.name)
    group.wait_until_shared(topic.name)
    for kind, during, after in ((new, "Consumer", "Consumer"), (old, "Consumer", "Classic")):
        for leaving in list(group.members):
            group.join(kind, topic.name)
            group.wait_until_shared(topic.name)
            assert type_of_the_group() == during
            leaving.leave()
            topic.write(2)
            group.wait_until_shared(topic.name)
            group.wait_until_read(topic.written)
        assert type_of_the_group() == after
