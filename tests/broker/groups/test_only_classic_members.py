"""Consumer groups in which only classic members are left, and which stay what they are."""

import pytest

from barnabas.broker.groups.consumer import classic_members
from barnabas.broker.groups.consumer.group import ConsumerGroup
from barnabas.broker.groups.consumer.subscriptions import metadata_hash
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.stored.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from barnabas.replication.metadata.image import MetadataImage
from tests.broker.groups.classic.client import client
from tests.broker.groups.consumer.client import (
    GROUP,
    Consumer,
    consumer_harness,
    group_of,
    heartbeat_request,
    send,
    with_topic,
)
from tests.broker.groups.harness import GroupHarness, code_of
from tests.broker.groups.test_migration import classic_group, settle

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
    """A member is read by the first protocol that it names. As a classic group they would choose another, and what one
    of them says there is no subscription. In Kafka the last consumer can neither leave nor be removed."""
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


def test_topics_of_others_are_looked_at_once_however_many_heartbeats_come(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, classic = classic_group({"group.consumer.migration.policy": "upgrade"})
    consumer = Consumer(harness, "new", "orders")
    consumer.join()
    settle(classic, consumer)
    consumer.leave()
    settle(classic)
    looked = 0

    def counted(topics: set[str], image: MetadataImage) -> int:
        nonlocal looked
        looked += 1
        return metadata_hash(topics, image)

    monkeypatch.setattr(classic_members, "metadata_hash", counted)
    harness.image = with_topic(harness.image, "bills", 1)
    for _ in range(5):
        assert classic.heartbeat() == ErrorCode.NONE
    assert looked == 1
