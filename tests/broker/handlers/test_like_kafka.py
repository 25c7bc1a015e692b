"""Requests at the edge of what is allowed, and Apache Kafka 4.3's answers to them as they were observed.

The same frames went to both brokers. Each row is one request and what Kafka said; where Barnabas answers otherwise on
purpose, the design document says so and no row is here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.distinct_partitions import distinct_partitions
from barnabas.protocol.errors import ErrorCode as E
from barnabas.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from barnabas.protocol.messages.describe_topic_partitions import TopicRequest as DescribedTopic
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.storage.metadata_files import CLEAN_SHUTDOWN_FILE
from barnabas.testing import Broker
from tests.broker.wire import RawClient, Sent, batch_of, fetch_request, good, values_of

NOT_ASKED = -(2**31)
ALL_OPERATIONS = 3576
STRANGER = bytes(range(16))
"""An id that no topic has."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"two": 2, "empty": 1, "other": 1}) as broker:
        with RawClient(broker.port) as client:
            client.produce("two", good(3))
            client.produce("two", good(2))
        yield broker


# ---- Metadata


def metadata(client: RawClient, topics: list[MetadataRequestTopic], version: int = 13, **options: Any) -> Any:
    return client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=False, **options), version)


@pytest.mark.parametrize("version", [0, 4, 9, 12, 13])
def test_metadata_tell_each_topic_once(client: RawClient, version: int) -> None:
    asked = [MetadataRequestTopic(name=name) for name in ("two", "two", "other")]
    assert [topic.name for topic in metadata(client, asked, version).topics] == ["two", "other"]


def test_metadata_by_id_do_not_look_at_names(client: RawClient) -> None:
    ids = [MetadataRequestTopic(name=None, topic_id=client.topic_id("other"))] * 2
    assert [topic.name for topic in metadata(client, [MetadataRequestTopic(name="two"), *ids]).topics] == ["other"]


@pytest.mark.parametrize("version", [10, 11])
def test_metadata_before_version_12_refuse_ids_and_null_names_with_everything(client: RawClient, version: int) -> None:
    for topic in (MetadataRequestTopic(name=None), MetadataRequestTopic(name="two", topic_id=STRANGER)):
        answer = metadata(client, [topic], version)
        assert (answer.topics[0].error_code, list(answer.brokers), answer.controller_id) == (E.INVALID_REQUEST, [], -1)


@pytest.mark.parametrize(
    ("topic", "code", "is_internal", "operations"),
    [
        (MetadataRequestTopic(name="nope"), E.UNKNOWN_TOPIC_OR_PARTITION, False, ALL_OPERATIONS),
        (MetadataRequestTopic(name="__consumer_offsets"), E.UNKNOWN_TOPIC_OR_PARTITION, True, ALL_OPERATIONS),
        (MetadataRequestTopic(name="a b"), E.INVALID_TOPIC_EXCEPTION, False, ALL_OPERATIONS),
        (MetadataRequestTopic(name=None, topic_id=STRANGER), E.UNKNOWN_TOPIC_ID, False, NOT_ASKED),  # of which topic?
    ],
)
def test_what_metadata_say_of_a_topic_that_is_not_there(
    client: RawClient, topic: MetadataRequestTopic, code: E, is_internal: bool, operations: int
) -> None:
    told = metadata(client, [topic], include_topic_authorized_operations=True).topics[0]
    assert (told.error_code, told.is_internal, told.topic_authorized_operations) == (code, is_internal, operations)


# ---- Topics


def test_a_new_topic_s_values_are_told_as_they_were_given(client: RawClient) -> None:
    given = {"retention.ms": " 5 ", "preallocate": "TRUE", "cleanup.policy": "delete, compact"}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in given.items()]
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=(), configs=configs)
    created = client.call(CreateTopicsRequest(topics=[topic], validate_only=True)).topics[0]
    assert {config.name: config.value for config in created.configs if config.name in given} == given


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (["neither", "neither"], [(None, False)] * 2),  # nonsense is answered one by one
        (["both", "both"], [("two", True)] * 2),
        (["name", "id"], [("two", True)]),  # one topic, two ways: one answer for both
        (["id", "name"], [("two", True)]),
        (["id", "id", "name"], [(None, True), ("two", True)]),
    ],
)
def test_a_deletion_that_is_refused_names_what_was_given(
    client: RawClient, by: list[str], expected: list[tuple[str | None, bool]]
) -> None:
    topic_id = client.topic_id("two")
    ways = {"neither": {}, "both": {"name": "two", "topic_id": topic_id}, "name": {"name": "two"}}
    states = [DeleteTopicState(**ways.get(way, {"topic_id": topic_id})) for way in by]  # type: ignore[arg-type]
    answer = client.call(DeleteTopicsRequest(topics=states, timeout_ms=1_000)).responses
    assert [(told.name, told.topic_id == topic_id) for told in answer] == expected
    assert {told.error_code for told in answer} == {E.INVALID_REQUEST}


@pytest.mark.parametrize("state", [DeleteTopicState(name="nope"), DeleteTopicState(topic_id=STRANGER)])
def test_the_deletion_of_an_unknown_topic_is_refused_in_words(client: RawClient, state: DeleteTopicState) -> None:
    assert client.call(DeleteTopicsRequest(topics=[state], timeout_ms=1_000)).responses[0].error_message


def test_a_described_configuration_has_an_empty_message_rather_than_none(client: RawClient) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name="two", configuration_keys=None)
    assert client.call(DescribeConfigsRequest(resources=[resource])).results[0].error_message == ""


# ---- Partitions that are named more than once


def test_partitions_are_answered_once_and_topics_without_any_not_at_all() -> None:
    asked = [("a", 0, "first"), ("b", 0, "other"), ("a", 1, "next"), ("a", 0, "last")]
    assert distinct_partitions(asked) == {"a": {0: "last", 1: "next"}, "b": {0: "other"}}


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([("empty", [0, 0])], {"empty": [0]}),
        ([("two", [1]), ("empty", [0]), ("two", [1])], {"two": [1], "empty": [0]}),
        ([("two", []), ("nope", [])], {}),
        ([], {}),
    ],
)
def test_produce_answers_each_partition_once(
    client: RawClient, topics: list[tuple[str, list[int]]], expected: dict[str, list[int]]
) -> None:
    data = [
        TopicProduceData(
            name=name, partition_data=[PartitionProduceData(index=index, records=good(1)) for index in indexes]
        )
        for name, indexes in topics
    ]
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data), 12)
    told = {topic.name: [partition.index for partition in topic.partition_responses] for topic in answer.responses}
    assert told == expected


def list_offsets(client: RawClient, *topics: tuple[str, list[int]]) -> dict[str, list[tuple[int, int]]]:
    asked = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=i, timestamp=-2) for i in indexes])
        for name, indexes in topics
    ]
    answer = client.call(ListOffsetsRequest(replica_id=-1, topics=asked))
    return {topic.name: [(p.partition_index, p.error_code) for p in topic.partitions] for topic in answer.topics}


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        ([("two", [0, 0, 1])], {"two": [(0, E.INVALID_REQUEST), (1, E.NONE)]}),  # which of the two is meant?
        ([("two", [0]), ("two", [0])], {"two": [(0, E.INVALID_REQUEST)]}),  # also across topics
        ([("two", [0]), ("two", [1])], {"two": [(0, E.NONE), (1, E.NONE)]}),
        ([("two", []), ("nope", [])], {}),
    ],
)
def test_list_offsets_answers_each_partition_once(
    client: RawClient, topics: list[tuple[str, list[int]]], expected: dict[str, list[tuple[int, int]]]
) -> None:
    assert list_offsets(client, *topics) == expected


def test_delete_records_answers_each_partition_once(client: RawClient) -> None:
    twice = [DeleteRecordsPartition(partition_index=0, offset=0) for _ in range(2)]
    topics = [DeleteRecordsTopic(name=name, partitions=entries) for name, entries in (("two", twice), ("other", []))]
    answer = client.call(DeleteRecordsRequest(topics=topics, timeout_ms=1_000)).topics
    assert [(topic.name, len(topic.partitions)) for topic in answer] == [("two", 1)]


def test_of_two_wishes_for_a_partition_fetch_fulfils_the_last(client: RawClient) -> None:
    wishes = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (0, 3)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="two", partitions=wishes)])
    (fetched,) = client.call(request, 12).responses[0].partitions
    assert values_of(fetched) == [b"value-0", b"value-1"]


# ---- Produce


@pytest.mark.parametrize(
    ("topic", "batch", "code", "tells_log_start_offset"),
    [
        ("nope", good(), E.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("other", good(), E.NONE, True),
        ("other", good()[:-1], E.INVALID_RECORD, False),  # nothing reached the log
        ("other", bytes(30), E.CORRUPT_MESSAGE, False),
        ("other", batch_of([b"x" * 1_100_000]), E.MESSAGE_TOO_LARGE, False),
        ("other", batch_of([b"x"], sent=Sent(7, 0, -1)), E.INVALID_RECORD, True),  # the log itself refused it
        ("other", batch_of([b"x"], control=True), E.INVALID_RECORD, True),
    ],
)
def test_a_refusal_tells_the_log_start_offset_if_the_log_gave_it(
    client: RawClient, topic: str, batch: bytes, code: E, tells_log_start_offset: bool
) -> None:
    told = client.produce(topic, batch)
    assert (told.error_code, told.log_start_offset >= 0) == (code, tells_log_start_offset)


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (batch_of([b"x"], transactional=True), E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (bytes(30), E.CORRUPT_MESSAGE),  # its length cannot be one
        (good()[:-1], E.NONE),  # half a batch refuses nobody but itself
    ],
)
def test_some_batches_refuse_the_whole_request_before_anything_is_written(
    client: RawClient, second: bytes, code: E
) -> None:
    data = [PartitionProduceData(index=index, records=records) for index, records in ((0, good(1)), (1, second))]
    topics = [TopicProduceData(name=name, partition_data=data) for name in ("two", "nope")]
    end = client.list_offset("two", -1).offset
    told = client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 12)
    codes = [partition.error_code for topic in told.responses for partition in topic.partition_responses]
    others = [E.INVALID_RECORD, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes == ([code] * 4 if code else [code, *others])
    assert client.list_offset("two", -1).offset - end == (0 if code else 1)


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "code"),
    [
        (-1, -1, E.NONE),
        (5, 3, E.NONE),  # a new id all the same
        (5, -1, E.INVALID_REQUEST),  # both or neither
        (-1, 3, E.INVALID_REQUEST),
        (-5, -1, E.INVALID_REQUEST),
    ],
)
def test_an_idempotent_producer_s_id_and_epoch(
    client: RawClient, producer_id: int, producer_epoch: int, code: E
) -> None:
    asked = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=0, producer_id=producer_id, producer_epoch=producer_epoch
    )
    answer = client.call(asked)
    assert (answer.error_code, answer.producer_epoch) == (code, 0 if code is E.NONE else -1)


@pytest.mark.parametrize(("name", "code"), [("", E.INVALID_TOPIC_EXCEPTION), ("nope", E.UNKNOWN_TOPIC_OR_PARTITION)])
def test_the_producers_of_a_topic_that_cannot_be(client: RawClient, name: str, code: E) -> None:
    asked = DescribeProducersRequest(topics=[TopicRequest(name=name, partition_indexes=[0])])
    assert client.call(asked).topics[0].partitions[0].error_code == code


# ---- Fetch


@pytest.mark.parametrize(
    ("partition", "offset", "aborted"),
    [(0, 0, None), (9, 0, []), (0, 99, None)],  # a list for what nobody has read from, null for all others
)
def test_the_aborted_transactions_of_who_reads_uncommitted(
    client: RawClient, partition: int, offset: int, aborted: list[Any] | None
) -> None:
    assert client.fetch("two", offset, partition=partition).aborted_transactions == aborted


@pytest.mark.parametrize(("epoch", "code"), [(-1, E.NONE), (-2, E.NONE), (0, E.NONE), (1, E.UNKNOWN_LEADER_EPOCH)])
def test_a_negative_leader_epoch_is_none(client: RawClient, epoch: int, code: E) -> None:
    assert client.fetch("two", current_leader_epoch=epoch).error_code == code


def test_the_leader_s_epoch_began_before_anything_was_written_in_it(client: RawClient) -> None:
    topic = CreatableTopic(name="fresh", num_partitions=1, replication_factor=1, assignments=(), configs=())
    client.call(CreateTopicsRequest(topics=[topic]))
    fetched = client.fetch("fresh", last_fetched_epoch=0)
    assert (fetched.error_code, fetched.diverging_epoch.epoch) == (E.NONE, -1)
    assert client.list_offset("fresh", -2).leader_epoch == 0
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic="fresh", partitions=[asked])]
    ended = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)).topics[0].partitions[0]
    assert (ended.leader_epoch, ended.end_offset) == (0, 0)


@pytest.mark.parametrize("replica_id", [0, 1, 99])
@pytest.mark.parametrize("version", [12, 14, 15, 18])
def test_who_is_no_follower_reads_nothing_as_one(client: RawClient, replica_id: int, version: int) -> None:
    topic: Any = "two" if version < 13 else client.topic_id("two")
    who = {"replica_id": replica_id} if version < 15 else {"replica_state": ReplicaState(replica_id=replica_id)}
    answer = client.call(fetch_request(topic, {0: 0}, **who), version)
    told = answer.responses[0].partitions[0]
    assert (told.error_code, told.high_watermark) == (E.NOT_LEADER_OR_FOLLOWER, -1)
    assert told.current_leader.leader_id == (1 if version >= 16 else -1)  # KIP-951
    assert list(answer.node_endpoints) == []  # those are for consumers


def test_a_session_may_begin_without_partitions(client: RawClient) -> None:
    answer = client.call(FetchRequest(max_wait_ms=0, min_bytes=1, topics=[], session_epoch=0), 12)
    assert answer.session_id != 0


# ---- DescribeCluster and DescribeTopicPartitions


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(1, E.NONE), (2, E.MISMATCHED_ENDPOINT_TYPE), (0, E.UNSUPPORTED_ENDPOINT_TYPE), (9, E.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_describes_brokers_only(client: RawClient, endpoint_type: int, code: E) -> None:
    asked = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
    answer = client.call(asked)
    assert (answer.error_code, answer.endpoint_type) == (code, 1)


@pytest.mark.parametrize(
    ("names", "cursor", "expected"),
    [
        (["other", "two"], ("two", 1), [("two", E.NONE, 1)]),
        (["other", "two"], ("two", 9), [("two", E.NONE, 0)]),  # the topic had more once
        (["two"], ("two", -1), [("two", E.INVALID_REQUEST, 0)]),
        (["two", "other"], ("nope", 0), [("two", E.INVALID_REQUEST, 0), ("other", E.INVALID_REQUEST, 0)]),
        (["nope"], ("nope", 3), [("nope", E.UNKNOWN_TOPIC_OR_PARTITION, 0)]),  # it was deleted between two pages
        ([], ("two", -1), []),
    ],
)
def test_a_page_begins_where_another_can_have_ended(
    client: RawClient, names: list[str], cursor: tuple[str, int], expected: list[tuple[str, E, int]]
) -> None:
    asked = DescribeTopicPartitionsRequest(
        topics=[DescribedTopic(name=name) for name in names],
        cursor=Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    topics = client.call(asked).topics
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in topics] == expected


@pytest.mark.parametrize(("name", "is_internal"), [("nope", False), ("__consumer_offsets", True)])
def test_a_topic_that_is_not_there_is_described_all_the_same(client: RawClient, name: str, is_internal: bool) -> None:
    told = client.call(DescribeTopicPartitionsRequest(topics=[DescribedTopic(name=name)])).topics[0]
    assert (told.is_internal, told.topic_authorized_operations) == (is_internal, ALL_OPERATIONS)


def test_who_knows_an_old_leader_epoch_is_told_the_new_one_and_where_its_leader_is(tmp_path: Path) -> None:
    with Broker({"two": 2}, data_dir=str(tmp_path)):
        pass
    (tmp_path / CLEAN_SHUTDOWN_FILE).unlink()  # after a crash a new epoch begins
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        request = fetch_request(client.topic_id("two"), {0: 0}, current_leader_epoch=0)
        for version in (15, 16):
            answer = client.call(request, version)
            told = answer.responses[0].partitions[0]
            assert told.error_code == E.FENCED_LEADER_EPOCH
            leader = (told.current_leader.leader_id, told.current_leader.leader_epoch)
            endpoints = [(node.node_id, node.port) for node in answer.node_endpoints]
            assert (leader, endpoints) == (((1, 1), [(1, broker.port)]) if version >= 16 else ((-1, -1), []))


@pytest.mark.parametrize(
    ("topic", "leader_epoch", "expected"),
    [
        ("written", 0, (0, 3)),
        ("written", 1, (0, 3)),  # nothing was written in it: the one before ended there
        ("written", 2, (2, 3)),  # the leader's own
        ("written", 3, (-1, -1)),  # not yet
        ("empty", 1, (1, 0)),
        ("empty", 2, (2, 0)),
        ("empty", -1, (-1, -1)),
    ],
)
def test_where_an_epoch_ended_when_the_leader_changed_twice(
    crashed_twice: Broker, topic: str, leader_epoch: int, expected: tuple[int, int]
) -> None:
    with RawClient(crashed_twice.port) as client:
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=leader_epoch)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        told = client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)).topics[0].partitions[0]
    assert (told.leader_epoch, told.end_offset) == expected


@pytest.fixture(scope="module")
def crashed_twice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    data_dir = tmp_path_factory.mktemp("data")
    with Broker({"written": 1, "empty": 1}, data_dir=str(data_dir)) as broker, RawClient(broker.port) as client:
        client.produce("written", good(3))
    (data_dir / CLEAN_SHUTDOWN_FILE).unlink()
    with Broker(data_dir=str(data_dir)):
        pass
    (data_dir / CLEAN_SHUTDOWN_FILE).unlink()
    with Broker(data_dir=str(data_dir)) as broker:
        yield broker
