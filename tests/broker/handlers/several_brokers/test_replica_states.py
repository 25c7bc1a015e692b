"""What clients are told of leaders and replicas on brokers that are there, and on those that are not."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, US, create, fence, move, register
from tests.broker.wire import RawClient
from tests.replication.clusters import uuid

NONE, NO_LEADER = ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE
FENCED, MUTE = 3, 4
LOST = bytes(15) + b"\x02"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """With a sibling, a broker that is fenced, and one that does not have the clients' listener."""
    with Broker() as broker:
        for broker_id in (SIBLING, FENCED, MUTE):
            register(broker, broker_id)
        create(broker, "orders", [US, SIBLING], [US, FENCED], [FENCED, US], [MUTE, US], [US, SIBLING], [US, SIBLING])
        fence(broker, FENCED)
        register(broker, MUTE, end_points=[])
        move(broker, "orders", US, partition=0, isr=[US, SIBLING])
        move(broker, "orders", -1, partition=2, isr=[FENCED])
        move(broker, "orders", MUTE, partition=3, isr=[MUTE, US])
        move(broker, "orders", US, partition=4, directories=[bytes(16), LOST])
        move(broker, "orders", US, partition=5, directories=[bytes(16), uuid(77)])
        yield broker


def metadata(client: RawClient, version: int) -> list[Any]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
    partitions: list[Any] = client.call(request, version).topics[0].partitions
    return partitions


@pytest.mark.parametrize("version", [5, 6, 13])
def test_metadata_tell_which_replicas_are_offline_and_which_partitions_nobody_leads(
    client: RawClient, version: int
) -> None:
    found = [
        (one.error_code, one.leader_id, list(one.replica_nodes), list(one.offline_replicas))
        for one in metadata(client, version)
    ]
    assert found == [
        (NONE, US, [US, SIBLING], []),
        (NONE, US, [US, FENCED], [FENCED]),
        (NO_LEADER, -1, [FENCED, US], [FENCED]),
        (ErrorCode.LISTENER_NOT_FOUND if version >= 6 else NO_LEADER, -1, [MUTE, US], [MUTE]),
        (NONE, US, [US, SIBLING], [SIBLING]),  # its dir is lost
        (NONE, US, [US, SIBLING], [SIBLING]),  # it has no such dir
    ]


def test_the_first_version_leaves_out_what_is_not_there(client: RawClient) -> None:
    found = [(one.error_code, list(one.replica_nodes), list(one.isr_nodes)) for one in metadata(client, 0)[:4]]
    assert found == [
        (NONE, [US, SIBLING], [US, SIBLING]),
        (ErrorCode.REPLICA_NOT_AVAILABLE, [US], [US]),
        (NO_LEADER, [US], []),
        (NO_LEADER, [US], [US]),
    ]


def test_topics_are_described_with_the_same_replicas_and_without_errors(client: RawClient) -> None:
    asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
    described = client.call(asked).topics[0].partitions
    assert [one.error_code for one in described] == [NONE] * 6
    by_metadata = metadata(client, 13)
    assert [one.leader_id for one in described] == [one.leader_id for one in by_metadata]
    assert [one.offline_replicas for one in described] == [one.offline_replicas for one in by_metadata]
