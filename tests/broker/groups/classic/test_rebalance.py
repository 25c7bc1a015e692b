"""Time in a classic group: sessions, rebalances that somebody is late for, heartbeats in every state."""

from collections.abc import Callable

import pytest

from barnabas.broker.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.stored.group_records import GroupMetadataValue
from tests.broker.groups.classic.members import GROUP, INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, Classic
from tests.broker.groups.harness import code_of, value_of

# Sessions


def test_a_member_that_is_silent_for_its_session_timeout_is_removed_and_the_others_join_again() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.advance(SESSION_MS - 1)
    assert code_of(groups.heartbeat(leader, 1)) == ErrorCode.NONE
    groups.advance(1)
    assert list(groups.group.members) == [leader]
    assert groups.group.state is PREPARING_REBALANCE
    assert code_of(groups.heartbeat(follower, 1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.report.having(f"the session of {follower} timed out")


def test_a_group_whose_last_member_falls_silent_is_stored_as_empty() -> None:
    groups = Classic()
    groups.stable()
    groups.advance(SESSION_MS)
    assert groups.group.state is EMPTY
    _, value = groups.records()[-1]
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (2, "consumer", None, None)
    assert value.current_state_timestamp == groups.clock.now_ms()
    assert groups.timer_keys() == []


def test_an_empty_group_that_cannot_be_stored_does_no_harm() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.append_error = KafkaStorageError("no space")
    groups.advance(SESSION_MS)
    assert groups.group.state is EMPTY
    assert groups.report.having("warning")
    groups.append_error = None
    groups.restart()
    assert groups.group.state is STABLE, "what was stored last counts again"
    groups.advance(SESSION_MS)
    assert groups.group.state is EMPTY
    assert not groups.group.has_member(member_id)


def test_one_that_waits_for_the_others_need_not_send_heartbeats() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    joined = groups.join(leader)
    for _ in range(3):
        groups.advance(SESSION_MS - 1)
        groups.heartbeat(follower, 1)
    assert not joined.done
    groups.join(follower)
    assert value_of(joined).generation_id == 2


def test_the_session_of_one_that_waited_for_its_assignment_starts_with_the_answer() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.join(leader)
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    groups.advance(SESSION_MS - 1)
    groups.heartbeat(leader, 2)
    groups.advance(1)
    assert not waiting.done
    groups.sync(leader, 2, {follower: b"its own"})
    assert value_of(waiting).assignment == b"its own"
    groups.advance(SESSION_MS - 1)
    assert groups.group.has_member(follower)
    groups.advance(1)
    assert not groups.group.has_member(follower)


@pytest.mark.parametrize(
    ("state", "code", "reason"),
    [
        (PREPARING_REBALANCE, ErrorCode.REBALANCE_IN_PROGRESS, "it has to join again"),
        (COMPLETING_REBALANCE, ErrorCode.NONE, "it waits for its assignment"),
        (STABLE, ErrorCode.NONE, "all is well"),
    ],
)
def test_a_heartbeat_prolongs_the_session_in_every_state(state: object, code: ErrorCode, reason: str) -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    generation_id = 1
    if state is not STABLE:
        groups.join(leader)
    if state is COMPLETING_REBALANCE:
        groups.join(follower)
        generation_id = 2
    assert groups.group.state is state
    for _ in range(3):
        groups.advance(SESSION_MS - 1)
        assert code_of(groups.heartbeat(follower, generation_id)) == code, reason
        if state is not PREPARING_REBALANCE:
            groups.heartbeat(leader, generation_id)


@pytest.mark.parametrize(
    ("group_id", "member_id", "generation_id", "instance", "code", "reason"),
    [
        ("", "leader", 1, None, ErrorCode.INVALID_GROUP_ID, "a group has a name"),
        ("another", "leader", 1, None, ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group"),
        (GROUP, "stranger", 1, None, ErrorCode.UNKNOWN_MEMBER_ID, "it is no member"),
        (GROUP, "leader", 0, None, ErrorCode.ILLEGAL_GENERATION, "it missed a rebalance"),
        (GROUP, "leader", 2, None, ErrorCode.ILLEGAL_GENERATION, "a generation that never was"),
        (GROUP, "stranger", 1, "static", ErrorCode.FENCED_INSTANCE_ID, "another has taken its place"),
        (GROUP, "leader", 1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID, "an instance that never joined"),
        (GROUP, "static", 1, "static", ErrorCode.NONE, "itself"),
    ],
)
def test_what_a_heartbeat_is_refused_for(
    group_id: str, member_id: str, generation_id: int, instance: str | None, code: ErrorCode, reason: str
) -> None:
    groups = Classic()
    leader, static = groups.stable(1, instances=["static"])
    member_id = {"leader": leader, "static": static}.get(member_id, member_id)
    assert code_of(groups.heartbeat(member_id, generation_id, group_id=group_id, instance=instance)) == code, reason


def test_an_empty_group_knows_nobody() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.leave(member_id)
    assert code_of(groups.heartbeat(member_id, 2)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(groups.sync(member_id, 2)) == ErrorCode.UNKNOWN_MEMBER_ID


# Those who are late


def keep_alive(groups: Classic, *member_ids: str, until_ms: int, generation_id: int = 1) -> None:
    for _ in range(until_ms // 5000):
        for member_id in member_ids:
            groups.heartbeat(member_id, generation_id)
        groups.advance(5000)


def test_dynamic_members_that_do_not_join_in_time_are_left_out() -> None:
    groups = Classic()
    leader, late = groups.stable(2)
    joined = groups.join(leader)
    keep_alive(groups, late, until_ms=REBALANCE_MS - 5000)
    assert not joined.done
    keep_alive(groups, late, until_ms=5000)
    assert [member.member_id for member in value_of(joined).members] == [leader]


def test_static_members_that_do_not_join_in_time_keep_their_place() -> None:
    groups = Classic()
    leader, late = groups.stable(1, instances=["static"])
    joined = groups.join(leader)
    keep_alive(groups, late, until_ms=REBALANCE_MS)
    assert [member.member_id for member in value_of(joined).members] == [leader, late]


def test_the_slowest_member_sets_the_pace() -> None:
    groups = Classic()
    answers = groups.joining(1) + groups.joining(1, rebalance_ms=2 * REBALANCE_MS)
    groups.advance(2 * INITIAL_DELAY_MS)
    leader, slow = groups.sync_all(answers)
    joined = groups.join(leader)
    keep_alive(groups, slow, until_ms=REBALANCE_MS)
    assert not joined.done
    keep_alive(groups, slow, until_ms=REBALANCE_MS)
    assert joined.done


def test_a_rebalance_that_nobody_joins_goes_on_until_the_sessions_end() -> None:
    groups = Classic()
    leader, static = groups.stable(0, instances=["one", "two"])
    groups.alter(group_max_size="1")
    groups.restart()
    assert groups.group.state is PREPARING_REBALANCE
    for _ in range(2 * REBALANCE_MS // 5000):
        groups.heartbeat(leader, 1)
        groups.heartbeat(static, 1)
        groups.advance(5000)
    assert groups.group.state is PREPARING_REBALANCE
    assert groups.group.generation_id == 1
    groups.advance(SESSION_MS)
    groups.advance(REBALANCE_MS)
    assert groups.group.state is EMPTY
    assert groups.timer_keys() == []


@pytest.mark.parametrize("rebalance_ms", [0, -1])
def test_a_rebalance_timeout_of_nothing_does_not_keep_the_broker_busy(rebalance_ms: int) -> None:
    groups = Classic()
    leader, static = groups.stable(0, instances=["one", "two"])
    groups.group.members[static].rebalance_timeout_ms = rebalance_ms
    groups.leave(leader)
    groups.advance(SESSION_MS - 1)
    assert groups.group.state is PREPARING_REBALANCE
    groups.advance(1)
    assert groups.group.state is EMPTY


@pytest.mark.parametrize("instances", [(), ("static",)])
def test_members_that_do_not_fetch_their_assignment_in_time_are_left_out(instances: tuple[str, ...]) -> None:
    groups = Classic()
    leader, late = groups.stable(2 - len(instances), instances=instances)
    groups.join(leader)
    groups.join(late, instance=instances[0] if instances else None)
    value_of(groups.sync(leader, 2, {}))
    keep_alive(groups, leader, late, until_ms=REBALANCE_MS - 5000, generation_id=2)
    assert groups.group.state is STABLE
    keep_alive(groups, leader, late, until_ms=5000, generation_id=2)
    assert groups.group.state is PREPARING_REBALANCE
    assert list(groups.group.members) == [leader]
    assert groups.report.having(f"{late} did not fetch the assignment in time")


def test_a_leader_that_never_assigns_is_left_out() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.join(leader)
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    keep_alive(groups, leader, until_ms=REBALANCE_MS, generation_id=2)
    assert code_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(groups.group.members) == [follower]
    assert value_of(groups.join(follower)).leader == follower


def test_somebody_who_joins_interrupts_an_assignment() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.join(leader)
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    groups.joining()
    assert code_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert groups.group.state is PREPARING_REBALANCE


# The end of it


@pytest.mark.parametrize(
    ("reach", "reason"),
    [
        (lambda groups: groups.joining(2), "the first rebalance"),
        (lambda groups: groups.join(groups.stable(2)[0]), "a later one"),
        (lambda groups: groups.new_member_id(), "an id that was given out"),
        (lambda groups: groups.stable(2), "nobody waits"),
    ],
)
def test_when_the_coordinator_is_elsewhere_nobody_waits_and_no_timer_is_left(
    reach: Callable[[Classic], object], reason: str
) -> None:
    groups = Classic()
    reach(groups)
    waiting = [
        promise
        for member in groups.group.members.values()
        for promise in (member.awaiting_join, member.awaiting_sync)
        if promise is not None
    ]
    groups.unload()
    assert [code_of(promise) for promise in waiting] == [ErrorCode.NOT_COORDINATOR] * len(waiting)
    assert groups.timer_keys() == [], reason
    for answer in (groups.join(), groups.sync("m", 1), groups.heartbeat("m", 1), groups.leave("m")):
        assert code_of(answer) == ErrorCode.NOT_COORDINATOR


def test_one_that_waits_for_its_assignment_is_told_when_the_coordinator_is_elsewhere() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.join(leader)
    groups.join(follower)
    waiting = groups.sync(follower, 2)
    groups.unload()
    assert code_of(waiting) == ErrorCode.NOT_COORDINATOR
    assert groups.timer_keys() == []
