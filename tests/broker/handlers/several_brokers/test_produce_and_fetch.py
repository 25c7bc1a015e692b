"""Produce and Fetch for partitions that another broker leads, or leads from now on."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.testing import Broker
from tests.broker.handlers.test_produce import disk_that_does_not_answer
from tests.broker.siblings import (
    SIBLING,
    SIBLING_PORT,
    US,
    create,
    described,
    fence,
    learn_of_new_leader,
    move,
    on_loop,
    register,
)
from tests.broker.wire import RawClient, fetch_request, good, produce_request, values_of

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
AT_SIBLING = [(SIBLING, "127.0.0.1", SIBLING_PORT, "shelf")]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        register(broker)
        create(broker, "theirs", [SIBLING])
        create(broker, "both", [US], [SIBLING])
        create(broker, "nobodys", [SIBLING])
        move(broker, "nobodys", -1)
        yield broker


def endpoints(response: ProduceResponse | FetchResponse) -> list[tuple[int, str, int, str | None]]:
    return [(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints]


def leader_of(partition: Any) -> tuple[int, int, int]:
    return partition.error_code, partition.current_leader.leader_id, partition.current_leader.leader_epoch


# ---- Produce


@pytest.mark.parametrize("version", range(3, 14))
def test_a_produce_to_another_brokers_partition_is_told_where_to_go(
    broker: Broker, client: RawClient, version: int
) -> None:
    topic = "theirs" if version < 13 else client.topic_id("theirs")
    answer = client.call(produce_request(topic, {0: good()}), version)
    (partition,) = answer.responses[0].partition_responses
    assert leader_of(partition) == ((NOT_LEADER, SIBLING, 0) if version >= 10 else (NOT_LEADER, -1, -1))
    assert partition.base_offset == -1
    assert endpoints(answer) == (AT_SIBLING if version >= 10 else [])


def test_a_produce_to_many_partitions_is_told_of_those_that_are_elsewhere(client: RawClient) -> None:
    topics = [produce_request(name, {0: good(), 1: good()}).topic_data[0] for name in ("both", "theirs", "nobodys")]
    topics.append(TopicProduceData(name="nowhere", partition_data=topics[0].partition_data))
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), 12)
    found = {(topic.name, one.index): leader_of(one) for topic in answer.responses for one in topic.partition_responses}
    unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert found == {
        ("both", 0): (ErrorCode.NONE, -1, -1),
        ("both", 1): (NOT_LEADER, SIBLING, 0),
        ("theirs", 0): (NOT_LEADER, SIBLING, 0),
        ("theirs", 1): unknown,
        ("nobodys", 0): (NOT_LEADER, -1, 1),
        ("nobodys", 1): unknown,
        ("nowhere", 0): unknown,
        ("nowhere", 1): unknown,
    }
    assert endpoints(answer) == AT_SIBLING, "each of them once, and nobody else"


def test_a_leader_that_is_fenced_is_named_without_an_address() -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        register(broker)
        create(broker, "theirs", [SIBLING])
        fence(broker)
        answer = client.call(produce_request("theirs", {0: good()}), 12)
        assert leader_of(answer.responses[0].partition_responses[0]) == (NOT_LEADER, SIBLING, 0)
        assert endpoints(answer) == []


def test_an_internal_topic_is_refused_wherever_it_is_led(broker: Broker, client: RawClient) -> None:
    create(broker, "__transaction_state", [SIBLING])
    assert client.produce("__transaction_state", good()).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    unknown = client.produce("__transaction_state", good(), partition=1)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("is_general", [False, True])
@pytest.mark.parametrize(("version", "acks"), [(9, -1), (12, -1), (12, 1), (13, -1)])
def test_a_produce_that_waits_is_told_at_once_when_the_partition_is_led_elsewhere(
    version: int, acks: int, is_general: bool
) -> None:
    with Broker() as broker, RawClient(broker.port) as client:
        register(broker)
        image = create(broker, "durable", [US], [SIBLING], flush_messages="1")
        log = on_loop(broker, lambda: broker._server.node.replicas.partition("durable", 0).log)
        batches: Any = {0: good(), 1: good()} if is_general else {0: good()}
        topic = "durable" if version < 13 else image.topic_id
        with disk_that_does_not_answer(broker):
            client.send(produce_request(topic, batches, acks=acks, timeout_ms=60_000), version)
            while not on_loop(broker, lambda: log.log_end_offset):
                pass  # until it is written
            learn_of_new_leader(broker, "durable", SIBLING)
            answer = client.receive()
            told = [leader_of(partition) for partition in answer.responses[0].partition_responses]
            assert told[0] == ((NOT_LEADER, SIBLING, 1) if version >= 10 else (NOT_LEADER, -1, -1))
            assert endpoints(answer) == (AT_SIBLING if version >= 10 else [])


# ---- Fetch


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_from_another_brokers_partition_is_told_where_to_go(
    broker: Broker, client: RawClient, version: int
) -> None:
    topic = "theirs" if version < 13 else client.topic_id("theirs")
    answer = client.call(fetch_request(topic, {0: 0}, max_wait_ms=60_000), version)
    assert leader_of(answer.responses[0].partitions[0]) == (
        (NOT_LEADER, SIBLING, 0) if version >= 16 else (NOT_LEADER, -1, -1)
    )
    assert endpoints(answer) == (AT_SIBLING if version >= 16 else [])


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_a_fetch_from_a_partition_that_nobody_leads_is_refused_at_once_and_names_nobody(
    client: RawClient, version: int
) -> None:
    topic = "nobodys" if version < 13 else client.topic_id("nobodys")
    answer = client.call(fetch_request(topic, {0: 0}, max_wait_ms=60_000), version)
    assert leader_of(answer.responses[0].partitions[0]) == (NOT_LEADER, -1, 1 if version >= 16 else -1)
    assert endpoints(answer) == []


def test_a_fetch_in_an_old_epoch_is_told_who_leads_now(broker: Broker, client: RawClient) -> None:
    create(broker, "again", [US])
    move(broker, "again", US)
    answer = client.call(fetch_request(client.topic_id("again"), {0: 0}, current_leader_epoch=0), 18)
    told = leader_of(answer.responses[0].partitions[0])
    assert told == (ErrorCode.FENCED_LEADER_EPOCH, US, described(broker, "again").partitions[0].leader_epoch)
    assert endpoints(answer) == [(US, "127.0.0.1", broker.port, None)]


@pytest.mark.parametrize("version", [12, 18])
@pytest.mark.parametrize("is_session", [False, True])
def test_a_fetch_that_waits_is_told_at_once_when_the_partition_is_led_elsewhere(
    broker: Broker, client: RawClient, version: int, is_session: bool
) -> None:
    name = f"moves-{version}-{is_session}"
    image = create(broker, name, [US], [US])
    topic = name if version < 13 else image.topic_id
    session: dict[str, Any] = {}
    if is_session:
        opened = client.call(fetch_request(topic, {0: 0, 1: 0}, session_epoch=0, current_leader_epoch=0), version)
        session = {"session_id": opened.session_id, "session_epoch": 1}
    offsets = {} if is_session else {0: 0, 1: 0}
    request = fetch_request(topic, offsets, max_wait_ms=60_000, current_leader_epoch=0, **session)
    if is_session:
        request.topics = ()
    client.send(request, version)
    partition = on_loop(broker, lambda: broker._server.node.replicas.partition(name, 1))
    while not on_loop(broker, lambda: partition._waiters):
        pass  # until it waits
    move(broker, name, SIBLING, partition=1)
    answer = client.receive()
    told = {one.partition_index: leader_of(one) for one in answer.responses[0].partitions}
    fenced = ErrorCode.FENCED_LEADER_EPOCH
    assert told[1] == ((fenced, SIBLING, 1) if version >= 16 else (fenced, -1, -1))
    assert told.keys() == ({1} if is_session else {0, 1}), "the other has no news"
    assert endpoints(answer) == (AT_SIBLING if version >= 16 else [])


def test_a_fetch_that_waits_for_a_topic_that_is_deleted_and_created_again_leaves_the_new_one_alone(
    broker: Broker, client: RawClient
) -> None:
    create(broker, "renewed", [US])
    client.send(fetch_request("renewed", {0: 0}, max_wait_ms=60_000), 12)
    partition = on_loop(broker, lambda: broker._server.node.replicas.partition("renewed", 0))
    while not on_loop(broker, lambda: partition._waiters):
        pass  # until it waits
    with RawClient(broker.port) as admin:
        admin.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="renewed")], timeout_ms=5_000))
        create(broker, "renewed", [US])
        assert client.receive().responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert admin.produce("renewed", good(1)).base_offset == 0
    assert values_of(client.fetch("renewed")) == [b"value-0"]
