"""The life of a group, once per kind of member: clients, assignors, the classic protocol and the one of KIP-848."""

import pytest

from compat_tests.harness.clients import VERIFIABLE_CONSUMER, taking_part
from compat_tests.harness.features import LIFE
from compat_tests.harness.groups import Group, Kind, Topic, live, lives

# Java's own are in test_groups_java.py, to spread the time.
OTHERS = (*(client for client in taking_part(LIFE) if not client.name.startswith("java")), VERIFIABLE_CONSUMER)
KINDS = {name: kind for client in OTHERS for name, kind in lives(client).items()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_members_share_a_topic_as_they_come_and_go(kind: Kind, group: Group, topic: Topic) -> None:
    live(group, kind, topic)
