"""Groups that move from the classic to the consumer protocol and back while they run.

The answers are those that Kafka 4.3 gave to the same requests.
"""

import pytest

from barnabas.broker.groups.classic.group import ClassicGroup
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.sessions import JOIN, SYNC
from barnabas.protocol.errors import ErrorCode, KafkaStorageError
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import MemberIdentity
from barnabas.protocol.stored.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
)
from tests.broker.groups.classic.client import ClassicConsumer, assignment_bytes, client, leave, partitions_in
from tests.broker.groups.consumer.client import (
    GROUP,
    Consumer,
    consumer_harness,
    group_of,
    heartbeat_request,
    join_request,
    send,
    topic_id,
    with_topic,
)
from tests.broker.groups.harness import GroupHarness, code_of, value_of

ORDERS = topic_id("orders")


def classic_group(
    config: dict[str, str] | None = None, *, instance_id: str | None = None
) -> tuple[GroupHarness, ClassicConsumer]:
    """A stable classic group of one consumer that reads four partitions."""
    harness = consumer_harness({"group.initial.rebalance.delay.ms": "0", **(config or {})}, orders=4)
    consumer = ClassicConsumer(harness, "orders", instance_id=instance_id)
    settle(consumer)
    assert consumer.owned == {"orders": {0, 1, 2, 3}}
    assert kind_of(harness) is ClassicGroup
    return harness, consumer


def settle(*consumers: Consumer | ClassicConsumer, rounds: int = 6) -> None:
    for _ in range(rounds):
        for consumer in consumers:
            consumer.harness.advance(10)
            consumer.beat()


def upgraded(config: dict[str, str] | None = None) -> tuple[GroupHarness, ClassicConsumer, Consumer]:
    """A group with one member of each protocol, at rest."""
    harness, classic = classic_group(config)
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    settle(classic, consumer)
    return harness, classic, consumer


def kind_of(harness: GroupHarness) -> type:
    return type(harness.context.groups[GROUP])


# ---- upgrade


def test_a_classic_group_becomes_a_consumer_group_when_a_consumer_of_that_protocol_joins() -> None:
    harness, classic = classic_group()
    consumer = Consumer(harness, "new", "orders")
    joined = consumer.join()
    group = group_of(harness)
    assert (joined.member_epoch, group.epoch, group.assignment_epoch) == (2, 2, 2)
    old = group.members[classic.member_id]
    assert (old.member_epoch, old.previous_member_epoch) == (1, 1)  # its generation
    assert old.assigned_partitions == {ORDERS: {0: 1, 1: 1, 2: 1, 3: 1}}
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    settle(classic, consumer)
    assert (sorted(classic.owned["orders"]), consumer.partitions("orders")) == ([0, 1], [2, 3])
    assert group.state_name == "Stable"
    described = harness.machine.consumer.describe(group)
    assert {member.member_id: member.member_type for member in described.members} == {classic.member_id: 0, "new": 1}


def test_the_records_of_an_upgrade() -> None:
    """Kafka's order: the old group goes, its members come as they were, and then the one who joins."""
    harness, _ = classic_group()
    written = len(harness.log)
    Consumer(harness, "new", "orders").join()
    records = harness.records(written)
    assert [type(key) for key, _ in records] == [
        GroupMetadataKey,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupMemberMetadataKey,  # from here on it is a join as any other
        ConsumerGroupMetadataKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupCurrentMemberAssignmentKey,
    ]
    assert [value for key, value in records if isinstance(key, GroupMetadataKey)] == [None]


def test_who_waits_in_a_classic_rebalance_is_told_to_join_again() -> None:
    harness, classic = classic_group()
    late = ClassicConsumer(harness, "orders")
    late.beat()  # it joins, and the other one does not hear of it
    assert late.joining is not None
    assert not late.joining.done
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    assert code_of(late.joining) == ErrorCode.REBALANCE_IN_PROGRESS
    settle(classic, late, consumer, rounds=10)
    owned = [*classic.owned.get("orders", ()), *late.owned.get("orders", ()), *consumer.partitions("orders")]
    assert sorted(owned) == [0, 1, 2, 3]
    assert group_of(harness).state_name == "Stable"


@pytest.mark.parametrize(
    ("config", "protocol_type", "assignment"),
    [
        ({"group.consumer.migration.policy": "disabled"}, "consumer", assignment_bytes({})),
        ({"group.consumer.migration.policy": "downgrade"}, "consumer", assignment_bytes({})),
        ({"group.consumer.max.size": "1"}, "consumer", assignment_bytes({})),  # it has two members
        ({}, "connect", b""),  # no consumers
        ({}, "consumer", assignment_bytes({}, b"notes")),  # an assignor's own data would be lost
        ({}, "consumer", b"\0"),  # it cannot be understood
        ({}, "consumer", assignment_bytes({"orders": [0]})),  # both get partition 0: no consumer group can do that
    ],
)
def test_a_classic_group_that_cannot_become_a_consumer_group_stays_as_it_is(
    config: dict[str, str], protocol_type: str, assignment: bytes
) -> None:
    harness = consumer_harness({"group.initial.rebalance.delay.ms": "0", **config}, orders=1)
    members = [ClassicConsumer(harness, "orders", instance_id=f"i{number}") for number in range(2)]
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\0\xff\xff\xff\xff\0\0\0\0")
    answers = []
    for member in members:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id="",
            group_instance_id=member.instance_id,
            protocol_type=protocol_type,
            protocols=[protocol],
        )
        answers.append(harness.ask(lambda shard, request=request: shard.join_group(request, client(9))))  # type: ignore[misc]
    harness.advance(10)
    given = {answer.value.member_id: assignment for answer in answers}
    for member, answer in zip(members, answers, strict=True):
        member.member_id, member.generation_id = answer.value.member_id, answer.value.generation_id
    for member in members:
        member.sync(given, protocol_type=protocol_type)
    written, timers = len(harness.log), harness.timer_keys()
    assert code_of(send(harness, join_request("new", "orders"))) == ErrorCode.GROUP_ID_NOT_FOUND
    assert len(harness.log) == written
    assert harness.timer_keys() == timers
    assert [member.heartbeat() for member in members] == [ErrorCode.NONE, ErrorCode.NONE]


def test_a_member_that_is_refused_does_not_disturb_a_classic_rebalance() -> None:
    harness, _ = classic_group()
    late = ClassicConsumer(harness, "orders")
    late.beat()
    timers = harness.timer_keys()
    refused = send(harness, join_request("new", regex="("))
    assert code_of(refused) == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert late.joining is not None
    assert not late.joining.done
    assert harness.timer_keys() == timers


def test_a_static_classic_member_may_be_replaced_by_the_upgrade_itself() -> None:
    harness, _ = classic_group(instance_id="i")
    consumer = Consumer(harness, "new", "orders", instance_id="i")
    consumer.join()
    assert consumer.partitions("orders") == [0, 1, 2, 3]
    assert [key.member_id for key in harness.timer_keys()] == ["new"]
    assert list(group_of(harness).members) == ["new"]


@pytest.mark.parametrize("epoch", [3, -1])
def test_only_who_joins_makes_a_consumer_group_of_a_classic_one(epoch: int) -> None:
    harness, _ = classic_group()
    assert code_of(send(harness, heartbeat_request("new", epoch))) == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind_of(harness) is ClassicGroup


def test_an_empty_classic_group_becomes_a_new_consumer_group() -> None:
    harness, classic = classic_group({"group.consumer.migration.policy": "disabled"})
    classic.leave()
    joined = value_of(send(harness, join_request("new", "orders")))
    assert joined.member_epoch == 2
    harness.restart()
    assert list(group_of(harness).members) == ["new"]


def test_an_upgrade_that_cannot_be_written_has_not_happened() -> None:
    harness, classic = classic_group()
    harness.append_error = KafkaStorageError("disk full")
    assert code_of(send(harness, join_request("new", "orders"))) == ErrorCode.NOT_COORDINATOR
    harness.append_error = None
    assert kind_of(harness) is ClassicGroup
    assert classic.heartbeat() == ErrorCode.NONE
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    settle(classic, consumer)
    assert (sorted(classic.owned["orders"]), consumer.partitions("orders")) == ([0, 1], [2, 3])


# ---- classic members in a consumer group


def test_a_classic_member_gives_up_before_others_get() -> None:
    harness, classic = classic_group()
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    joined = value_of(classic.join({"orders": [0, 1, 2, 3]}))  # it still has everything
    assert (joined.generation_id, joined.leader, list(joined.members)) == (1, "", [])
    assert partitions_in(value_of(classic.sync()).assignment) == {"orders": {0, 1}}
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS  # to hear that it gave up the rest
    consumer.beat()
    assert consumer.partitions("orders") == []
    joined = value_of(classic.join({"orders": [0, 1]}))
    classic.generation_id = joined.generation_id
    assert partitions_in(value_of(classic.sync()).assignment) == {"orders": {0, 1}}
    assert classic.heartbeat() == ErrorCode.NONE
    consumer.beat()
    assert consumer.partitions("orders") == [2, 3]


def test_a_classic_member_is_told_when_what_it_waits_for_is_free() -> None:
    harness, classic, consumer = upgraded()
    late = ClassicConsumer(harness, "orders")
    late.beat()
    settle(consumer, rounds=2)
    assert late.owned == {}
    classic.beat()
    assert late.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    settle(classic, consumer, late)
    assert {len(classic.owned["orders"]), len(late.owned["orders"]), len(consumer.partitions("orders"))} == {1, 2}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"protocol_name": None, "protocol_type": None}, ErrorCode.NONE),  # before version 5 they are not told
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_the_protocol_of_a_sync(change: dict[str, str | None], code: ErrorCode) -> None:
    _, classic, _ = upgraded()
    assert code_of(classic.sync(None, **change)) == code


@pytest.mark.parametrize(
    ("member_id", "generation", "code"),
    [
        (None, 0, ErrorCode.NONE),
        (None, 97, ErrorCode.ILLEGAL_GENERATION),
        ("unknown", 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("new", 0, ErrorCode.UNKNOWN_MEMBER_ID),  # it does not use this protocol
    ],
)
def test_who_may_sync_and_heartbeat(member_id: str | None, generation: int, code: ErrorCode) -> None:
    _, classic, _ = upgraded()
    classic.member_id = member_id or classic.member_id
    classic.generation_id += generation
    assert classic.heartbeat() == code
    assert code_of(classic.sync()) == code


def test_a_sync_after_the_next_rebalance_has_begun_is_told_to_join() -> None:
    harness, classic = classic_group()
    Consumer(harness, "new", "orders").join()
    assert code_of(classic.sync()) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_classic_member_is_given_an_id_first() -> None:
    harness, *_ = upgraded()
    late = ClassicConsumer(harness, "orders")
    answer = late.join()
    assert code_of(answer) == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.value.member_id
    assert len(group_of(harness).members) == 2


def test_classic_members_need_a_protocol_in_common() -> None:
    harness, *_ = upgraded()
    other = ClassicConsumer(harness, "orders", protocols=("sticky",))
    assert code_of(other.join()) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    both = ClassicConsumer(harness, "orders", protocols=("sticky", "range"), instance_id="i")
    assert code_of(both.join()) == ErrorCode.NONE


def test_a_full_group_takes_no_more_classic_members() -> None:
    harness, *_ = upgraded({"group.consumer.max.size": "2"})
    assert code_of(ClassicConsumer(harness, "orders").join()) == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    harness, classic = classic_group()
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    for _ in range(6):
        assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        consumer.beat()
        harness.advance(10_000)
    assert list(group_of(harness).members) == ["new"]
    assert harness.report.having("it did not join again in 60000 ms")


def test_a_classic_member_that_does_not_sync_in_time_is_removed() -> None:
    harness, classic, consumer = upgraded()
    value_of(classic.join({"orders": [0, 1]}))
    assert SYNC in [key.kind for key in harness.timer_keys()]
    for _ in range(7):
        classic.heartbeat()
        consumer.beat()
        harness.advance(10_000)
    assert list(group_of(harness).members) == ["new"]
    assert not [key for key in harness.timer_keys() if key.kind in (JOIN, SYNC)]


def test_a_classic_member_has_the_session_that_it_asked_for() -> None:
    harness, _, consumer = upgraded()
    harness.advance(29_000)
    consumer.beat()
    harness.advance(2_000)
    assert list(group_of(harness).members) == ["new"]


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [
        ("", "i", ErrorCode.NONE),  # an administrator knows the instance only
        ("wrong", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("unknown", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("new", None, ErrorCode.NONE),  # whatever its protocol
    ],
)
def test_who_can_be_removed_by_leave_group(member_id: str, instance_id: str | None, code: ErrorCode) -> None:
    harness, _, _ = upgraded()
    static = ClassicConsumer(harness, "orders", instance_id="i")
    static.beat()
    answer = value_of(leave(harness, MemberIdentity(member_id=member_id, group_instance_id=instance_id)))
    assert [member.error_code for member in answer.members] == [code]


def test_a_static_member_can_come_back_with_the_other_protocol() -> None:
    harness, classic = classic_group(instance_id="i")
    other = Consumer(harness, "other", "orders")
    other.join()
    settle(classic, other)
    replaced = Consumer(harness, "new", "orders", instance_id="i")
    replaced.join()
    settle(replaced, other)
    assert (replaced.partitions("orders"), other.partitions("orders")) == ([0, 1], [2, 3])
    assert group_of(harness).classic_members == 0


def test_classic_members_survive_a_restart_in_a_consumer_group() -> None:
    harness, classic, consumer = upgraded()
    harness.restart()
    assert classic.heartbeat() == ErrorCode.NONE
    assert group_of(harness).members[classic.member_id].uses_classic_protocol
    consumer.beat()
    assert group_of(harness).classic_protocols == {"range": 1}


# ---- downgrade


def test_a_consumer_group_becomes_a_classic_one_when_only_classic_members_are_left() -> None:
    harness, classic, consumer = upgraded()
    written, epoch = len(harness.log), group_of(harness).epoch
    consumer.leave()
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert (group.generation_id, group.state_name) == (epoch, "PreparingRebalance")
    key, value = harness.records(written)[-1]
    assert isinstance(key, GroupMetadataKey)
    assert isinstance(value, GroupMetadataValue)
    assert [partitions_in(member.assignment) for member in value.members] == [{"orders": {0, 1}}]
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    settle(classic)
    assert classic.owned == {"orders": {0, 1, 2, 3}}
    assert group.state_name == "Stable"
    assert all(not key.kind.startswith("consumer") for key in harness.timer_keys())


def test_a_session_that_ends_can_downgrade_a_group_too() -> None:
    harness, classic, _ = upgraded()
    for _ in range(5):
        assert classic.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
        harness.advance(10_000)
    assert kind_of(harness) is ClassicGroup


@pytest.mark.parametrize(
    "config",
    [
        {"group.consumer.migration.policy": "upgrade"},
        {"group.max.size": "1"},  # two classic members are left
    ],
)
def test_a_group_that_may_not_become_classic_goes_on(config: dict[str, str]) -> None:
    harness, classic = classic_group(config)
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    late = ClassicConsumer(harness, "orders")
    settle(classic, consumer, late, rounds=10)
    consumer.leave()
    assert kind_of(harness) is ConsumerGroup
    settle(classic, late, rounds=10)
    assert len(classic.owned["orders"]) == len(late.owned["orders"]) == 2
    harness.image = with_topic(harness.image, "orders", 6)
    settle(classic, late, rounds=10)
    assert len(classic.owned["orders"]) == len(late.owned["orders"]) == 3


def test_a_downgraded_group_is_loaded_as_a_classic_one() -> None:
    """The rebalance that the downgrade began is forgotten, as in Kafka; the next one ends it."""
    harness, classic, consumer = upgraded()
    consumer.leave()
    harness.restart()
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == [classic.member_id]
    assert classic.heartbeat() == ErrorCode.NONE
    late = ClassicConsumer(harness, "orders")
    settle(classic, late, rounds=10)
    assert len(classic.owned["orders"]) == len(late.owned["orders"]) == 2


def test_a_downgrade_that_cannot_be_written_has_not_happened() -> None:
    harness, classic, _ = upgraded()
    harness.append_error = KafkaStorageError("disk full")
    assert code_of(send(harness, heartbeat_request("new", -1))) == ErrorCode.NOT_COORDINATOR
    harness.append_error = None
    assert kind_of(harness) is ConsumerGroup
    assert classic.heartbeat() == ErrorCode.NONE


def test_the_last_consumer_that_comes_back_as_a_classic_static_member_takes_its_own_place() -> None:
    harness, classic = classic_group()
    consumer = Consumer(harness, "new", "orders", instance_id="i")
    consumer.join()
    settle(classic, consumer)
    returned = ClassicConsumer(harness, "orders", instance_id="i")
    joined = value_of(returned.join())
    returned.member_id, returned.generation_id = joined.member_id, joined.generation_id
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "Stable"  # nobody else has to do anything
    assert partitions_in(value_of(returned.sync()).assignment) == {"orders": {2, 3}}
    assert classic.heartbeat() == ErrorCode.NONE
    assert {key.member_id for key in harness.timer_keys()} == {classic.member_id, returned.member_id}


def test_a_static_member_that_comes_back_as_a_classic_one_changes_nothing_while_others_do_not() -> None:
    harness, classic = classic_group()
    static, other = Consumer(harness, "static", "orders", instance_id="i"), Consumer(harness, "other", "orders")
    static.join()
    other.join()
    settle(classic, static, other, rounds=10)
    returned = ClassicConsumer(harness, "orders", instance_id="i")
    settle(classic, returned, other, rounds=10)
    assert kind_of(harness) is ConsumerGroup
    assert group_of(harness).state_name == "Stable"
    assert group_of(harness).classic_members == 2


def test_one_that_comes_back_with_another_subscription_makes_the_group_rebalance() -> None:
    harness, classic = classic_group()
    consumer = Consumer(harness, "new", "orders", instance_id="i")
    consumer.join()
    settle(classic, consumer)
    returned = ClassicConsumer(harness, "orders", "bills", instance_id="i")
    joined = value_of(returned.join())
    assert joined.generation_id == 0  # it has nothing before the rebalance
    returned.member_id = joined.member_id
    settle(returned, classic, rounds=10)
    group = harness.context.groups[GROUP]
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "Stable"
    assert len(classic.owned["orders"]) == len(returned.owned["orders"]) == 2


# ---- empty groups


def test_a_classic_consumer_makes_a_classic_group_of_an_empty_consumer_group() -> None:
    harness, classic, consumer = upgraded()
    classic.leave()
    consumer.leave()
    assert kind_of(harness) is ConsumerGroup
    stranger = ClassicConsumer(harness, "orders")
    stranger.member_id = "unknown"
    assert code_of(stranger.join()) == ErrorCode.UNKNOWN_MEMBER_ID
    assert kind_of(harness) is ConsumerGroup
    late = ClassicConsumer(harness, "orders")
    settle(late)
    assert kind_of(harness) is ClassicGroup
    assert late.owned == {"orders": {0, 1, 2, 3}}
    harness.restart()
    assert kind_of(harness) is ClassicGroup


def test_a_classic_group_that_cannot_be_written_leaves_the_empty_consumer_group() -> None:
    harness, classic, consumer = upgraded()
    classic.leave()
    consumer.leave()
    harness.append_error = KafkaStorageError("disk full")
    late = ClassicConsumer(harness, "orders", instance_id="i")
    answer = late.join()
    assert code_of(answer) != ErrorCode.NONE
    harness.append_error = None
    assert kind_of(harness) is ConsumerGroup
    Consumer(harness, "again", "orders").join()
    assert list(group_of(harness).members) == ["again"]
