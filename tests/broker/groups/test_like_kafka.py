"""Groups in circumstances out of the ordinary, held to what Apache Kafka 4.3 did in the same ones."""

import pytest

from barnabas.base.promise import Promise
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.stored.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.broker.groups.classic.client import ClassicConsumer, client
from tests.broker.groups.consumer.client import GROUP, Consumer, consumer_harness, group_of, join_request, send, settle
from tests.broker.groups.harness import GroupHarness, code_of

CONFIG = {"group.initial.rebalance.delay.ms": "0"}


# ---- offsets


def two_consumers() -> tuple[GroupHarness, Consumer, Consumer]:
    """Both at epoch 3. One has had partitions 0 and 1 since epoch 2, the other 2 and 3 since epoch 3."""
    harness = consumer_harness(orders=4)
    first, second = Consumer(harness, "a", "orders"), Consumer(harness, "b", "orders")
    first.join()
    second.join()
    settle(first, second)
    assert (first.partitions("orders"), second.partitions("orders")) == ([0, 1], [2, 3])
    return harness, first, second


def commit(harness: GroupHarness, epoch: int, metadata: dict[int, str]) -> Promise[OffsetCommitResponse]:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=7, committed_metadata=text)
        for index, text in metadata.items()
    ]
    request = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id="a",
        topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
    )
    return harness.ask(lambda shard: shard.offsets.commit(request, client(9)))


def test_a_commit_under_an_older_epoch_is_taken_whole_or_not_at_all() -> None:
    harness, _, _ = two_consumers()
    assert code_of(commit(harness, 2, {0: "", 3: ""})) == ErrorCode.STALE_MEMBER_EPOCH
    assert harness.machine.offsets.tombstones_of_group(GROUP) == []
    assert commit(harness, 2, {0: "", 1: ""}).error is None
    assert harness.machine.offsets.tombstones_of_group(GROUP)


def test_where_metadata_is_too_long_nobody_asks_for_the_epoch() -> None:
    harness, _, _ = two_consumers()
    answer = commit(harness, 2, {0: "", 3: "x" * 4097}).value
    assert answer is not None
    (topic,) = answer.topics
    assert [partition.error_code for partition in topic.partitions] == [0, ErrorCode.OFFSET_METADATA_TOO_LARGE]


@pytest.mark.parametrize(
    ("metadata", "is_too_long"),
    [
        ("é" * 4096, False),  # letters, not bytes
        ("\N{GRINNING FACE}" * 2048, False),
        ("\N{GRINNING FACE}" * 2048 + "x", True),  # two for Java
        ("x" * 4096, False),
        ("x" * 4097, True),
    ],
)
def test_the_length_of_metadata_is_counted_as_java_does(metadata: str, is_too_long: bool) -> None:
    harness, a, _ = two_consumers()
    answer = commit(harness, a.epoch, {0: metadata}).value
    assert answer is not None
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_long else ErrorCode.NONE
    assert answer.topics[0].partitions[0].error_code == code


# ---- names of static members


def test_an_instance_id_that_a_member_has_given_up_is_free() -> None:
    harness = consumer_harness(orders=4)
    member = Consumer(harness, "a", "orders", instance_id="first")
    member.join()
    member.instance_id = "second"
    member.join()
    assert group_of(harness).static_members == {"second": "a"}
    member.leave()
    heir = Consumer(harness, "b", "orders", instance_id="first")
    assert heir.join().member_epoch > 0
    harness.restart()
    assert group_of(harness).static_members == {"first": "b"}


# ---- classic members in consumer groups


def classic_join(
    harness: GroupHarness,
    *,
    member_id: str = "",
    instance_id: str | None = None,
    session_timeout_ms: int = 30_000,
    metadata: bytes = b"no subscription",
) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    answer = harness.ask(lambda shard: shard.join_group(request, client(9)))
    assert answer.value is not None
    return answer.value


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_session_that_is_not_allowed_is_refused_before_anything_else(is_empty: bool) -> None:
    harness = consumer_harness(orders=4)
    consumer = Consumer(harness, "a", "orders")
    consumer.join()
    if is_empty:
        consumer.leave()
    answer = classic_join(harness, member_id="unknown", session_timeout_ms=1)
    assert (answer.error_code, answer.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "unknown")


def test_what_a_classic_member_subscribes_to_is_read_last() -> None:
    harness = consumer_harness(orders=4)
    Consumer(harness, "a", "orders").join()
    assert classic_join(harness).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert classic_join(harness, member_id="x", instance_id="i").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert classic_join(harness, member_id="x").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_instance_id_is_one() -> None:
    harness = consumer_harness(orders=4)
    Consumer(harness, "a", "orders").join()
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]))
    joined = classic_join(harness, instance_id="", metadata=metadata)
    assert joined.error_code == ErrorCode.NONE
    assert group_of(harness).static_members == {"": joined.member_id}


def test_a_member_that_has_just_joined_need_not_know_the_protocol_of_a_group_that_is_upgraded() -> None:
    harness = consumer_harness(CONFIG, orders=4)
    old = ClassicConsumer(harness, "orders", protocols=("roundrobin", "range"))
    late = ClassicConsumer(harness, "orders", protocols=("range",))
    for consumer in (old, late):
        asked = consumer.join().value
        assert asked is not None
        consumer.member_id = asked.member_id
        waiting = consumer.join()
        harness.advance(10)
    assert code_of(send(harness, join_request("new", "orders"))) == ErrorCode.NONE
    assert code_of(waiting) == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(group_of(harness).members) == {old.member_id, late.member_id, "new"}


def test_a_downgraded_group_knows_every_protocol_of_its_members() -> None:
    harness = consumer_harness(CONFIG, orders=4)
    last = Consumer(harness, "new", "orders")
    last.join()
    stays = ClassicConsumer(harness, "orders", protocols=("roundrobin", "range"))
    asked = stays.join().value
    assert asked is not None
    stays.member_id = asked.member_id
    assert code_of(stays.join()) == ErrorCode.NONE
    last.leave()
    late = ClassicConsumer(harness, "orders", protocols=("range",))
    assert code_of(late.join()) == ErrorCode.MEMBER_ID_REQUIRED
