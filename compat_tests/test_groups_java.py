"""The life of a group with both Java clients, every assignor and both protocols; apart, to spread the time."""

from collections.abc import Callable

import pytest

from compat_tests.groups import Group, Kind, Topic, classic, live, new_protocol

KINDS = {
    "range": lambda client: classic(client, "range"),
    "round robin": lambda client: classic(client, "roundrobin"),
    "sticky": lambda client: classic(client, "sticky"),
    "cooperative": lambda client: classic(client, "cooperative-sticky"),
    "consumer protocol, uniform": lambda client: new_protocol(client, "uniform"),
    "consumer protocol, range": lambda client: new_protocol(client, "range"),
}


@pytest.mark.parametrize("client", ["java-3.9", "java-4.3"])  # they speak versions 0 and 1 of the consumer protocol
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_members_share_a_topic_as_they_come_and_go(
    kind: Callable[[str], Kind], client: str, group: Group, topic: Topic
) -> None:
    live(group, kind(client), topic)
