"""A consumer group with classic members that nobody can read once their common protocol changes.

A member is read by the first protocol that it names. As a classic group they would choose another, and what one of them
says there is no subscription.
"""

import pytest

from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.stored.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.broker.groups.classic.client import client
from tests.broker.groups.consumer.client import GROUP, Consumer, consumer_harness, group_of, heartbeat_request, send
from tests.broker.groups.harness import GroupHarness, code_of

READABLE = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 1)


def join(harness: GroupHarness, instance_id: str, protocols: dict[str, bytes]) -> None:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=600_000,
        rebalance_timeout_ms=600_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()],
    )
    assert code_of(harness.ask(lambda shard: shard.join_group(request, client(9)))) == ErrorCode.NONE


@pytest.mark.parametrize("leaves", [True, False])
def test_the_last_consumer_goes_and_the_group_stays_what_it_is(leaves: bool) -> None:
    """In Kafka it can neither leave nor be removed, and its partitions are with nobody."""
    harness = consumer_harness({"group.max.session.timeout.ms": "600000"}, orders=4)
    Consumer(harness, "last", "orders").join()
    join(harness, "a", {"range": READABLE, "sticky": b""})
    for instance_id in ("b", "c"):
        join(harness, instance_id, {"sticky": READABLE, "range": READABLE})
    if leaves:
        assert code_of(send(harness, heartbeat_request("last", -1))) == ErrorCode.NONE
    else:
        harness.advance(60_000)
    assert isinstance(harness.context.groups[GROUP], ConsumerGroup)
    assert sorted(group_of(harness).static_members) == ["a", "b", "c"]
    assert len(group_of(harness).members) == 3
    assert harness.report.having("cannot become a classic group")
