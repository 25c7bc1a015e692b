"""Fetches of a follower: the test is the follower, and the broker its leader."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, ReplicaState
from barnabas.testing import Broker
from tests.broker.siblings import SIBLING, US, create, move, on_loop, register
from tests.broker.wire import RawClient, fetch_request, good, produce_request, values_of

NONE, NOT_LEADER = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED, UNKNOWN_EPOCH = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
EPOCH = 1_000 + SIBLING
FOLLOWER = ReplicaState(replica_id=SIBLING, replica_epoch=EPOCH)
LATER_MS = 20_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        register(broker)
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Three partitions, each led here and followed by the test."""
    name = f"t{abs(hash(request.node.name))}"
    create(broker, name, *[[US, SIBLING]] * 3)
    for index in range(3):
        move(broker, name, US, partition=index, isr=[US, SIBLING])  # epoch 1
    return name


class Follower:
    """Keeps a session, as a follower does."""

    def __init__(self, client: RawClient, topic: str, offsets: dict[int, int], **options: Any) -> None:
        self.client = client
        self.topic_id = client.topic_id(topic)
        self.epoch = 0
        self.session_id = 0
        self.answer = self.fetch(offsets, **options)
        self.session_id = self.answer.session_id

    def request(self, offsets: dict[int, int], **options: Any) -> FetchRequest:
        asked: dict[str, Any] = {"current_leader_epoch": 1, "replica_state": FOLLOWER, **options}
        request = fetch_request(self.topic_id, offsets, session_id=self.session_id, session_epoch=self.epoch, **asked)
        if not offsets:
            request.topics = []
        self.epoch += 1
        return request

    def fetch(self, offsets: dict[int, int], **options: Any) -> FetchResponse:
        answer: FetchResponse = self.client.call(self.request(offsets, **options))
        return answer

    def send(self, offsets: dict[int, int], **options: Any) -> None:
        self.client.send(self.request(offsets, max_wait_ms=LATER_MS, **options))


def told(answer: FetchResponse) -> dict[int, Any]:
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return {data.partition_index: data for topic in answer.responses for data in topic.partitions}


def led(broker: Broker, topic: str, index: int = 0) -> LeaderPartition:
    partition: LeaderPartition = on_loop(broker, lambda: broker._server.node.replicas.partition(topic, index))
    return partition


def followers_end(broker: Broker, topic: str) -> int:
    """How far the leader has noted that the follower has come."""
    return led(broker, topic).in_sync.followers[SIBLING].log_end_offset


def wait_for_fetch(broker: Broker) -> None:
    """Returns when a follower's fetch waits in this broker."""
    sessions = broker._server.node.fetch_sessions.of_replicas
    while not on_loop(broker, lambda: any(each.waiting for each in sessions._by_id.values())):
        pass


def write(broker: Broker, topic: str, index: int = 0) -> None:
    """Appends three records, with acks=1."""
    with RawClient(broker.port) as producer:
        assert producer.produce(topic, good(), partition=index, acks=1).error_code == NONE


# ---- what a follower reads, and what that says of it


def test_a_follower_reads_to_the_end_and_its_next_fetch_commits(broker: Broker, client: RawClient, topic: str) -> None:
    write(broker, topic)
    follower = Follower(client, topic, {0: 0})
    data = told(follower.answer)[0]
    assert (values_of(data), data.high_watermark) == ([b"value-0", b"value-1", b"value-2"], 0)
    with RawClient(broker.port) as consumer:
        assert values_of(consumer.fetch(topic)) == []
        follower.fetch({0: 3})
        assert len(values_of(consumer.fetch(topic))) == 3


def test_an_append_waits_for_the_follower_and_a_waiting_fetch_for_the_append(
    broker: Broker, client: RawClient, topic: str
) -> None:
    follower = Follower(client, topic, {0: 0, 1: 0, 2: 0})
    follower.send({})
    wait_for_fetch(broker)
    with RawClient(broker.port) as producer:
        for index in (0, 2):
            producer.send(produce_request(topic, {index: good()}), 12)
        found = told(client.receive())
        while set(found) != {0, 2}:  # both, unless they came in two turns
            found |= told(follower.fetch({}, max_wait_ms=LATER_MS))
        follower.fetch({0: 3, 2: 3})
        for _ in range(2):
            assert producer.receive().responses[0].partition_responses[0].error_code == NONE


def test_a_high_watermark_rides_along_when_the_fetch_has_waited(broker: Broker, client: RawClient, topic: str) -> None:
    write(broker, topic)
    follower = Follower(client, topic, {0: 0, 1: 0})
    assert told(follower.fetch({0: 3}, max_wait_ms=600))[0].high_watermark == 3
    assert told(follower.fetch({}, max_wait_ms=600)) == {}


def test_a_log_start_rides_along(broker: Broker, client: RawClient, topic: str) -> None:
    write(broker, topic)
    follower = Follower(client, topic, {0: 0})
    follower.fetch({0: 3})
    asked = DeleteRecordsPartition(partition_index=0, offset=2)
    with RawClient(broker.port) as other:
        topics = [DeleteRecordsTopic(name=topic, partitions=[asked])]
        other.send(DeleteRecordsRequest(topics=topics, timeout_ms=LATER_MS))
        while led(broker, topic).log.log_start_offset < 2:
            pass
        assert told(follower.fetch({}, max_wait_ms=600))[0].log_start_offset == 2
        request = follower.request({0: 3})
        request.topics[0].partitions[0].log_start_offset = 2
        client.call(request)
        assert other.receive().topics[0].partitions[0].low_watermark == 2


# ---- sessions


def test_a_session_answers_what_has_news(broker: Broker, client: RawClient, topic: str) -> None:
    follower = Follower(client, topic, {0: 0, 1: 0, 2: 0})
    assert set(told(follower.answer)) == {0, 1, 2}
    assert told(follower.fetch({})) == {}
    write(broker, topic, 1)
    assert set(told(follower.fetch({}))) == {1}
    assert set(told(follower.fetch({}))) == {1}, "what is not acknowledged comes again"
    assert told(follower.fetch({1: 3})) == {}


def test_what_is_forgotten_has_no_news(broker: Broker, client: RawClient, topic: str) -> None:
    follower = Follower(client, topic, {0: 0, 1: 0})
    request = follower.request({})
    request.forgotten_topics_data = [ForgottenTopic(topic_id=follower.topic_id, partitions=[0])]
    client.call(request)
    write(broker, topic, 0)
    assert told(follower.fetch({})) == {}
    assert on_loop(broker, lambda: len(led_waiters(broker, topic, 0))) == 0


def led_waiters(broker: Broker, topic: str, index: int) -> Any:
    return broker._server.node.replicas.partition(topic, index)._replica_waiters


@pytest.mark.parametrize(
    ("session", "error"),
    [
        ({"session_id": 12345}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"session_epoch": 7}, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        ({"replica_state": ReplicaState(replica_id=3, replica_epoch=EPOCH)}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ({"replica_state": ReplicaState(replica_id=SIBLING, replica_epoch=5)}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_a_session_is_its_followers_own(
    client: RawClient, topic: str, session: dict[str, Any], error: ErrorCode
) -> None:
    follower = Follower(client, topic, {0: 0})
    request = follower.request({})
    for name, value in session.items():
        setattr(request, name, value)
    assert client.call(request).error_code == error


def test_a_fetch_without_a_session_leaves_nothing_behind(broker: Broker, client: RawClient, topic: str) -> None:
    follower = Follower(client, topic, {})
    request = follower.request({0: 0})
    request.session_id, request.session_epoch = 0, -1
    answer = client.call(request)
    assert (answer.session_id, set(told(answer))) == (0, {0})
    assert on_loop(broker, lambda: len(led_waiters(broker, topic, 0))) == 0


def test_the_next_fetch_overtakes_one_that_waits(broker: Broker, client: RawClient, topic: str) -> None:
    follower = Follower(client, topic, {0: 0})
    follower.send({})
    wait_for_fetch(broker)
    client.send(follower.request({1: 0}))
    assert told(client.receive()) == {}
    assert set(told(client.receive())) <= {1}
    write(broker, topic, 1)
    assert set(told(follower.fetch({}))) == {1}


def test_a_follower_that_goes_away_leaves_no_fetch_behind(broker: Broker, topic: str) -> None:
    with RawClient(broker.port) as client:
        follower = Follower(client, topic, {0: 0})
        follower.send({})
        wait_for_fetch(broker)
    sessions = broker._server.node.fetch_sessions.of_replicas
    while on_loop(broker, lambda: any(each.waiting for each in sessions._by_id.values())):
        pass
    write(broker, topic)


def test_another_life_of_a_follower_has_no_sessions_of_the_one_before(
    broker: Broker, client: RawClient, topic: str
) -> None:
    old = Follower(client, topic, {0: 0})
    later = ReplicaState(replica_id=SIBLING, replica_epoch=EPOCH + 1)
    Follower(client, topic, {0: 0}, replica_state=later)
    assert client.call(old.request({})).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert on_loop(broker, lambda: len(led_waiters(broker, topic, 0))) == 1


# ---- errors, in Kafka's order


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({}, NONE),
        ({"current_leader_epoch": 0}, FENCED),
        ({"current_leader_epoch": 2}, UNKNOWN_EPOCH),
        ({"replica_state": ReplicaState(replica_id=9, replica_epoch=1)}, UNKNOWN_EPOCH),  # no replica of it
        ({"replica_state": ReplicaState(replica_id=9, replica_epoch=1), "current_leader_epoch": -1}, NOT_LEADER),
        ({"replica_state": ReplicaState(replica_id=9, replica_epoch=1), "current_leader_epoch": 0}, FENCED),
        ({"replica_state": ReplicaState(replica_id=9, replica_epoch=1), "offset": 99}, UNKNOWN_EPOCH),
        ({"replica_state": ReplicaState(replica_id=SIBLING, replica_epoch=EPOCH - 1)}, NOT_LEADER),  # an earlier life
        ({"offset": 4}, OUT_OF_RANGE),
        ({"offset": 1}, OUT_OF_RANGE),  # below the log start
        ({"offset": 1, "last_fetched_epoch": 0}, OUT_OF_RANGE),  # before anything is said of epochs
        ({"offset": 1, "current_leader_epoch": 0}, FENCED),
    ],
)
def test_what_is_wrong_with_a_fetch(
    broker: Broker, client: RawClient, topic: str, asked: dict[str, Any], error: ErrorCode
) -> None:
    write(broker, topic)
    log = led(broker, topic).log
    on_loop(broker, lambda: (log.advance_high_watermark(2), log.delete_records(2)))
    before = followers_end(broker, topic)
    offset = asked.pop("offset", 3)
    data = told(Follower(client, topic, {0: offset}, **asked).answer)[0]
    assert data.error_code == error
    after = followers_end(broker, topic)
    assert after == (3 if error == NONE else before)


def test_a_log_that_parts_is_told_where_and_nothing_is_noted(broker: Broker, client: RawClient, topic: str) -> None:
    write(broker, topic)
    move(broker, topic, US)  # epoch 2
    write(broker, topic)
    follower = Follower(client, topic, {0: 5}, current_leader_epoch=2, last_fetched_epoch=1)
    data = told(follower.answer)[0]
    assert (data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (NONE, 1, 3)
    assert values_of(data) == []
    assert followers_end(broker, topic) == -1
    found = told(follower.fetch({0: 3}, current_leader_epoch=2, last_fetched_epoch=1))[0]
    assert len(values_of(found)) == 3


def test_a_follower_that_was_told_to_cut_its_log_still_hears_what_is_committed(
    broker: Broker, client: RawClient, topic: str
) -> None:
    """It takes nothing else from the answer that told it."""
    write(broker, topic)
    log = led(broker, topic).log
    on_loop(broker, lambda: log.advance_high_watermark(3))
    move(broker, topic, US)  # epoch 2
    follower = Follower(client, topic, {0: 5}, current_leader_epoch=2, last_fetched_epoch=1)
    assert told(follower.answer)[0].diverging_epoch.end_offset == 3
    asked = {"current_leader_epoch": 2, "last_fetched_epoch": 1, "max_wait_ms": 600}
    assert told(follower.fetch({0: 3}, **asked))[0].high_watermark == 3


def test_an_unknown_topic_is_told_at_once(client: RawClient, topic: str) -> None:
    follower = Follower(client, topic, {0: 0})
    request = follower.request({}, max_wait_ms=LATER_MS)
    request.topics = [FetchTopic(topic_id=b"?" * 16, partitions=fetch_request("x", {0: 0}).topics[0].partitions)]
    data = client.call(request).responses[0].partitions[0]
    assert (data.error_code, data.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_ID, [])


def test_an_unknown_partition_has_an_empty_list_of_aborted_transactions_as_in_kafka(
    client: RawClient, topic: str
) -> None:
    data = told(Follower(client, topic, {7: 0}).answer)[7]
    assert (data.error_code, data.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_a_waiting_fetch_hears_that_the_leader_has_a_new_epoch_or_leads_no_more(
    broker: Broker, client: RawClient, topic: str
) -> None:
    follower = Follower(client, topic, {0: 0, 1: 0})
    follower.send({})
    wait_for_fetch(broker)
    move(broker, topic, US)
    assert told(client.receive())[0].error_code == FENCED
    follower.send({0: 0}, current_leader_epoch=2)
    wait_for_fetch(broker)
    move(broker, topic, SIBLING, partition=1)
    assert told(client.receive())[1].error_code in (NOT_LEADER, FENCED)
    again = told(follower.fetch({}, max_wait_ms=LATER_MS))
    assert again[1].error_code in (NOT_LEADER, FENCED), "an error is told until the follower asks for something else"


# ---- who is in sync


def test_a_follower_out_of_sync_is_looked_at_in_every_fetch(broker: Broker, client: RawClient, topic: str) -> None:
    move(broker, topic, US, isr=[US])
    follower = Follower(client, topic, {0: 0}, current_leader_epoch=2, replica_state=FOLLOWER)
    partition = led(broker, topic)
    on_loop(broker, lambda: setattr(partition.in_sync, "proposed", None))
    follower.fetch({})
    assert SIBLING in on_loop(broker, lambda: partition.in_sync.maximal_isr)


def test_who_was_caught_up_with_a_quiet_partition_is_so_when_it_wakes(
    broker: Broker, client: RawClient, topic: str
) -> None:
    follower = Follower(client, topic, {0: 0})
    state = led(broker, topic).in_sync.followers[SIBLING]
    first_ms = state.last_fetch_ms
    while on_loop(broker, broker._server.node.clock.monotonic_ms) <= first_ms:
        pass
    follower.fetch({})
    assert state.last_fetch_ms == first_ms
    write(broker, topic)
    assert state.last_caught_up_ms > first_ms
