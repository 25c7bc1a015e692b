"""Leaving a classic group, one by one or many at once."""

import pytest

from barnabas.broker.groups.classic.state import EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.messages.leave_group import MemberIdentity
from tests.broker.groups.classic.members import GROUP, INITIAL_DELAY_MS, SESSION_MS, Classic
from tests.broker.groups.harness import code_of, value_of


def named(instance: str, member_id: str = "", reason: str | None = None) -> MemberIdentity:
    return MemberIdentity(member_id=member_id, group_instance_id=instance, reason=reason)


@pytest.mark.parametrize("version", range(0, 6))
def test_the_last_to_leave_leaves_an_empty_group(version: int) -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    answer = value_of(groups.leave(member_id, version=version))
    assert [member.error_code for member in answer.members] == ([ErrorCode.NONE] if version >= 3 else [])
    assert (groups.group.state, groups.group.generation_id) == (EMPTY, 2)
    assert groups.timer_keys() == []


@pytest.mark.parametrize("version", range(0, 6))
def test_a_stranger_is_told_that_it_is_none(version: int) -> None:
    groups = Classic()
    groups.stable()
    answer = groups.leave("stranger", version=version)
    if version < 3:
        assert code_of(answer) == ErrorCode.UNKNOWN_MEMBER_ID, "the one member's error is that of the whole"
    else:
        assert [member.error_code for member in value_of(answer).members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.group.state is STABLE


@pytest.mark.parametrize(
    ("group_id", "code", "reason"),
    [
        ("", ErrorCode.INVALID_GROUP_ID, "a group has a name"),
        ("another", ErrorCode.UNKNOWN_MEMBER_ID, "nobody is a member of a group that is not there"),
    ],
)
def test_there_must_be_a_group_to_leave(group_id: str, code: ErrorCode, reason: str) -> None:
    assert code_of(Classic().leave("somebody", group_id=group_id)) == code, reason


def test_each_member_has_its_own_answer() -> None:
    groups = Classic()
    dynamic, _, two = groups.stable(1, instances=["one", "two"])
    answer = value_of(
        groups.leave(
            dynamic, named("one"), named("two", "stranger"), named("nobody"), named("two", two), "", "stranger"
        )
    )
    assert [(member.member_id, member.group_instance_id, member.error_code) for member in answer.members] == [
        (dynamic, None, ErrorCode.NONE),
        ("", "one", ErrorCode.NONE),  # an administrator names the instance only
        ("stranger", "two", ErrorCode.FENCED_INSTANCE_ID),
        ("", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
        (two, "two", ErrorCode.NONE),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert groups.group.is_empty


def test_those_who_stay_join_again() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.leave(MemberIdentity(member_id=leader, reason="scaled down"))
    assert groups.group.state is PREPARING_REBALANCE
    assert groups.group.leader_id == follower
    assert groups.report.having("scaled down")
    assert value_of(groups.join(follower)).leader == follower


def test_one_that_leaves_while_it_waits_is_answered() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    joining = groups.join(leader)
    groups.leave(leader)
    assert code_of(joining) == ErrorCode.UNKNOWN_MEMBER_ID
    groups.join(follower)
    (new,) = groups.joining()
    groups.sync_all([groups.join(follower), new])
    groups.join(follower)
    assert value_of(groups.join(value_of(new).member_id)).generation_id == 4
    syncing = groups.sync(value_of(new).member_id, 4)
    groups.leave(value_of(new).member_id)
    assert code_of(syncing) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_does_not_wait_for_one_that_left() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    joining = groups.join(leader)
    groups.leave(follower)
    assert [member.member_id for member in value_of(joining).members] == [leader]


def test_the_first_rebalance_is_not_cut_short_by_one_that_leaves() -> None:
    groups = Classic()
    first, second = groups.joining(2)
    groups.leave(list(groups.group.members)[1])
    assert code_of(second) == ErrorCode.UNKNOWN_MEMBER_ID
    assert not first.done
    groups.advance(2 * INITIAL_DELAY_MS)
    assert value_of(first).generation_id == 1


def test_when_all_leave_the_first_rebalance_the_group_is_empty() -> None:
    groups = Classic()
    groups.joining(2)
    groups.leave(*groups.group.members)
    groups.advance(2 * INITIAL_DELAY_MS)
    assert (groups.group.state, groups.group.generation_id) == (EMPTY, 1)
    assert groups.timer_keys() == []


@pytest.mark.parametrize("members", [0, 1])
def test_one_that_was_given_an_id_can_leave_without_ever_joining(members: int) -> None:
    groups = Classic()
    if members:
        groups.stable(members)
    member_id = groups.new_member_id()
    answer = value_of(groups.leave(member_id))
    assert [member.error_code for member in answer.members] == [ErrorCode.NONE]
    assert not groups.group.pending_members
    assert groups.group.state is (PREPARING_REBALANCE if members else EMPTY), "as in Kafka"
    assert member_id not in {key.member_id for key in groups.timer_keys()}


def test_a_leaver_whose_empty_group_cannot_be_stored_is_told_and_is_gone_all_the_same() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.append_error = KafkaStorageError("no space")
    assert code_of(groups.leave(member_id)) == ErrorCode.NOT_COORDINATOR
    assert groups.group.is_empty
    assert groups.report.having(f"Group {GROUP} could not be stored as empty")
    groups.advance(SESSION_MS)
    assert groups.timer_keys() == []
