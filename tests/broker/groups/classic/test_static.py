"""Static members (KIP-345): they come back under a new id, and the old one is fenced."""

from typing import Any

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.groups.classic.state import (
    COMPLETING_REBALANCE,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroupState,
)
from barnabas.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollower
from barnabas.protocol.stored.group_records import GroupMetadataValue
from tests.broker.groups.classic.members import ORDERS, SESSION_MS, Classic, subscribed
from tests.broker.groups.harness import code_of, value_of

BOTH = {"range": ORDERS, "roundrobin": ORDERS}


@pytest.mark.parametrize(
    ("version", "is_leader", "skips", "sees_members", "reason"),
    [
        (9, True, True, True, "it leads, and need not assign (KIP-814)"),
        (9, False, False, False, "it follows"),
        (8, True, False, False, "it cannot be told to skip: it is told of its old id as the leader, and follows"),
        (5, False, False, False, "it follows"),
    ],
)
def test_one_that_comes_back_to_a_stable_group_takes_its_place_and_nobody_else_notices(
    version: int, is_leader: bool, skips: bool, sees_members: bool, reason: str
) -> None:
    groups = Classic()
    leader, follower = groups.stable(0, instances=["one", "two"])
    old, instance = (leader, "one") if is_leader else (follower, "two")
    joined = value_of(groups.join(instance=instance, version=version))
    assert groups.group.state is STABLE
    assert (joined.generation_id, joined.skip_assignment, bool(joined.members)) == (1, skips, sees_members), reason
    assert joined.member_id != old
    assert joined.leader == (joined.member_id if skips else leader)
    assert groups.group.leader_id == (joined.member_id if is_leader else leader)
    synced = value_of(groups.sync(joined.member_id, 1, instance=instance))
    assert synced.assignment == old.encode(), "with what the old one owned"
    _, value = groups.records()[-1]
    assert isinstance(value, GroupMetadataValue)
    assert {member.member_id for member in value.members} == set(groups.group.members)


def test_the_old_id_is_fenced() -> None:
    groups = Classic()
    old, _ = groups.stable(0, instances=["one", "two"])
    groups.join(instance="one")
    fenced: list[Promise[Any]] = [
        groups.heartbeat(old, 1, instance="one"),
        groups.sync(old, 1, instance="one"),
        groups.join(old, instance="one"),
    ]
    assert [code_of(answer) for answer in fenced] == [ErrorCode.FENCED_INSTANCE_ID] * 3
    with pytest.raises(KafkaError) as refused:
        groups.check_commit(old, 1, "one")
    assert refused.value.code == ErrorCode.FENCED_INSTANCE_ID
    assert code_of(groups.heartbeat(old, 1)) == ErrorCode.UNKNOWN_MEMBER_ID, "without its instance id"


def test_a_twin_that_waits_to_join_is_fenced_at_once() -> None:
    groups = Classic()
    first = groups.join(instance="one")
    second = groups.join(instance="one")
    assert code_of(first) == ErrorCode.FENCED_INSTANCE_ID
    groups.advance(6000)
    assert value_of(second).generation_id == 1
    assert len(groups.group.members) == 1


def test_a_twin_that_waits_for_its_assignment_is_fenced_at_once() -> None:
    groups = Classic()
    leader, follower = groups.stable(0, instances=["one", "two"])
    groups.join(leader, instance="one")
    groups.join(follower, instance="two")
    waiting = groups.sync(follower, 2, instance="two")
    groups.join(instance="two")
    assert code_of(waiting) == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("state", "protocols", "next_state", "reason"),
    [
        (STABLE, BOTH, STABLE, "the protocol stays the same"),
        (STABLE, {"range": subscribed("payments"), "roundrobin": ORDERS}, STABLE, "Kafka looks at the protocol only"),
        (STABLE, {"roundrobin": ORDERS}, PREPARING_REBALANCE, "the group's protocol would be another one"),
        (COMPLETING_REBALANCE, BOTH, PREPARING_REBALANCE, "the leader may assign to the old id"),
        (PREPARING_REBALANCE, BOTH, PREPARING_REBALANCE, "the others have still to come"),
    ],
)
def test_whether_one_that_comes_back_makes_the_others_join_again(
    state: ClassicGroupState, protocols: dict[str, bytes], next_state: ClassicGroupState, reason: str
) -> None:
    groups = Classic()
    leader, follower = groups.stable(0, instances=["one", "two"], protocols=BOTH)
    if state is not STABLE:
        groups.join(leader, instance="one", protocols=BOTH)
    if state is COMPLETING_REBALANCE:
        groups.join(follower, instance="two", protocols=BOTH)
    assert groups.group.state is state
    answer = groups.join(instance="one", protocols=protocols)
    assert groups.group.state is next_state, reason
    assert answer.done == (next_state is STABLE)


def test_one_that_comes_back_last_completes_the_rebalance() -> None:
    groups = Classic()
    leader, _ = groups.stable(1, instances=["static"])
    joined = groups.join(leader)
    back = groups.join(instance="static")
    assert value_of(back).generation_id == value_of(joined).generation_id == 2
    assert value_of(back).member_id in {member.member_id for member in value_of(joined).members}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_return_that_cannot_be_stored_never_was(is_late: bool) -> None:
    groups = Classic({"offsets.commit.timeout.ms": "5000"})
    old, other = groups.stable(0, instances=["one", "two"], protocols=BOTH)
    groups.append_error, groups.commits_at_once = (None if is_late else NotLeaderOrFollower("it moved")), False
    answer = groups.join(instance="one", session_ms=20_000, protocols={"range": ORDERS})
    if is_late:
        assert not answer.done
        groups.advance(5_000)
    assert code_of(answer) == (ErrorCode.COORDINATOR_NOT_AVAILABLE if is_late else ErrorCode.NOT_COORDINATOR)
    assert (answer.value.member_id, answer.value.generation_id, answer.value.leader) == ("", 1, old)
    groups.append_error, groups.commits_at_once = None, True
    assert groups.group.state is STABLE
    assert groups.group.leader_id == old
    restored = groups.group.members[old]
    assert (restored.session_timeout_ms, dict(restored.protocols), restored.assignment) == (
        SESSION_MS,
        BOTH,
        old.encode(),
    )
    assert code_of(groups.heartbeat(old, 1, instance="one")) == ErrorCode.NONE
    assert {key.member_id for key in groups.timer_keys()} == {old, other}


def test_a_return_that_is_stored_after_a_rebalance_began_is_answered_by_the_rebalance() -> None:
    groups = Classic()
    _, other = groups.stable(0, instances=["one", "two"])
    groups.commits_at_once = False
    back = groups.join(instance="one")
    joined = groups.join(other, instance="two", protocols={"range": subscribed("payments")})
    assert value_of(back).generation_id == value_of(joined).generation_id == 2
    groups.commit()
    assert groups.group.state is COMPLETING_REBALANCE


def test_a_static_member_that_falls_silent_loses_its_place() -> None:
    groups = Classic()
    groups.stable(0, instances=["one"])
    groups.advance(SESSION_MS)
    assert groups.group.is_empty
    assert groups.group.static_members == {}


def test_what_one_that_came_back_reads_counts_for_the_group() -> None:
    groups = Classic()
    groups.stable(0, instances=["one"])
    groups.join(instance="one", protocols={"range": subscribed("payments")})
    assert groups.group.is_subscribed_to("payments")
    assert not groups.group.is_subscribed_to("orders")
