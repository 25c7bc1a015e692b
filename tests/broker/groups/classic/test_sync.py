"""The leader's assignment: stored before anybody is told, told to all, and not at all if it cannot be stored."""

import pytest

from barnabas.broker.groups.classic.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from barnabas.protocol.errors import ErrorCode, KafkaError, KafkaStorageError
from barnabas.protocol.stored.group_records import GroupMetadataValue
from tests.broker.groups.classic.members import GROUP, INITIAL_DELAY_MS, ORDERS, Classic
from tests.broker.groups.harness import code_of, value_of


def completing(groups: Classic) -> tuple[str, str]:
    """Two members of generation 2, both of which have still to sync; the leader first."""
    leader, follower = groups.stable(2)
    groups.join(leader)
    groups.join(follower)
    assert groups.group.state is COMPLETING_REBALANCE
    return leader, follower


def test_nobody_is_told_before_the_assignment_is_stored() -> None:
    groups = Classic()
    leader, follower = completing(groups)
    groups.commits_at_once = False
    waiting = groups.sync(follower, 2)
    leading = groups.sync(leader, 2, {leader: b"a", follower: b"b"})
    assert not waiting.done
    assert not leading.done
    groups.commit()
    assert (value_of(leading).assignment, value_of(waiting).assignment) == (b"a", b"b")
    assert (value_of(waiting).protocol_type, value_of(waiting).protocol_name) == ("consumer", "range")
    assert groups.group.state is STABLE


def test_what_is_stored_is_the_whole_group() -> None:
    groups = Classic()
    leader, static = groups.stable(1, instances=["static"])
    _, value = groups.records()[-1]
    assert isinstance(value, GroupMetadataValue)
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == ("consumer", 1, "range", leader)
    first, second = value.members
    assert (first.member_id, first.group_instance_id, first.client_id) == (leader, None, "client")
    assert (second.member_id, second.group_instance_id, second.client_host) == (static, "static", "/127.0.0.1")
    assert (first.session_timeout, first.rebalance_timeout) == (10_000, 60_000)
    assert (second.subscription, second.assignment) == (ORDERS, static.encode())


def test_one_that_comes_later_is_told_at_once() -> None:
    groups = Classic()
    leader, follower = completing(groups)
    groups.sync(leader, 2, {follower: b"b"})
    assert value_of(groups.sync(follower, 2)).assignment == b"b"
    assert value_of(groups.sync(follower, 2)).assignment == b"b", "and as often as it asks"


def test_members_that_the_leader_left_out_own_nothing_and_strangers_are_ignored() -> None:
    groups = Classic()
    leader, follower = completing(groups)
    groups.sync(leader, 2, {leader: b"all", "stranger": b"none"})
    assert value_of(groups.sync(follower, 2)).assignment == b""


@pytest.mark.parametrize(
    ("group_id", "member_id", "generation_id", "how", "code", "reason"),
    [
        ("", "leader", 2, {}, ErrorCode.INVALID_GROUP_ID, "a group has a name"),
        ("another", "leader", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID, "there is no such group"),
        (GROUP, "stranger", 2, {}, ErrorCode.UNKNOWN_MEMBER_ID, "it is no member"),
        (GROUP, "leader", 1, {}, ErrorCode.ILLEGAL_GENERATION, "the one before"),
        (GROUP, "leader", 3, {}, ErrorCode.ILLEGAL_GENERATION, "one that is not yet"),
        (GROUP, "leader", 2, {"instance": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID, "an instance that never joined"),
        (GROUP, "leader", 2, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "another kind"),
        (GROUP, "leader", 2, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not what was chosen"),
        (GROUP, "leader", 2, {"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE, "as chosen"),
        (GROUP, "leader", 2, {}, ErrorCode.NONE, "before version 5 it does not say"),
    ],
)
def test_what_a_sync_is_refused_for(
    group_id: str, member_id: str, generation_id: int, how: dict[str, str], code: ErrorCode, reason: str
) -> None:
    groups = Classic()
    leader, _ = completing(groups)
    member_id = leader if member_id == "leader" else member_id
    answer = groups.sync(member_id, generation_id, {}, group_id=group_id, **how)
    assert code_of(answer) == code, reason


def test_while_members_join_there_is_nothing_to_fetch() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.join(leader)
    assert code_of(groups.sync(follower, 1)) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaStorageError("no space"), ErrorCode.NOT_COORDINATOR),
        (KafkaError("too few replicas", ErrorCode.NOT_ENOUGH_REPLICAS), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (None, ErrorCode.COORDINATOR_NOT_AVAILABLE),  # it is written, and not committed in time
    ],
)
def test_an_assignment_that_cannot_be_stored_is_nobodys_and_all_join_again(
    error: KafkaError | None, code: ErrorCode
) -> None:
    groups = Classic({"offsets.commit.timeout.ms": "5000"})
    leader, follower = completing(groups)
    waiting = groups.sync(follower, 2)
    groups.append_error, groups.commits_at_once = error, False
    leading = groups.sync(leader, 2, {leader: b"a", follower: b"b"})
    if error is None:
        groups.advance(4_999)
        assert not leading.done
        groups.advance(1)
    assert code_of(waiting) == code_of(leading) == code
    assert groups.group.state is PREPARING_REBALANCE
    assert {member.assignment for member in groups.group.members.values()} == {b""}
    groups.append_error, groups.commits_at_once = None, True
    groups.sync_all([groups.join(leader), groups.join(follower)])
    assert groups.group.generation_id == 3


def test_an_assignment_that_is_stored_too_late_is_nobodys() -> None:
    groups = Classic()
    leader, follower = completing(groups)
    groups.commits_at_once = False
    leading = groups.sync(leader, 2, {leader: b"a", follower: b"b"})
    groups.join(follower, protocols={"range": b"something else"})
    assert code_of(leading) == ErrorCode.REBALANCE_IN_PROGRESS
    groups.commit()
    assert groups.group.state is PREPARING_REBALANCE
    assert groups.group.members[follower].assignment == b""


def test_an_assignment_of_the_generation_before_does_not_count_for_the_next() -> None:
    groups = Classic()
    leader, follower = completing(groups)
    groups.commits_at_once = False
    groups.sync(leader, 2, {leader: b"old", follower: b"old"})
    groups.join(follower, protocols={"range": b"something else"})
    groups.join(leader)
    assert (groups.group.state, groups.group.generation_id) == (COMPLETING_REBALANCE, 3)
    groups.commit()
    assert groups.group.state is COMPLETING_REBALANCE
    groups.commits_at_once = True
    assert value_of(groups.sync(leader, 3, {leader: b"new"})).assignment == b"new"


def test_a_leader_that_repeats_itself_cannot_store_two_assignments_for_one_generation() -> None:
    groups = Classic()
    leader, follower = completing(groups)
    groups.commits_at_once = False
    first = groups.sync(leader, 2, {leader: b"a", follower: b"b"})
    second = groups.sync(leader, 2, {leader: b"b", follower: b"a"})
    assert code_of(first) == ErrorCode.REBALANCE_IN_PROGRESS, "it has given up on that answer"
    groups.commit()
    assert value_of(second).assignment == b"a", "what was stored is what is told"
    groups.commits_at_once = True
    groups.restart()
    assert value_of(groups.sync(follower, 2)).assignment == b"b"


def test_a_group_of_one_gets_its_assignment() -> None:
    groups = Classic()
    (answer,) = groups.joining(protocol_type="connect", protocols={"compatible": b"url"})
    groups.advance(INITIAL_DELAY_MS)
    joined = value_of(answer)
    assert value_of(groups.sync(joined.member_id, 1, {joined.member_id: b"tasks"})).assignment == b"tasks"
