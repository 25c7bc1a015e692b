"""What a classic group answers for like any other: commits, expiry, deletion, and what is told about it."""

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.broker.groups.group import GroupType
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.stored.group_records import GroupMetadataKey
from tests.broker.groups.classic.members import GROUP, ORDERS, SESSION_MS, Classic, subscribed


def in_state(state: object, **how: Any) -> tuple[Classic, str, str]:
    """A group in that state, and two that are or were its members: the leader first."""
    groups = Classic()
    leader, follower = groups.stable(2, **how)
    if state in (PREPARING_REBALANCE, COMPLETING_REBALANCE):
        groups.join(leader, **how)
    if state is COMPLETING_REBALANCE:
        groups.join(follower, **how)
    if state is EMPTY:
        groups.leave(leader, follower)
    assert groups.group.state is state
    return groups, leader, follower


def code_raised(check: Callable[[], None]) -> ErrorCode:
    try:
        check()
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


# Commits


@pytest.mark.parametrize(
    ("state", "member", "generation_id", "instance", "code", "reason"),
    [
        (STABLE, "follower", 1, None, ErrorCode.NONE, "a member of this generation"),
        (STABLE, "follower", 0, None, ErrorCode.ILLEGAL_GENERATION, "it missed a rebalance"),
        (STABLE, "follower", 2, None, ErrorCode.ILLEGAL_GENERATION, "a generation that never was"),
        (STABLE, "follower", -1, None, ErrorCode.ILLEGAL_GENERATION, "a member says which generation it is of"),
        (STABLE, "stranger", 1, None, ErrorCode.UNKNOWN_MEMBER_ID, "no member"),
        (STABLE, "", -1, None, ErrorCode.UNKNOWN_MEMBER_ID, "one that assigns itself beside members"),
        (STABLE, "", -1, "nobody", ErrorCode.UNKNOWN_MEMBER_ID, "an instance that never joined"),
        (PREPARING_REBALANCE, "follower", 1, None, ErrorCode.NONE, "before it gives its partitions away"),
        (COMPLETING_REBALANCE, "follower", 2, None, ErrorCode.REBALANCE_IN_PROGRESS, "it does not know what it owns"),
        (COMPLETING_REBALANCE, "follower", 1, None, ErrorCode.ILLEGAL_GENERATION, "too late"),
        (EMPTY, "", -1, None, ErrorCode.NONE, "one that assigns itself, or an administrator"),
        (EMPTY, "stranger", -1, None, ErrorCode.NONE, "Kafka does not look at the id then"),
        (EMPTY, "follower", 1, None, ErrorCode.UNKNOWN_MEMBER_ID, "it was removed"),
        (EMPTY, "follower", 2, None, ErrorCode.UNKNOWN_MEMBER_ID, "it was removed"),
    ],
)
def test_who_may_commit(
    state: object, member: str, generation_id: int, instance: str | None, code: ErrorCode, reason: str
) -> None:
    groups, _, follower = in_state(state)
    member_id = follower if member == "follower" else member
    assert code_raised(lambda: groups.check_commit(member_id, generation_id, instance)) == code, reason


def test_one_that_commits_is_alive() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    for _ in range(3):
        groups.advance(SESSION_MS - 1)
        groups.check_commit(member_id, 1)
    groups.advance(SESSION_MS)
    assert groups.group.is_empty


def test_a_refused_commit_is_no_sign_of_life() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.advance(SESSION_MS - 1)
    assert code_raised(lambda: groups.check_commit(member_id, 0)) == ErrorCode.ILLEGAL_GENERATION
    groups.advance(1)
    assert groups.group.is_empty


def test_a_group_of_consumers_that_assign_themselves() -> None:
    groups = Classic()
    group = groups.machine.classic.get_or_create_simple(GROUP)
    assert groups.machine.classic.get_or_create_simple(GROUP) is group
    groups.check_commit("", -1)
    assert (group.type, group.state_name, group.protocol_type) == (GroupType.CLASSIC, "Empty", "")
    assert not group.is_subscribed_to("orders")
    assert groups.log == [], "its offsets are what is stored of it"


# Expiry

COMMITTED_MS = 1_000


@pytest.mark.parametrize(
    ("state", "how", "topic", "since", "reason"),
    [
        (EMPTY, {}, "orders", "state", "from when the group became empty"),
        (EMPTY, {"protocol_type": "connect"}, "orders", "state", "whatever kind it was"),
        (STABLE, {}, "orders", None, "it is being read"),
        (STABLE, {}, "payments", "commit", "nobody reads it any more (KIP-496)"),
        (STABLE, {"protocols": {"range": b"?"}}, "payments", None, "nobody knows what they read"),
        (STABLE, {"protocol_type": "connect"}, "payments", None, "nobody knows what they read"),
        (PREPARING_REBALANCE, {}, "payments", None, "somebody may be about to read it"),
        (COMPLETING_REBALANCE, {}, "payments", None, "somebody may be about to read it"),
    ],
)
def test_from_when_offsets_expire(
    state: object, how: dict[str, object], topic: str, since: str | None, reason: str
) -> None:
    groups, _, _ = in_state(state, **how)
    expected = {"state": groups.clock.now_ms(), "commit": COMMITTED_MS, None: None}[since]
    groups.clock.advance(5)
    found = groups.group.offsets_expire_since_ms(topic, COMMITTED_MS, groups.clock.now_ms())
    assert found == expected, reason


def test_offsets_of_a_group_without_a_protocol_expire_from_their_commit() -> None:
    group = Classic().machine.classic.get_or_create_simple(GROUP)
    assert group.offsets_expire_since_ms("orders", COMMITTED_MS, 5_000) == COMMITTED_MS


# Subscriptions, deletion


@pytest.mark.parametrize(
    ("how", "topic", "is_subscribed", "reason"),
    [
        ({}, "orders", True, "its members read it"),
        ({}, "payments", False, "nobody reads it"),
        ({"protocols": {"range": b""}}, "payments", True, "metadata that says nothing: anything may be read"),
        ({"protocols": {"range": b"\x00\x00\x00\x00\x00\x05"}}, "payments", True, "metadata that ends too early"),
        ({"protocols": {"range": b"\x7f\xff" + ORDERS[2:] + b"new"}}, "orders", True, "a version of the future"),
        ({"protocol_type": "connect"}, "orders", False, "they are no consumers"),
    ],
)
def test_what_a_group_reads(how: dict[str, object], topic: str, is_subscribed: bool, reason: str) -> None:
    groups, _, _ = in_state(STABLE, **how)
    assert groups.group.is_subscribed_to(topic) == is_subscribed, reason


def test_a_group_reads_what_any_of_its_members_reads_until_it_is_empty() -> None:
    groups = Classic()
    answers = [*groups.joining(), *groups.joining(protocols={"range": subscribed("payments")})]
    groups.advance(6000)
    members = groups.sync_all(answers)
    assert groups.group.is_subscribed_to("orders")
    assert groups.group.is_subscribed_to("payments")
    groups.leave(*members)
    assert not groups.group.is_subscribed_to("orders")


@pytest.mark.parametrize(
    ("state", "protocol_type", "delete", "delete_offsets", "reason"),
    [
        (EMPTY, "consumer", ErrorCode.NONE, ErrorCode.NONE, "nobody needs it"),
        (EMPTY, "connect", ErrorCode.NONE, ErrorCode.NONE, "nobody needs it"),
        (STABLE, "consumer", ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, "of topics that nobody reads, offsets may go"),
        (STABLE, "connect", ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP, "nobody knows what they read"),
        (PREPARING_REBALANCE, "consumer", ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE, "it has members"),
        (COMPLETING_REBALANCE, "connect", ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP, "it has members"),
    ],
)
def test_what_may_be_deleted(
    state: object, protocol_type: str, delete: ErrorCode, delete_offsets: ErrorCode, reason: str
) -> None:
    groups, _, _ = in_state(state, protocol_type=protocol_type)
    assert code_raised(groups.group.check_delete) == delete, reason
    assert code_raised(groups.group.check_offset_delete) == delete_offsets, reason
    assert code_raised(lambda: groups.group.check_offset_fetch(None, -1)) == ErrorCode.NONE


def test_a_deleted_group_is_dead_to_those_who_still_know_it() -> None:
    groups, leader, _ = in_state(EMPTY)
    groups.new_member_id()
    group = groups.group
    (tombstone,) = group.tombstones()
    assert tombstone == (GroupMetadataKey(group=GROUP), None)
    groups.machine.classic.replay(GroupMetadataKey(group=GROUP), None)
    assert GROUP not in groups.context.groups
    assert groups.timer_keys() == [], "nor is anybody waited for that was given an id"
    assert code_raised(group.check_delete) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_raised(group.check_offset_delete) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_raised(lambda: group.check_offset_fetch(None, -1)) == ErrorCode.GROUP_ID_NOT_FOUND
    assert code_raised(lambda: group.check_offset_commit(leader, None, 1, 9)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused = code_raised(lambda: group.check_transactional_commit(leader, None, 1))
    assert refused == ErrorCode.COORDINATOR_NOT_AVAILABLE


# What is told about it


@pytest.mark.parametrize(
    ("state", "name", "protocol", "metadata", "members"),
    [
        (EMPTY, "Empty", "", None, 0),
        (PREPARING_REBALANCE, "PreparingRebalance", "", b"", 2),
        (COMPLETING_REBALANCE, "CompletingRebalance", "", b"", 2),
        (STABLE, "Stable", "range", ORDERS, 2),
    ],
)
def test_a_group_tells_its_protocol_and_metadata_only_while_it_is_stable(
    state: object, name: str, protocol: str, metadata: bytes | None, members: int
) -> None:
    groups, leader, follower = in_state(state)
    described = groups.machine.classic.describe(groups.group)
    assert (described.error_code, described.group_id, described.group_state) == (ErrorCode.NONE, GROUP, name)
    assert (described.protocol_type, described.protocol_data) == ("consumer", protocol)
    assert [member.member_id for member in described.members] == [leader, follower][:members]
    for member in described.members:
        assert (member.client_id, member.client_host, member.member_metadata) == ("client", "/127.0.0.1", metadata)
    if state is STABLE:
        assert [member.member_assignment for member in described.members] == [leader.encode(), follower.encode()]
