"""Changes of protocol whose commit takes longer than `offsets.commit.timeout.ms`: who asked is told that it failed, but
it is written, and what was decided holds."""

from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.protocol.errors import ErrorCode
from tests.broker.groups.classic.client import ClassicConsumer
from tests.broker.groups.consumer.client import GROUP, group_of, heartbeat_request, join_request, send
from tests.broker.groups.harness import GroupHarness, code_of
from tests.broker.groups.test_migration import classic_group, kind_of, settle, upgraded

SLOW = {"offsets.commit.timeout.ms": "5000"}


def slow(harness: GroupHarness) -> None:
    """What is appended from now on is committed only after the answer has failed."""
    harness.commits_at_once = False


def committed_late(harness: GroupHarness, answer: Promise[Any]) -> None:
    harness.advance(5_000)
    assert code_of(answer) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.commits_at_once = True


def test_members_of_a_group_whose_downgrade_is_committed_late_have_sessions_and_join_again() -> None:
    harness, classic, _ = upgraded(SLOW)
    slow(harness)
    committed_late(harness, send(harness, heartbeat_request("new", -1)))
    assert kind_of(harness) is ClassicGroup
    assert [key.kind for key in harness.timer_keys()] == ["classic-join", "classic-session"]
    settle(classic)
    assert classic.owned == {"orders": {0, 1, 2, 3}}


def test_members_of_a_group_whose_upgrade_is_committed_late_have_sessions() -> None:
    harness, classic = classic_group(SLOW)
    slow(harness)
    committed_late(harness, send(harness, join_request("new", "orders")))
    assert kind_of(harness) is ConsumerGroup
    harness.advance(30_000)
    assert classic.member_id not in group_of(harness).members
    harness.advance(30_000)
    assert not group_of(harness).members


def test_a_classic_member_whose_place_is_committed_late_is_removed_if_it_does_not_come_back() -> None:
    harness, _, consumer = upgraded(SLOW)
    slow(harness)
    late = ClassicConsumer(harness, "orders", instance_id="i")
    committed_late(harness, late.join())
    assert len(group_of(harness).members) == 3
    for _ in range(4):
        harness.advance(10_000)
        consumer.beat()
    assert list(group_of(harness).members) == ["new"]


def test_what_a_member_says_before_the_downgrade_is_committed_counts() -> None:
    """It was overwritten by what the member had said before."""
    harness, classic, _ = upgraded()
    slow(harness)
    left = send(harness, heartbeat_request("new", -1))
    classic.protocols = ("range", "sticky")
    joined = classic.join()
    harness.commits_at_once = True
    assert (code_of(left), code_of(joined)) == (ErrorCode.NONE, ErrorCode.NONE)
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert [name for name, _ in group.members[classic.member_id].protocols] == ["range", "sticky"]
