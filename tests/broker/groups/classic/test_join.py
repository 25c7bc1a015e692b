"""Joining a classic group: who may, under which id, and whether the others have to join again."""

import pytest

from barnabas.broker.groups.classic.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    ClassicGroupState,
)
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.stored.group_records import GroupMetadataValue
from tests.broker.groups.classic.members import (
    GROUP,
    INITIAL_DELAY_MS,
    ORDERS,
    REBALANCE_MS,
    SESSION_MS,
    Classic,
    subscribed,
)
from tests.broker.groups.harness import code_of, value_of

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


# The id


@pytest.mark.parametrize(
    ("version", "instance", "is_asked_to_come_back", "reason"),
    [
        (3, None, False, "before version 4 a client cannot join in two steps"),
        (4, None, True, "KIP-394"),
        (9, None, True, "KIP-394"),
        (5, "static", False, "a static member leaves no ghost: it is known by its instance id"),
    ],
)
def test_a_new_member_is_given_an_id_to_come_back_with(
    version: int, instance: str | None, is_asked_to_come_back: bool, reason: str
) -> None:
    groups = Classic()
    answer = groups.join(version=version, instance=instance, client_id="billing")
    if is_asked_to_come_back:
        assert code_of(answer) == ErrorCode.MEMBER_ID_REQUIRED, reason
        assert answer.value.member_id.startswith("billing-")
        assert groups.group.pending_members == {answer.value.member_id}
        assert groups.group.state is EMPTY
    else:
        assert not answer.done, reason
        assert next(iter(groups.group.members)).startswith(f"{instance or 'billing'}-")


def test_an_id_that_nobody_joins_with_is_forgotten_after_the_session_timeout() -> None:
    groups = Classic()
    member_id = groups.new_member_id()
    groups.advance(SESSION_MS - 1)
    assert groups.group.pending_members
    groups.advance(1)
    assert not groups.group.pending_members
    assert groups.timer_keys() == []
    assert code_of(groups.join(member_id)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_those_who_were_given_an_id_but_no_longer_than_their_session() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.new_member_id()
    groups.leave(leader)
    rejoined = groups.join(follower)
    assert not rejoined.done
    groups.advance(SESSION_MS)
    assert value_of(rejoined).generation_id == 2


@pytest.mark.parametrize(
    ("how", "code", "reason"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID, "a group has a name"),
        ({"session_ms": 5999}, ErrorCode.INVALID_SESSION_TIMEOUT, "below group.min.session.timeout.ms"),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT, "above group.max.session.timeout.ms"),
        ({"session_ms": 6000}, ErrorCode.MEMBER_ID_REQUIRED, "the least that is allowed"),
        ({"session_ms": 1_800_000}, ErrorCode.MEMBER_ID_REQUIRED, "the most that is allowed"),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID, "an id of a group that is not there"),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "somebody who can do nothing"),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "a group of nothing"),
    ],
)
def test_what_the_first_to_join_is_told(how: dict[str, object], code: ErrorCode, reason: str) -> None:
    answer = Classic().join(**how)  # type: ignore[arg-type]
    assert code_of(answer) == code, reason
    if code != ErrorCode.MEMBER_ID_REQUIRED:
        assert answer.value.member_id == how.get("member_id", ""), "it is told the id that it came with"


@pytest.mark.parametrize(
    ("member_id", "instance", "how", "code", "reason"),
    [
        ("stranger", None, {}, ErrorCode.UNKNOWN_MEMBER_ID, "an id that was never given out"),
        ("stranger", "nobody", {}, ErrorCode.UNKNOWN_MEMBER_ID, "an instance that never joined"),
        ("stranger", "static", {}, ErrorCode.FENCED_INSTANCE_ID, "another one has taken its place"),
        ("", None, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no consumer"),
        ("", None, {"protocols": {"sticky": ORDERS}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not what all can do"),
        ("", None, {}, ErrorCode.MEMBER_ID_REQUIRED, "it fits"),
    ],
)
def test_what_one_is_told_that_joins_a_stable_group(
    member_id: str, instance: str | None, how: dict[str, object], code: ErrorCode, reason: str
) -> None:
    groups = Classic()
    groups.stable(1, instances=["static"])
    answer = groups.join(member_id, instance=instance, **how)  # type: ignore[arg-type]
    assert code_of(answer) == code, reason
    assert groups.group.state is STABLE


def test_an_id_that_was_given_out_is_none_for_a_static_member() -> None:
    groups = Classic()
    answer = groups.join(groups.new_member_id(), instance="static")
    assert (code_of(answer), answer.value.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, ""), "as in Kafka"


def test_a_group_is_stored_before_anybody_is_told_of_it() -> None:
    groups = Classic()
    groups.commits_at_once = False
    answer = groups.join()
    assert not answer.done
    groups.commit()
    assert code_of(answer) == ErrorCode.MEMBER_ID_REQUIRED
    (_, value), *rest = groups.records()
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.members, rest) == (0, "", [], [])


@pytest.mark.parametrize("version", [3, 9])
def test_a_group_that_cannot_be_stored_never_was(version: int) -> None:
    groups = Classic()
    groups.append_error = KafkaStorageError("no space")
    answer = groups.join(version=version)
    assert code_of(answer) == ErrorCode.NOT_COORDINATOR
    assert GROUP not in groups.context.groups
    assert groups.timer_keys() == []


# The first rebalance


def test_the_first_rebalance_waits_for_more_members_and_longer_while_they_come() -> None:
    groups = Classic()
    (first,) = groups.joining()
    groups.advance(INITIAL_DELAY_MS - 1)
    (second,) = groups.joining()
    groups.advance(1)
    assert not first.done, "somebody came, more may come"
    groups.advance(INITIAL_DELAY_MS)
    assert value_of(first).generation_id == value_of(second).generation_id == 1


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() -> None:
    groups = Classic()
    (first,) = groups.joining(rebalance_ms=7000)
    for _ in range(6):
        groups.advance(1000)
        groups.joining(rebalance_ms=7000)
    assert not first.done
    groups.advance(1000)
    assert len(value_of(first).members) == 7


def test_a_delay_of_zero_waits_for_nobody() -> None:
    groups = Classic({"group.initial.rebalance.delay.ms": "0"})
    (first,) = groups.joining()
    groups.advance(0)
    assert value_of(first).generation_id == 1


def test_a_group_that_became_empty_waits_again() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.leave(member_id)
    (answer,) = groups.joining()
    groups.advance(INITIAL_DELAY_MS - 1)
    assert not answer.done
    groups.advance(1)
    assert value_of(answer).generation_id == 3, "the empty generation was the second"


# Leaders and protocols


def test_the_first_to_join_leads_and_only_the_leader_is_told_who_the_members_are() -> None:
    groups = Classic()
    first, second = groups.joining(2)
    groups.advance(2 * INITIAL_DELAY_MS)
    leader, follower = value_of(first), value_of(second)
    assert leader.leader == follower.leader == leader.member_id
    assert [member.member_id for member in leader.members] == [leader.member_id, follower.member_id]
    assert [member.metadata for member in leader.members] == [ORDERS, ORDERS]
    assert follower.members == []
    assert (leader.protocol_type, leader.protocol_name, leader.skip_assignment) == ("consumer", "range", False)


@pytest.mark.parametrize(
    ("members", "chosen", "reason"),
    [
        (["range"], "range", "there is no other"),
        (["range roundrobin", "roundrobin"], "roundrobin", "the one that both support"),
        (["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin", "two votes against one"),
        (["range roundrobin", "roundrobin range"], "range", "the earliest vote breaks a tie"),
        (["sticky range roundrobin", "roundrobin range", "range roundrobin"], "range", "no vote for what not all can"),
        (["range range roundrobin", "roundrobin range", "roundrobin"], "roundrobin", "a name given twice counts once"),
    ],
)
def test_members_vote_for_a_protocol_that_all_support(members: list[str], chosen: str, reason: str) -> None:
    groups = Classic()
    answers = [
        groups.join(groups.new_member_id(), protocols=[(name, ORDERS) for name in names.split()]) for names in members
    ]
    groups.advance(REBALANCE_MS)
    assert {value_of(answer).protocol_name for answer in answers} == {chosen}, reason


def test_a_leader_that_does_not_come_back_is_replaced_by_one_that_did() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    joined = groups.join(follower, protocols={"range": subscribed("orders", "payments")})
    assert not joined.done
    for _ in range(REBALANCE_MS // 5000 - 1):
        groups.advance(5000)
        assert code_of(groups.heartbeat(leader, 1)) == ErrorCode.REBALANCE_IN_PROGRESS
    groups.advance(5000)
    assert value_of(joined).leader == follower
    assert code_of(groups.heartbeat(leader, 1)) == ErrorCode.UNKNOWN_MEMBER_ID


# Joining again

CHANGED = {"range": subscribed("payments")}


@pytest.mark.parametrize(
    ("who", "state", "protocols", "next_state", "reason"),
    [
        ("leader", STABLE, None, PREPARING_REBALANCE, "a leader may have seen more partitions"),
        ("leader", STABLE, CHANGED, PREPARING_REBALANCE, "it wants something else"),
        ("follower", STABLE, None, STABLE, "it missed the answer, or lost its connection"),
        ("follower", STABLE, CHANGED, PREPARING_REBALANCE, "it wants something else"),
        ("leader", COMPLETING_REBALANCE, None, COMPLETING_REBALANCE, "it missed the answer"),
        ("leader", COMPLETING_REBALANCE, CHANGED, PREPARING_REBALANCE, "it wants something else"),
        ("follower", COMPLETING_REBALANCE, None, COMPLETING_REBALANCE, "it missed the answer"),
        ("follower", COMPLETING_REBALANCE, CHANGED, PREPARING_REBALANCE, "it wants something else"),
        ("leader", PREPARING_REBALANCE, None, PREPARING_REBALANCE, "the others have still to come"),
        ("follower", PREPARING_REBALANCE, CHANGED, PREPARING_REBALANCE, "the others have still to come"),
    ],
)
def test_what_a_member_brings_about_that_joins_again(
    who: str,
    state: ClassicGroupState,
    protocols: dict[str, bytes] | None,
    next_state: ClassicGroupState,
    reason: str,
) -> None:
    groups = Classic()
    leader, follower, third = groups.stable(3)
    if state is not STABLE:
        rejoined = [groups.join(leader)]
        if state is COMPLETING_REBALANCE:
            rejoined += [groups.join(follower), groups.join(third)]
            assert all(answer.done for answer in rejoined)
    assert groups.group.state is state
    generation_id = groups.group.generation_id
    member_id = leader if who == "leader" else follower
    answer = groups.join(member_id, protocols=protocols or {"range": ORDERS})
    assert groups.group.state is next_state, reason
    if next_state is PREPARING_REBALANCE:
        assert not answer.done
    else:
        joined = value_of(answer)
        assert (joined.generation_id, joined.leader, joined.member_id) == (generation_id, leader, member_id)
        assert len(joined.members) == (3 if who == "leader" else 0)


def test_one_that_asks_twice_is_answered_twice() -> None:
    groups = Classic()
    member_id = groups.new_member_id()
    first = groups.join(member_id)
    second = groups.join(member_id)
    assert code_of(first) == ErrorCode.REBALANCE_IN_PROGRESS, "replies leave a connection in order: it needs one"
    groups.advance(INITIAL_DELAY_MS)
    assert value_of(second).member_id == member_id
    assert groups.group.awaiting_join_count == 0


def test_the_new_timeouts_of_one_that_joins_again_count() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.sync_all([groups.join(member_id, session_ms=30_000)])
    groups.advance(29_999)
    assert code_of(groups.heartbeat(member_id, 2)) == ErrorCode.NONE


def test_a_client_of_version_0_has_its_session_timeout_for_rebalances_too() -> None:
    groups = Classic()
    groups.join(version=0, rebalance_ms=-1)
    (member,) = groups.group.members.values()
    assert member.rebalance_timeout_ms == SESSION_MS


# How many


def test_a_group_takes_no_more_members_than_group_max_size() -> None:
    groups = Classic({"group.max.size": "2"})
    groups.stable(2)
    refused = groups.join(version=3)
    assert code_of(refused) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert groups.group.state is STABLE


def test_the_last_to_come_find_no_place_when_the_limit_was_lowered() -> None:
    groups = Classic()
    leader, second, third = groups.stable(3)
    groups.alter(group_max_size="2")
    joined = [groups.join(leader), groups.join(second)]
    refused = groups.join(third)
    assert code_of(refused) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {value_of(answer).generation_id for answer in joined} == {2}, "nobody is left to wait for"
    assert list(groups.group.members) == [leader, second]


def test_a_member_that_waits_already_has_its_place() -> None:
    groups = Classic({"group.max.size": "1"})
    (first,) = groups.joining()
    member_id = next(iter(groups.group.members))
    again = groups.join(member_id)
    refused = groups.join(version=3)
    assert code_of(refused) == ErrorCode.GROUP_MAX_SIZE_REACHED
    groups.advance(INITIAL_DELAY_MS)
    assert value_of(again).member_id == member_id
    assert code_of(first) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_is_given_up_that_waits_too_long_for_its_first_answer() -> None:
    groups = Classic()
    leader, _ = groups.stable(2, rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    (answer,) = groups.joining(rebalance_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5000):
        assert not answer.done
        groups.heartbeat(leader, 1)
        groups.advance(5000)
    assert code_of(answer) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_report_tells_who_joined_and_why_once_for_each_start_and_end() -> None:
    groups = Classic()
    groups.join(groups.new_member_id(), reason="a new deployment")
    groups.advance(INITIAL_DELAY_MS)
    member_id = groups.group.leader_id or ""
    groups.sync(member_id, 1, {member_id: b""})
    start, end = groups.report.lines
    assert member_id in start
    assert "a new deployment" in start
    assert "generation 1 after 3000 ms" in end
    assert "1 member " in end
    assert "range" in end
