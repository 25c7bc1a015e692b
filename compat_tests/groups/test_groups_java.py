"""The life of a group with both Java clients, every assignor and both protocols; apart, to spread the time."""

import pytest

from compat_tests.harness.clients import taking_part
from compat_tests.harness.features import LIFE
from compat_tests.harness.groups import Group, Kind, Topic, live, lives

JAVA = [client for client in taking_part(LIFE) if client.name.startswith("java")]
KINDS = {name: kind for client in JAVA for name, kind in lives(client).items()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)  # they speak versions 0 and 1 of the consumer protocol
def test_members_share_a_topic_as_they_come_and_go(kind: Kind, group: Group, topic: Topic) -> None:
    live(group, kind, topic)
