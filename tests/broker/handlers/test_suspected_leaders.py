"""What clients are told of a leader that may be dead: nothing for a moment, and then that there is none."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker.cluster import suspects
from barnabas.broker.handlers import suspected_leaders
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, US, create, fence, move, on_loop, register
from tests.broker.wire import RawClient

ORDERS = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Leads `payments`; its sibling leads `orders`, and every group. A suspicion lasts as long as a test."""
    monkeypatch.setattr(suspects, "SUSPECTED_MS", 60_000)
    with Broker(config={"offsets.topic.num.partitions": "1"}) as broker:
        register(broker)
        create(broker, "payments", [US])
        create(broker, "orders", [SIBLING])
        create(broker, "__consumer_offsets", [SIBLING, US])
        yield broker
        fence(broker)


@pytest.fixture
def nobody_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspected_leaders, "WAIT_MS", 60_000)


def suspect(broker: Broker) -> None:
    found = broker._server.node._suspects
    assert found is not None
    on_loop(broker, lambda: found.suspect(SIBLING))


def leader_in_metadata(response: Any) -> tuple[int, ErrorCode, list[int]]:
    (topic,) = response.topics
    (partition,) = topic.partitions
    return partition.leader_id, ErrorCode(partition.error_code), [broker.node_id for broker in response.brokers]


@pytest.mark.parametrize("version", [0, 1, 5, 6, 12, 13])
def test_metadata_name_no_leader_that_is_suspected(broker: Broker, version: int) -> None:
    suspect(broker)
    with RawClient(broker.port) as client:
        answer = client.call(ORDERS, version)
        assert leader_in_metadata(answer) == (-1, ErrorCode.LEADER_NOT_AVAILABLE, [US])


def test_all_topics_are_told_without_it_too(broker: Broker) -> None:
    suspect(broker)
    with RawClient(broker.port) as client:
        topics = {topic.name: topic for topic in client.call(MetadataRequest(topics=None)).topics}
    assert topics["orders"].partitions[0].leader_id == -1
    assert list(topics["orders"].partitions[0].offline_replicas) == [SIBLING]
    assert topics["payments"].partitions[0].leader_id == US


def test_partitions_are_described_without_it(broker: Broker) -> None:
    suspect(broker)
    with RawClient(broker.port) as client:
        answer = client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")]))
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (0, -1)


def test_no_coordinator_is_found_that_is_suspected(broker: Broker) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["group"])
    with RawClient(broker.port) as client:
        assert client.call(request).coordinators[0].node_id == SIBLING
        suspect(broker)
        assert client.call(request).coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.usefixtures("nobody_gives_up")
def test_who_asks_for_another_leader_does_not_wait(broker: Broker) -> None:
    suspect(broker)
    with RawClient(broker.port) as client:
        answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name="payments")]))
    assert leader_in_metadata(answer) == (US, ErrorCode.NONE, [US])


def _is_over(broker: Broker) -> None:
    found = broker._server.node._suspects
    assert found is not None
    on_loop(broker, lambda: found.clear(SIBLING))


@pytest.mark.usefixtures("nobody_gives_up")
@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (lambda broker: move(broker, "orders", US), (US, ErrorCode.NONE)),  # the next leader is told
        (_is_over, (SIBLING, ErrorCode.NONE)),  # it was a false alarm
    ],
)
def test_the_answer_comes_as_soon_as_a_leader_is_known(
    broker: Broker, happens: Callable[[Broker], None], expected: tuple[int, ErrorCode]
) -> None:
    suspect(broker)
    with RawClient(broker.port) as client:
        client.send(ORDERS)
        happens(broker)
        assert leader_in_metadata(client.receive())[:2] == expected
