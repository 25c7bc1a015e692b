"""Groups whose members differ: clients of all kinds at once, and a group on its way between the two protocols."""

import pytest

from compat_tests.conftest import Drivers
from compat_tests.harness.clients import COOPERATIVE, RANGE, names, taking_part
from compat_tests.harness.features import LIFE, MIGRATION
from compat_tests.harness.groups import Group, Kind, Topic, classic, new_protocol


def test_clients_of_all_kinds_share_one_group(group: Group, drivers: Drivers) -> None:
    members = names(LIFE)
    topic = Topic(drivers["kafka-python-3"], group.name, 2 * len(members))
    for client in members:
        group.join(classic(client, "range"), topic.name)
    topic.write()
    states = group.wait_until_shared(topic.name, partitions=topic.partitions)
    assert {len(state["assignment"]) for state in states} == {2}
    group.wait_until_read(topic.written)


MIGRATIONS = {
    f"{client.name} {assignor}": (classic(client.name, assignor), new_protocol(client.name, client.remote_assignors[0]))
    for client in taking_part(MIGRATION)
    for assignor in client.assignors
    if assignor in (RANGE, COOPERATIVE)  # an eager one and one that is not
}


@pytest.mark.parametrize(("old", "new"), MIGRATIONS.values(), ids=MIGRATIONS)
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
