"""Classic groups after a restart: members that come back in time go on as if nothing had happened."""

import pytest

from barnabas.broker.groups.classic.state import EMPTY, PREPARING_REBALANCE, STABLE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.schema import encode_into
from barnabas.protocol.stored.group_record_serde import decode_record, encode_key
from barnabas.protocol.stored.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.broker.groups.classic.members import GROUP, ORDERS, SESSION_MS, Classic
from tests.broker.groups.harness import code_of, value_of


def test_members_go_on_with_the_same_generation() -> None:
    groups = Classic()
    leader, static = groups.stable(1, instances=["static"])
    groups.restart()
    assert groups.group.state is STABLE
    assert code_of(groups.heartbeat(leader, 1)) == ErrorCode.NONE
    assert code_of(groups.heartbeat(static, 1, instance="static")) == ErrorCode.NONE
    assert value_of(groups.sync(leader, 1)).assignment == leader.encode()
    groups.check_commit(leader, 1)
    assert groups.report.having("rebalances")[1:] == []


def test_members_have_a_whole_session_to_come_back_in() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.advance(SESSION_MS - 1)
    groups.restart()
    groups.advance(SESSION_MS - 1)
    assert groups.group.has_member(member_id)
    groups.advance(1)
    assert groups.group.is_empty


def test_a_rebalance_that_was_not_finished_is_begun_again_from_the_generation_before() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    joined = groups.join(leader)
    groups.join(follower)
    assert value_of(joined).generation_id == 2
    groups.crash()
    assert (groups.group.state, groups.group.generation_id) == (STABLE, 1)
    assert code_of(groups.heartbeat(leader, 2)) == ErrorCode.ILLEGAL_GENERATION
    rejoined = [groups.join(leader), groups.join(follower)]
    assert [value_of(answer).generation_id for answer in rejoined] == [2, 2]


def test_who_was_given_an_id_before_a_restart_has_to_ask_again() -> None:
    groups = Classic()
    member_id = groups.new_member_id()
    groups.restart()
    assert code_of(groups.join(member_id)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_above_the_limit_joins_again_when_it_is_loaded() -> None:
    groups = Classic()
    leader, follower = groups.stable(2)
    groups.alter(group_max_size="1")
    groups.restart()
    assert groups.group.state is PREPARING_REBALANCE
    groups.check_commit(follower, 1)
    joined = groups.join(leader)
    assert code_of(groups.join(follower)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(value_of(joined).members) == 1


def test_an_empty_group_stays_what_it_was() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.leave(member_id)
    empty_since_ms = groups.clock.now_ms()
    groups.advance(1000)
    groups.restart()
    group = groups.group
    assert (group.state, group.generation_id, group.protocol_type) == (EMPTY, 2, "consumer")
    assert group.offsets_expire_since_ms("orders", 1, groups.clock.now_ms()) == empty_since_ms


def test_a_deleted_group_does_not_come_back() -> None:
    groups = Classic()
    (member_id,) = groups.stable()
    groups.leave(member_id)
    groups.partition.write((encode_key(GroupMetadataKey(group=GROUP)), None))
    groups.restart()
    assert GROUP not in groups.context.groups
    assert groups.timer_keys() == []


def stored(version: int, value: GroupMetadataValue) -> bytes:
    out = bytearray(version.to_bytes(2, "big"))
    encode_into(value, version, out, [])
    return bytes(out)


@pytest.mark.parametrize(
    ("version", "rebalance_ms", "since_ms", "instance", "reason"),
    [
        (0, SESSION_MS, None, None, "no rebalance timeout: the session timeout stands in"),
        (1, 60_000, None, None, "no timestamp of the state"),
        (2, 60_000, 77, None, "no static members"),
        (3, 60_000, 77, "static", "all of it"),
        (4, 60_000, 77, "static", "in a flexible encoding"),
    ],
)
def test_records_of_every_version_are_read(
    version: int, rebalance_ms: int, since_ms: int | None, instance: str | None, reason: str
) -> None:
    member = MemberMetadata(
        member_id="member",
        group_instance_id="static",
        client_id="client",
        client_host="/10.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=SESSION_MS,
        subscription=ORDERS,
        assignment=b"all",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="member",
        current_state_timestamp=77,
        members=[member],
    )
    groups = Classic()
    groups.partition.write((encode_key(GroupMetadataKey(group=GROUP)), stored(version, value)))
    assert decode_record(*groups.log[0]) is not None
    groups.crash()
    group, loaded = groups.group, groups.group.members["member"]
    assert (group.state, group.generation_id, group.leader_id) == (STABLE, 7, "member")
    assert (loaded.rebalance_timeout_ms, group.state_timestamp_ms, loaded.group_instance_id) == (
        rebalance_ms,
        since_ms,
        instance,
    ), reason
    assert group.is_subscribed_to("orders")
    assert value_of(groups.sync("member", 7)).assignment == b"all"


def test_an_empty_group_of_an_old_record_lets_offsets_expire_from_their_commit() -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=7, protocol=None, leader=None, members=[])
    groups = Classic()
    groups.partition.write((encode_key(GroupMetadataKey(group=GROUP)), stored(1, value)))
    groups.crash()
    assert groups.group.offsets_expire_since_ms("orders", 123, groups.clock.now_ms()) == 123
