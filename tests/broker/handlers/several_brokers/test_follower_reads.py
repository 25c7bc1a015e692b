"""Consumers that read from followers (KIP-392): the leader sends them there, and the follower serves them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker.config.broker_config import BrokerProperties
from barnabas.protocol.errors import ErrorCode, InvalidConfig
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, US, create, fence, move, on_loop, register
from tests.broker.wire import RawClient, fetch_request, good, values_of

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
VALUES = [b"value-0", b"value-1", b"value-2"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Its sibling stands in another rack, "shelf"."""
    with Broker(config={"replica.selector.class": RACK_AWARE, "broker.rack": "table"}) as broker:
        register(broker)
        yield broker


@pytest.fixture
def led(broker: Broker, client: RawClient, request: pytest.FixtureRequest) -> str:
    """Led here, with three records that the sibling has, too."""
    name = f"led-{abs(hash(request.node.name))}"
    create(broker, name, [US, SIBLING])
    move(broker, name, US, isr=[US, SIBLING])
    client.produce(name, good(), acks=1)
    fetched(broker, name, 3)
    return name


@pytest.fixture
def followed(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Led by the sibling. Three records are here, of which none is committed."""
    name = f"followed-{abs(hash(request.node.name))}"
    create(broker, name, [SIBLING, US])
    move(broker, name, SIBLING)  # epoch 1
    on_follower(broker, name, lambda partition: partition.append(memoryview(good()), now_ms=0))
    return name


def fetched(broker: Broker, name: str, offset: int, log_start_offset: int = 0) -> None:
    """Lets the sibling have fetched up to this offset."""
    node = broker._server.node
    now_ms = node.clock.monotonic_ms()
    epoch = 1_000 + SIBLING
    on_loop(
        broker,
        lambda: node.replicas.partition(name, 0).follower_fetched(SIBLING, epoch, offset, log_start_offset, now_ms),
    )


def on_follower(broker: Broker, name: str, function: Callable[[Any], object]) -> None:
    on_loop(broker, lambda: function(broker._server.node.replicas.follower(name, 0)))


def test_a_consumer_is_sent_to_the_replica_in_its_rack(client: RawClient, led: str) -> None:
    data = client.fetch(led, rack_id="shelf", max_wait_ms=20_000, min_bytes=1_000_000)
    assert (data.error_code, data.preferred_read_replica, values_of(data)) == (0, SIBLING, [])
    assert (data.high_watermark, data.log_start_offset) == (3, 0)


@pytest.mark.parametrize(
    "options", [{"rack_id": "table"}, {"rack_id": "floor"}, {}, {"rack_id": "shelf", "version": 10}]
)
def test_others_stay_with_the_leader(client: RawClient, led: str, options: dict[str, Any]) -> None:
    data = client.fetch(led, **options)
    assert (data.preferred_read_replica, values_of(data)) == (-1, VALUES)


def test_only_a_replica_that_is_in_sync_and_has_the_offset_is_named(
    broker: Broker, client: RawClient, led: str
) -> None:
    client.produce(led, good(), acks=1)
    assert client.fetch(led, 4, rack_id="shelf").preferred_read_replica == -1, "it has not come so far"
    fetched(broker, led, 6, log_start_offset=2)
    assert client.fetch(led, 1, rack_id="shelf").preferred_read_replica == -1, "it has deleted that"
    assert client.fetch(led, 4, rack_id="shelf").preferred_read_replica == SIBLING
    fence(broker)
    assert client.fetch(led, 4, rack_id="shelf").preferred_read_replica == -1
    fence(broker, fenced=-1)
    move(broker, led, US, isr=[US])
    assert client.fetch(led, 4, rack_id="shelf").preferred_read_replica == -1


def test_in_a_session_it_is_news_every_time(client: RawClient, led: str) -> None:
    first = client.call(fetch_request(client.topic_id(led), {0: 0}, rack_id="shelf", session_epoch=0))
    request = fetch_request(client.topic_id(led), {}, rack_id="shelf", session_id=first.session_id, session_epoch=1)
    request.topics = []
    assert client.call(request).responses[0].partitions[0].preferred_read_replica == SIBLING


# ---- at the follower


def test_a_follower_shows_what_it_knows_to_be_committed(broker: Broker, client: RawClient, followed: str) -> None:
    data = client.fetch(followed, current_leader_epoch=1)
    assert (data.error_code, data.high_watermark, values_of(data)) == (0, 0, [])
    on_follower(broker, followed, lambda partition: partition.follow(3, 0))
    assert values_of(client.fetch(followed, current_leader_epoch=1)) == VALUES
    assert client.fetch(followed, 3).error_code == 0
    assert client.fetch(followed, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("epoch", "version", "code"),
    [
        (0, 12, ErrorCode.FENCED_LEADER_EPOCH),
        (2, 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, 10, ErrorCode.NOT_LEADER_OR_FOLLOWER),  # it could not be sent back
        (1, 11, ErrorCode.NONE),
    ],
)
def test_a_follower_serves_those_who_know_its_epoch(
    client: RawClient, followed: str, epoch: int, version: int, code: ErrorCode
) -> None:
    assert client.fetch(followed, current_leader_epoch=epoch, version=version).error_code == code


def test_a_fetch_waits_at_a_follower_for_its_high_watermark(broker: Broker, client: RawClient, followed: str) -> None:
    client.send(fetch_request(followed, {0: 0}, max_wait_ms=20_000), 12)
    waiters = broker._server.node.replicas.follower(followed, 0)._waiters
    while not on_loop(broker, lambda: len(waiters)):
        pass
    on_follower(broker, followed, lambda partition: partition.follow(3, 0))
    assert values_of(client.receive().responses[0].partitions[0]) == VALUES


def test_no_other_selector_is_taken() -> None:
    with pytest.raises(InvalidConfig):
        BrokerProperties({"replica.selector.class": "com.example.Mine"}).effective()
