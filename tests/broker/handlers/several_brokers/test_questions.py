"""Questions about partitions that another broker leads, of which this one may have a replica."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.handlers import HANDLERS
from barnabas.broker.network.session import ListenerType, Session
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.request_context import RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.fetch import ReplicaState
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, US, create, move, on_loop, register
from tests.broker.wire import RawClient, Sent, fetch_request, good, values_of

NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED, UNKNOWN_EPOCH = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
CONSUMER, DEBUGGING = -1, -2
LATEST = -1
TOPIC, BROKER, BROKER_LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
VALUES = [b"value-0", b"value-1", b"value-2"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Of `followed` it has a replica with three records, of which none is committed; of `theirs` it has nothing."""
    with Broker() as broker:
        register(broker)
        create(broker, "theirs", [SIBLING])
        create(broker, "followed", [SIBLING, US])
        move(broker, "followed", SIBLING)
        replicas = broker._server.node.replicas
        batch = memoryview(good(sent=Sent(7, 0, 0)))
        on_loop(broker, lambda: replicas.follower("followed", 0).append(batch, now_ms=0))
        create(broker, "__transaction_state", [SIBLING])
        yield broker


@pytest.mark.parametrize(
    ("topic", "epoch", "code"),
    [
        ("theirs", -1, NOT_LEADER),
        ("theirs", 5, NOT_LEADER),  # who has no replica knows no epoch
        ("followed", -1, NOT_LEADER),
        ("followed", 1, NOT_LEADER),
        ("followed", 0, FENCED),
        ("followed", 2, UNKNOWN_EPOCH),
        ("nowhere", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_clients_are_sent_to_the_leader(client: RawClient, topic: str, epoch: int, code: ErrorCode) -> None:
    assert client.list_offset(topic, LATEST, leader_epoch=epoch).error_code == code
    if topic != "nowhere":
        assert client.fetch(topic, current_leader_epoch=epoch, version=10).error_code == code
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    assert client.call(request).topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("theirs", 0, NOT_LEADER),
        ("followed", 0, NOT_LEADER),
        ("__transaction_state", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_only_the_leader_deletes_records(client: RawClient, topic: str, index: int, code: ErrorCode) -> None:
    asked = DeleteRecordsPartition(partition_index=index, offset=0)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=1_000)
    assert client.call(request).topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("topic", "code", "producers"),
    [("theirs", NOT_LEADER, []), ("followed", NONE, [7])],
)
def test_every_replica_tells_of_its_producers(
    client: RawClient, topic: str, code: ErrorCode, producers: list[int]
) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    (answer,) = client.call(request).topics[0].partitions
    assert answer.error_code == code
    assert [producer.producer_id for producer in answer.active_producers] == producers


def test_log_dirs_hold_what_is_here(client: RawClient) -> None:
    (log_dir,) = client.call(DescribeLogDirsRequest(topics=None)).results
    assert [topic.name for topic in log_dir.topics] == ["followed"]


# ---- a tool that compares replicas


@pytest.mark.parametrize("version", [4, 14, 15, 18])
@pytest.mark.parametrize("topic", ["followed", "led"])
def test_a_tool_reads_every_replica_to_its_end(broker: Broker, client: RawClient, topic: str, version: int) -> None:
    if topic == "led":
        topic = f"led-{version}"
        create(broker, topic, [US])
        client.produce(topic, good())
    asked: Any = {"replica_state": ReplicaState(replica_id=DEBUGGING)} if version >= 15 else {"replica_id": DEBUGGING}
    named = topic if version < 13 else client.topic_id(topic)
    answer = client.call(fetch_request(named, {0: 0}, **asked), version)
    assert values_of(answer.responses[0].partitions[0]) == VALUES


@pytest.mark.parametrize(
    ("topic", "epoch", "code"), [("theirs", -1, NOT_LEADER), ("followed", 0, FENCED), ("followed", 1, NONE)]
)
def test_a_tool_is_told_what_is_wrong(client: RawClient, topic: str, epoch: int, code: ErrorCode) -> None:
    answer = client.call(fetch_request(topic, {0: 0}, replica_id=DEBUGGING, current_leader_epoch=epoch), 12)
    assert answer.responses[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("topic", "replica_id", "expected"),
    [
        ("followed", CONSUMER, (NOT_LEADER, -1)),
        ("followed", DEBUGGING, (NONE, 3)),
        ("followed", SIBLING, (NOT_LEADER, -1)),
        ("theirs", DEBUGGING, (NOT_LEADER, -1)),
    ],
)
def test_a_tool_learns_where_a_replica_ends(
    client: RawClient, topic: str, replica_id: int, expected: tuple[int, int]
) -> None:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    (answer,) = client.call(request).topics[0].partitions
    assert (answer.error_code, answer.offset) == expected


# ---- a leader that is new


@pytest.mark.parametrize(
    ("version", "timestamp", "code"),
    [
        (11, -1, ErrorCode.OFFSET_NOT_AVAILABLE),
        (5, -1, ErrorCode.OFFSET_NOT_AVAILABLE),
        (4, -1, ErrorCode.LEADER_NOT_AVAILABLE),
        (11, 2**62, ErrorCode.OFFSET_NOT_AVAILABLE),  # there may be one above the high watermark
        (11, -2, NONE),
        (11, 0, NONE),  # it is committed
    ],
)
def test_a_leader_that_does_not_know_what_is_committed_asks_for_patience(
    broker: Broker, client: RawClient, version: int, timestamp: int, code: ErrorCode
) -> None:
    name = f"new-{version}-{timestamp}"
    create(broker, name, [US])
    client.produce(name, good())

    def lead_before_followers_have_fetched() -> None:
        partition: LeaderPartition = broker._server.node.replicas.partition(name, 0)
        partition.log.append_as_follower(memoryview(offset_by(good(), 3)), now_ms=0)
        described = broker._server.node.image.partition(name, 0)
        assert described is not None
        partition.adopt(described._replace(leader_epoch=1, partition_epoch=1))

    on_loop(broker, lead_before_followers_have_fetched)
    assert client.list_offset(name, timestamp, version=version).error_code == code


def offset_by(batch: bytearray, offset: int) -> bytearray:
    return bytearray(offset.to_bytes(8, "big") + batch[8:])


# ---- configurations


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (BROKER, str(SIBLING), ErrorCode.INVALID_REQUEST),  # only it knows what it was started with
        (BROKER_LOGGER, str(SIBLING), ErrorCode.INVALID_REQUEST),
        (BROKER, str(US), NONE),
        (BROKER, "", NONE),  # the defaults of all brokers
        (TOPIC, "theirs", NONE),
    ],
)
def test_every_broker_describes_topics_and_itself(
    client: RawClient, resource_type: int, name: str, code: ErrorCode
) -> None:
    asked = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
    assert client.call(DescribeConfigsRequest(resources=[asked])).results[0].error_code == code


@pytest.mark.parametrize(
    ("resource_type", "name", "key", "code"),
    [
        (BROKER, str(SIBLING), "log.cleaner.threads", ErrorCode.INVALID_REQUEST),  # it would not be asked if it can
        (BROKER, "", "log.cleaner.threads", NONE),
        (TOPIC, "theirs", "retention.ms", NONE),
    ],
)
def test_every_broker_takes_changes_of_topics_and_of_itself(
    client: RawClient, resource_type: int, name: str, key: str, code: ErrorCode
) -> None:
    change = AlterableConfig(name=key, config_operation=0, value="1")
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    assert client.call(request).responses[0].error_code == code


def test_a_controller_takes_what_another_broker_has_found_good(broker: Broker, client: RawClient) -> None:
    """The broker that the configuration belongs to has judged it, and forwards it to this node."""
    change = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=str(SIBLING), configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    session = Session(listener="CONTROLLER", local=("localhost", 0), peer=("localhost", 0))
    context = RequestContext(1, None, session, ListenerType.CONTROLLER)
    answer: Any = broker._call_on_loop(
        lambda: HANDLERS[ApiKey.INCREMENTAL_ALTER_CONFIGS].handle(broker._server.node, request, context)
    )
    assert answer.responses[0].error_code == NONE
