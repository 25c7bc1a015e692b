"""ConsumerGroupHeartbeat: what is refused and why, who is fenced, and when the answer carries the assignment.

The answers are those that Kafka 4.3 gave to the same requests.
"""

from typing import Any

import pytest

from barnabas.broker.groups.consumer.sessions import SESSION
from barnabas.broker.groups.context import ClientInfo
from barnabas.protocol.errors import ErrorCode
from tests.broker.groups.consumer.client import (
    CLIENT,
    GROUP,
    Consumer,
    assignment_of,
    consumer_harness,
    group_of,
    heartbeat_request,
    join_request,
    send,
    settle,
    topic_id,
    with_topic,
)
from tests.broker.groups.harness import GroupHarness, code_of, value_of

ORDERS, BILLS = topic_id("orders"), topic_id("bills")
V0 = CLIENT._replace(api_version=0)
FIRST: dict[str, Any] = {"rebalance_timeout_ms": 1_000, "names": ["orders"], "owned": {}}


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "client", "code"),
    [
        ("m", 0, {**FIRST, "group_id": ""}, CLIENT, ErrorCode.INVALID_REQUEST),  # no group
        ("", 0, FIRST, CLIENT, ErrorCode.INVALID_REQUEST),  # since version 1 the client makes the member id
        ("", -1, {}, V0, ErrorCode.INVALID_REQUEST),  # who leaves has an id
        ("", 3, {}, V0, ErrorCode.INVALID_REQUEST),  # who is in has an id
        ("m", 0, {**FIRST, "instance_id": ""}, CLIENT, ErrorCode.INVALID_REQUEST),  # null means none
        ("m", 0, {**FIRST, "rack_id": ""}, CLIENT, ErrorCode.INVALID_REQUEST),  # null means none
        ("m", 0, {**FIRST, "group_id": " \t"}, CLIENT, ErrorCode.INVALID_REQUEST),  # as good as empty, in all of them
        (" ", 0, FIRST, CLIENT, ErrorCode.INVALID_REQUEST),
        ("m", 0, {**FIRST, "instance_id": "\0"}, CLIENT, ErrorCode.INVALID_REQUEST),
        ("m", 0, {**FIRST, "rack_id": "\r\n"}, CLIENT, ErrorCode.INVALID_REQUEST),
        (
            "m",
            0,
            {**FIRST, "rebalance_timeout_ms": -1},
            CLIENT,
            ErrorCode.INVALID_REQUEST,
        ),  # unknown in a first request
        ("m", 0, {**FIRST, "owned": None}, CLIENT, ErrorCode.INVALID_REQUEST),  # who joins has nothing, and says so
        ("m", 0, {**FIRST, "owned": {ORDERS: [0]}}, CLIENT, ErrorCode.INVALID_REQUEST),  # who joins has nothing
        ("m", 0, {**FIRST, "names": None}, CLIENT, ErrorCode.INVALID_REQUEST),  # neither names nor a regex
        ("m", -2, {}, CLIENT, ErrorCode.INVALID_REQUEST),  # only a static member leaves for a while
        ("m", -3, {}, CLIENT, ErrorCode.INVALID_REQUEST),  # no such epoch
        ("m", 0, {**FIRST, "assignor": "xx"}, CLIENT, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ("m", -1, {"assignor": "xx"}, CLIENT, ErrorCode.UNSUPPORTED_ASSIGNOR),  # even on the way out
        ("m", 5, {}, CLIENT, ErrorCode.GROUP_ID_NOT_FOUND),  # only who joins makes a group
        ("m", -1, {}, CLIENT, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", 0, {**FIRST, "names": None, "regex": "("}, CLIENT, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("m", 0, FIRST, CLIENT, ErrorCode.NONE),
        ("", 0, FIRST, V0, ErrorCode.NONE),  # version 0: the broker makes the member id
        ("m", 0, {**FIRST, "names": []}, CLIENT, ErrorCode.NONE),  # subscribed to nothing
        ("m", 0, {**FIRST, "rebalance_timeout_ms": -5}, CLIENT, ErrorCode.NONE),
        ("m", 0, {**FIRST, "names": None, "regex": "o.*"}, CLIENT, ErrorCode.NONE),
    ],
)
def test_a_request_on_its_own(
    member_id: str, epoch: int, fields: dict[str, Any], client: ClientInfo, code: ErrorCode
) -> None:
    harness = consumer_harness(orders=1)
    answer = send(harness, heartbeat_request(member_id, epoch, **fields), client)
    assert code_of(answer) == code
    if code != ErrorCode.NONE:
        assert not harness.log
        assert not harness.timer_keys()
        assert not harness.context.groups


def test_version_0_is_given_a_member_id() -> None:
    harness = consumer_harness(orders=1)
    given = value_of(send(harness, join_request("", "orders"), V0)).member_id
    assert given
    assert list(group_of(harness).members) == [given]


def two_epochs() -> tuple[GroupHarness, int]:
    """A member in its second epoch: in the one before it had orders only."""
    harness = consumer_harness(orders=4, bills=2)
    first = value_of(send(harness, join_request("m", "orders"))).member_epoch
    second = value_of(send(harness, heartbeat_request("m", first, names=["orders", "bills"]))).member_epoch
    assert second == first + 1
    return harness, first


@pytest.mark.parametrize(
    ("epochs_back", "owned", "code"),
    [
        (0, None, ErrorCode.NONE),
        (0, {ORDERS: [9]}, ErrorCode.NONE),  # what it says it owns only counts against what it must give up
        (1, {ORDERS: [0, 1]}, ErrorCode.NONE),  # the answer was lost: it has not more than it was given
        (1, {}, ErrorCode.NONE),
        (1, None, ErrorCode.FENCED_MEMBER_EPOCH),  # it does not say what it has
        (1, {ORDERS: [9]}, ErrorCode.FENCED_MEMBER_EPOCH),  # it has what was never given to it
        (1, {topic_id("other"): []}, ErrorCode.FENCED_MEMBER_EPOCH),  # nor anything of that topic
        (-1, {}, ErrorCode.FENCED_MEMBER_EPOCH),  # an epoch to come
        (2, {}, ErrorCode.NONE),  # it is 0 here: it joins anew
    ],
)
def test_the_epoch_that_a_member_comes_with(epochs_back: int, owned: Any, code: ErrorCode) -> None:
    harness, first = two_epochs()
    epoch = first + 1 - epochs_back
    if epochs_back == 2:
        epoch, request = 0, join_request("m", "orders", "bills")
    else:
        request = heartbeat_request("m", epoch, owned=owned)
    answer = send(harness, request)
    assert code_of(answer) == code
    if code == ErrorCode.NONE:
        assert answer.value.member_epoch == first + 1


def test_an_epoch_older_than_the_one_before_is_fenced() -> None:
    harness, first = two_epochs()
    value_of(send(harness, heartbeat_request("m", first + 1, names=["bills"], owned={BILLS: [0, 1]})))
    assert code_of(send(harness, heartbeat_request("m", first, owned={}))) == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, False),  # nothing has changed
        ({"owned": {ORDERS: [0, 1]}}, False),
        ({"names": ["orders"], "owned": {ORDERS: [0, 1]}}, False),  # not everything: no rebalance timeout
        ({"rebalance_timeout_ms": 1_000, "owned": {ORDERS: [0, 1]}}, False),  # not everything: no subscription
        ({"rebalance_timeout_ms": 1_000, "names": ["orders"]}, False),  # not everything: no partitions
        ({"rebalance_timeout_ms": 1_000, "names": ["orders"], "owned": {ORDERS: [0, 1]}}, True),  # an answer was lost
        (
            {"rebalance_timeout_ms": 1_000, "regex": "", "owned": {ORDERS: [0, 1]}},
            True,
        ),  # a regex is a subscription too
        ({"names": ["orders", "bills"]}, True),  # it gets more
    ],
)
def test_when_the_answer_carries_the_assignment(fields: dict[str, Any], is_told: bool) -> None:
    harness = consumer_harness(orders=2, bills=1)
    joined = value_of(send(harness, join_request("m", "orders")))
    assert assignment_of(joined) == {ORDERS: frozenset({0, 1})}
    told = assignment_of(value_of(send(harness, heartbeat_request("m", joined.member_epoch, **fields))))
    assert (told is not None) == is_told


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    harness = consumer_harness(orders=2)
    consumer = Consumer(harness, "m", "orders")
    consumer.join()
    written = len(harness.log)
    settle(consumer)
    consumer.beat(is_full=True)
    assert len(harness.log) == written


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({"rack_id": "r"}, "rack_id", "r"),
        ({"rebalance_timeout_ms": 7}, "rebalance_timeout_ms", 7),
        ({"assignor": "range"}, "server_assignor", "range"),
        ({"names": ["bills"]}, "subscribed_topic_names", {"bills"}),
        ({"regex": "b.*"}, "subscribed_topic_regex", "b.*"),
    ],
)
def test_what_a_request_leaves_out_is_as_it_was(fields: dict[str, Any], field: str, value: object) -> None:
    harness = consumer_harness(orders=2)
    epoch = value_of(send(harness, join_request("m", "orders"))).member_epoch
    before = group_of(harness).members["m"]
    value_of(send(harness, heartbeat_request("m", epoch, **fields)))
    after = group_of(harness).members["m"]
    assert getattr(after, field) == value
    for other in ("rack_id", "rebalance_timeout_ms", "server_assignor", "subscribed_topic_names"):
        assert other == field or getattr(after, other) == getattr(before, other)


def test_a_full_group_takes_only_those_who_are_in() -> None:
    harness = consumer_harness({"group.consumer.max.size": "1"}, orders=2)
    value_of(send(harness, join_request("a", "orders")))
    assert code_of(send(harness, join_request("b", "orders"))) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code_of(send(harness, join_request("", "orders"), V0)) == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert code_of(send(harness, join_request("a", "orders"))) == ErrorCode.NONE


def test_members_that_are_not_there_are_unknown() -> None:
    harness = consumer_harness(orders=2)
    value_of(send(harness, join_request("a", "orders")))
    for request in (heartbeat_request("b", 1), heartbeat_request("b", -1), heartbeat_request("b", -1, instance_id="i")):
        assert code_of(send(harness, request)) == ErrorCode.UNKNOWN_MEMBER_ID


# ---- static members


def with_static_member() -> tuple[GroupHarness, Consumer]:
    harness = consumer_harness(orders=4)
    static = Consumer(harness, "s1", "orders", instance_id="i")
    static.join()
    return harness, static


@pytest.mark.parametrize(
    ("member_id", "epoch", "instance_id", "code"),
    [
        ("s1", 2, "i", ErrorCode.NONE),
        ("s1", 2, None, ErrorCode.NONE),  # it is what it was
        ("s2", 2, "i", ErrorCode.FENCED_INSTANCE_ID),  # another member has this instance id
        ("s1", 2, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("s2", -2, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("s2", -1, "i", ErrorCode.FENCED_INSTANCE_ID),
        ("s1", -1, "unknown", ErrorCode.UNKNOWN_MEMBER_ID),
        ("s1", -2, "i", ErrorCode.NONE),
    ],
)
def test_who_may_speak_for_a_static_member(
    member_id: str, epoch: int, instance_id: str | None, code: ErrorCode
) -> None:
    harness, _ = with_static_member()
    assert code_of(send(harness, heartbeat_request(member_id, epoch, instance_id=instance_id))) == code


@pytest.mark.parametrize("member_id", ["s2", "s1"])
def test_an_instance_id_is_free_once_its_member_has_left_for_a_while(member_id: str) -> None:
    harness, static = with_static_member()
    again = join_request(member_id, "orders", instance_id="i")
    assert code_of(send(harness, again)) == ErrorCode.UNRELEASED_INSTANCE_ID
    static.leave(-2)
    answer = value_of(send(harness, again))
    assert (answer.member_epoch, assignment_of(answer)) == (2, {ORDERS: frozenset({0, 1, 2, 3})})
    assert list(group_of(harness).members) == [member_id]
    assert [key.member_id for key in harness.timer_keys()] == [member_id]


def test_a_static_member_that_is_away_keeps_its_partitions_and_its_place_until_its_session_ends() -> None:
    harness, static = with_static_member()
    other = Consumer(harness, "dynamic", "orders")
    other.join()
    settle(static, other)
    epoch = group_of(harness).epoch
    static.leave(-2)
    away = group_of(harness).members["s1"]
    assert away.member_epoch == -2
    assert away.assigned_partitions == {ORDERS: {0: 0, 1: 0}}
    assert group_of(harness).epoch == epoch
    harness.advance(30_000)
    other.beat()
    assert other.partitions("orders") == [2, 3]
    harness.advance(20_000)
    other.beat()
    assert other.partitions("orders") == [0, 1, 2, 3]
    assert list(group_of(harness).members) == ["dynamic"]


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    harness, static = with_static_member()
    other = Consumer(harness, "dynamic", "orders")
    other.join()
    settle(static, other)
    static.leave(-2)
    epoch = group_of(harness).epoch
    returned = Consumer(harness, "s2", "orders", instance_id="i")
    returned.join()
    settle(returned, other)
    assert (returned.partitions("orders"), other.partitions("orders")) == ([0, 1], [2, 3])
    assert group_of(harness).epoch == epoch
    assert code_of(send(harness, heartbeat_request("s1", 1, instance_id="i"))) == ErrorCode.FENCED_INSTANCE_ID
    assert code_of(send(harness, heartbeat_request("s1", 1))) == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_a_static_member_was_giving_up_is_free_when_it_leaves_for_a_while() -> None:
    harness, static = with_static_member()
    other = Consumer(harness, "dynamic", "orders")
    other.join()
    static.beat()  # it has to give two up
    static.leave(-2)
    assert [key.kind for key in harness.timer_keys()] == [SESSION, SESSION]
    harness.restart()
    assert [key.kind for key in harness.timer_keys()] == [SESSION, SESSION]
    other.beat()
    assert other.partitions("orders") == [2, 3]


def test_who_takes_the_place_of_a_static_member_takes_it_alone() -> None:
    harness, static = with_static_member()
    other = Consumer(harness, "dynamic", "orders")
    other.join()
    settle(static, other)
    static.leave(-2)
    harness.image = with_topic(harness.image, "orders", 6)  # a new target is computed for the one that joins
    returned = Consumer(harness, "s2", "orders", instance_id="i")
    returned.join()
    settle(returned, other)
    assert sorted([*returned.partitions("orders"), *other.partitions("orders")]) == list(range(6))


def test_a_member_that_changes_its_instance_id_gives_the_old_one_free() -> None:
    harness, _ = with_static_member()
    value_of(send(harness, join_request("s1", "orders", instance_id="j")))
    assert group_of(harness).static_members == {"j": "s1"}
    value_of(send(harness, join_request("s2", "orders", instance_id="i")))
    assert group_of(harness).static_members == {"j": "s1", "i": "s2"}


def test_a_static_member_that_comes_back_with_another_subscription_leaves_nothing_behind() -> None:
    harness, static = with_static_member()
    other = Consumer(harness, "dynamic", "orders")
    other.join()
    settle(static, other)
    static.leave(-2)
    returned = Consumer(harness, "s2", "orders", "bills", instance_id="i")
    returned.join()
    settle(returned, other)
    assert (returned.partitions("orders"), other.partitions("orders")) == ([0, 1], [2, 3])
    assert set(group_of(harness).target_assignment) == {"s2", "dynamic"}


def test_a_static_member_that_leaves_for_good_is_gone() -> None:
    harness, static = with_static_member()
    static.leave()
    assert group_of(harness).static_members == {}
    assert group_of(harness).state_name == "Empty"
    assert not harness.timer_keys()


def test_the_heartbeat_interval_of_the_group_is_told() -> None:
    harness = consumer_harness({"group.consumer.heartbeat.interval.ms": "7000"}, orders=1)
    assert value_of(send(harness, join_request("m", "orders"))).heartbeat_interval_ms == 7_000
    assert value_of(send(harness, heartbeat_request("m", -1))).heartbeat_interval_ms == 0


def test_a_topic_that_does_not_exist_yet_is_assigned_when_it_does() -> None:
    harness = consumer_harness()
    consumer = Consumer(harness, "m", "orders")
    consumer.join()
    assert consumer.owned == {}
    harness.image = with_topic(harness.image, "orders", 2)
    consumer.beat()
    assert consumer.partitions("orders") == [0, 1]
    assert group_of(harness, GROUP).state_name == "Stable"
