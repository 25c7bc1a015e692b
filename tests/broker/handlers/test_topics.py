"""Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, DescribeCluster, FindCoordinator."""

import os
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from barnabas.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.types import ZERO_UUID
from barnabas.testing import Broker
from tests.broker.wire import RawClient, good
from tests.broker.witness import Lines

NONE = ErrorCode.NONE
NOT_ASKED = -(2**31)


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """With three partitions."""
    name = f"topics-{abs(hash(request.node.name))}"
    broker.create_topics({name: 3})
    return name


def creatable(name: str, partitions: int = 1, replication_factor: int = 1, **options: Any) -> CreatableTopic:
    options = {"assignments": (), "configs": ()} | options
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor, **options)


def create(client: RawClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> list[Any]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=validate_only)
    return list(client.call(request, version).topics)


def metadata(client: RawClient, *names: str, version: int = 13, create: bool = False) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return client.call(MetadataRequest(topics=topics, allow_auto_topic_creation=create), version)


def delete(client: RawClient, *names: str, version: int = 6) -> list[ErrorCode]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names] if version >= 6 else (),
        topic_names=names if version < 6 else (),
        timeout_ms=10_000,
    )
    return [ErrorCode(answer.error_code) for answer in client.call(request, version).responses]


# ---- metadata


@pytest.mark.parametrize("version", range(0, 14))
def test_every_version_of_metadata_describes_brokers_and_topics(
    broker: Broker, client: RawClient, topic: str, version: int
) -> None:
    answer = metadata(client, topic, version=version)
    [node] = answer.brokers
    assert (node.node_id, node.host, node.port, node.rack) == (1, "127.0.0.1", broker.port, None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    assert (answer.cluster_id is not None) == (version >= 2)
    [described] = answer.topics
    assert (described.error_code, described.name, described.is_internal) == (NONE, topic, False)
    assert (described.topic_id != ZERO_UUID) == (version >= 10)
    partitions = sorted(described.partitions, key=lambda partition: partition.partition_index)
    assert [partition.partition_index for partition in partitions] == [0, 1, 2]
    for partition in partitions:
        assert (partition.error_code, partition.leader_id) == (NONE, 1)
        assert (list(partition.replica_nodes), list(partition.isr_nodes)) == ([1], [1])
        assert (partition.leader_epoch, list(partition.offline_replicas)) == (0 if version >= 7 else -1, [])


def test_null_asks_for_all_topics_and_an_empty_list_for_none(client: RawClient, topic: str) -> None:
    everything = {described.name for described in client.call(MetadataRequest(topics=None)).topics}
    assert {topic, "payments", "compacted"} <= everything
    assert list(client.call(MetadataRequest(topics=[])).topics) == []
    in_version_0 = {described.name for described in client.call(MetadataRequest(topics=[]), 0).topics}
    assert {topic, "payments"} <= in_version_0, "version 0 has no null"


def test_a_topic_can_be_asked_for_by_its_id(client: RawClient, topic: str) -> None:
    asked = [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in (client.topic_id(topic), b"x" * 16)]
    found, unknown = client.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12).topics
    assert (found.error_code, found.name, len(found.partitions)) == (NONE, topic, 3)
    assert (ErrorCode(unknown.error_code), unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"x" * 16)


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("asked", [MetadataRequestTopic(name=None), MetadataRequestTopic(name="a", topic_id=b"x" * 16)])
def test_before_version_12_topics_have_names(client: RawClient, version: int, asked: MetadataRequestTopic) -> None:
    [answer] = client.call(MetadataRequest(topics=[asked]), version).topics
    assert (ErrorCode(answer.error_code), answer.name) == (ErrorCode.INVALID_REQUEST, asked.name or "")


@pytest.mark.parametrize(("version", "asks_for_cluster"), [(8, True), (10, True), (11, False)])
def test_operations_are_told_to_those_who_ask(
    client: RawClient, topic: str, version: int, asks_for_cluster: bool
) -> None:
    plain = metadata(client, topic, version=version)
    assert (plain.topics[0].topic_authorized_operations, plain.cluster_authorized_operations) == (NOT_ASKED, NOT_ASKED)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=asks_for_cluster,
    )
    answer = client.call(request, version)
    assert answer.topics[0].topic_authorized_operations == 3576
    assert answer.cluster_authorized_operations == (8096 if asks_for_cluster else NOT_ASKED)


def test_a_client_is_told_the_address_that_it_dialled(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        [node] = client.call(MetadataRequest(topics=[])).brokers
        assert (node.host, node.port) == ("127.0.0.1", broker.port)


def test_an_advertised_address_is_told_instead() -> None:
    config = {"advertised.listeners": "PLAINTEXT://kafka.example:19092"}
    with Broker(config=config) as broker, RawClient(broker.port) as client:
        [node] = client.call(MetadataRequest(topics=[])).brokers
        assert (node.host, node.port) == ("kafka.example", 19_092)


# ---- automatic creation


def test_a_topic_that_somebody_asks_for_is_created(broker: Broker, client: RawClient, log: Lines) -> None:
    log.lines.clear()
    [created] = metadata(client, "asked-for", create=True).topics
    assert (created.error_code, len(created.partitions)) == (NONE, 1), "at once, where Kafka lets the client ask again"
    assert client.produce("asked-for", good()).error_code == NONE
    assert log.saying("asked-for did not exist and a client asked for it: created automatically")


@pytest.mark.parametrize("version", range(0, 4))
def test_before_version_4_every_question_may_create(client: RawClient, version: int) -> None:
    [created] = metadata(client, f"asked-for-v{version}", version=version).topics
    assert created.error_code == NONE


def test_who_does_not_want_it_creates_nothing(client: RawClient) -> None:
    [unknown] = metadata(client, "not-wanted").topics
    assert (ErrorCode(unknown.error_code), list(unknown.partitions)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
    assert client.list_offset("not-wanted", -1).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["__transaction_state", "__share_group_state"])
def test_internal_topics_that_nobody_serves_yet_are_not_made_like_any_other(client: RawClient, name: str) -> None:
    [unknown] = metadata(client, name, create=True).topics
    assert (ErrorCode(unknown.error_code), unknown.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)


def test_with_automatic_creation_switched_off_nobody_creates_by_asking() -> None:
    with Broker(config={"auto.create.topics.enable": "false"}) as broker, RawClient(broker.port) as client:
        [unknown] = metadata(client, "orders", create=True).topics
        assert ErrorCode(unknown.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        [created] = create(client, creatable("orders"))
        assert created.error_code == NONE, "asking for it in so many words still works"


def test_automatic_creation_follows_the_defaults_of_the_broker() -> None:
    with Broker(config={"num.partitions": "7"}) as broker, RawClient(broker.port) as client:
        assert len(metadata(client, "orders", create=True).topics[0].partitions) == 7


def test_many_clients_that_ask_for_the_same_topic_at_once_all_get_it(broker: Broker) -> None:
    clients = [RawClient(broker.port) for _ in range(20)]
    for client in clients:
        topics = [MetadataRequestTopic(name=f"rush-{index}") for index in range(5)]
        client.send(MetadataRequest(topics=[*topics, *topics], allow_auto_topic_creation=True))
    answers = []
    for client in clients:
        with client:
            answers.append(client.receive().topics)
    assert {described.error_code for topics in answers for described in topics} == {NONE}
    assert len({described.topic_id for topics in answers for described in topics}) == 5


# ---- CreateTopics


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(broker: Broker, client: RawClient, version: int) -> None:
    name = f"created-v{version}"
    configs = [CreatableTopicConfig(name="retention.ms", value="1234")]
    [answer] = create(client, creatable(name, 2, configs=configs), version=version)
    assert (answer.name, answer.error_code, answer.error_message) == (name, NONE, None)
    assert (answer.topic_id != ZERO_UUID) == (version >= 7)
    if version >= 5:
        assert (answer.num_partitions, answer.replication_factor) == (2, 1)
        values = {config.name: (config.value, config.config_source) for config in answer.configs or ()}
        assert values["retention.ms"] == ("1234", 1)
        assert values["cleanup.policy"] == ("delete", 5)
    assert client.produce(name, good(), partition=1).error_code == NONE


def test_minus_1_means_the_default_of_the_broker(client: RawClient) -> None:
    [answer] = create(client, creatable("by-default", -1, -1))
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (NONE, 1, 1)


def configured(name: str, value: str | None) -> CreatableTopic:
    return creatable("bad", configs=[CreatableTopicConfig(name=name, value=value)])


def assigned(*replicas: tuple[int, list[int]], partitions: int = -1) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in replicas]
    return creatable("bad", partitions, -1, assignments=assignments)


BAD_TOPICS: list[tuple[str, CreatableTopic, ErrorCode]] = [
    ("exists already", creatable("payments"), ErrorCode.TOPIC_ALREADY_EXISTS),
    ("no partitions", creatable("bad", 0), ErrorCode.INVALID_PARTITIONS),
    ("partitions -2", creatable("bad", -2), ErrorCode.INVALID_PARTITIONS),
    ("more replicas than brokers", creatable("bad", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("no replicas", creatable("bad", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    ("an empty name", creatable(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("a name with a slash", creatable("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("an unknown config", configured("retention.mss", "1"), ErrorCode.INVALID_CONFIG),
    ("a config that is no number", configured("retention.ms", "x"), ErrorCode.INVALID_CONFIG),
    ("a config out of range", configured("segment.bytes", "1"), ErrorCode.INVALID_CONFIG),
    ("a config without a value", configured("retention.ms", None), ErrorCode.INVALID_CONFIG),
    ("assigned to nobody we know", assigned((0, [9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("assigned twice to one broker", assigned((0, [1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("assigned to no broker", assigned((0, [])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("a partition assigned twice", assigned((0, [1]), (0, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("assignments that begin at 1", assigned((1, [1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ("assignments and a count", assigned((0, [1]), partitions=1), ErrorCode.INVALID_REQUEST),
]


@pytest.mark.parametrize(("topic", "expected"), [row[1:] for row in BAD_TOPICS], ids=[row[0] for row in BAD_TOPICS])
def test_what_cannot_be_created_is_told_why(client: RawClient, topic: CreatableTopic, expected: ErrorCode) -> None:
    [answer] = create(client, topic)
    assert ErrorCode(answer.error_code) is expected
    assert answer.error_message
    assert metadata(client, "bad").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_topic_that_cannot_be_created_does_not_take_the_others(client: RawClient) -> None:
    answers = create(client, creatable("good-1"), creatable("payments"), creatable("good-2"))
    assert {answer.name: ErrorCode(answer.error_code) for answer in answers} == {
        "good-1": NONE,
        "payments": ErrorCode.TOPIC_ALREADY_EXISTS,
        "good-2": NONE,
    }


def test_the_same_topic_twice_in_a_request_is_refused(client: RawClient) -> None:
    answers = create(client, creatable("twice"), creatable("once"), creatable("twice"))
    codes = {answer.name: ErrorCode(answer.error_code) for answer in answers}
    assert codes == {"twice": ErrorCode.INVALID_REQUEST, "once": NONE}


def test_validating_creates_nothing(client: RawClient) -> None:
    [valid] = create(client, creatable("only-validated", 5), validate_only=True)
    assert (valid.error_code, valid.num_partitions) == (NONE, 5)
    [invalid] = create(client, creatable("payments"), validate_only=True)
    assert invalid.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert metadata(client, "only-validated").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replicas_can_be_placed_by_hand(client: RawClient) -> None:
    assignments = [CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(3)]
    [answer] = create(client, creatable("by-hand", -1, -1, assignments=assignments))
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (NONE, 3, 1)


# ---- DeleteTopics


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, good())
    assert delete(client, topic, version=version) == [NONE]
    assert metadata(client, topic).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce(topic, good()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(client, topic, version=version) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_topics_are_deleted_by_id(client: RawClient, topic: str) -> None:
    topic_id = client.topic_id(topic)
    states = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=b"x" * 16)]
    request = DeleteTopicsRequest(topics=states, timeout_ms=10_000)
    answers = {answer.topic_id: answer for answer in client.call(request).responses}
    assert (answers[topic_id].error_code, answers[topic_id].name) == (NONE, topic)
    assert answers[b"x" * 16].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([("own", ZERO_UUID), ("own", ZERO_UUID)], ErrorCode.INVALID_REQUEST),  # twice
        ([("own", b"x" * 16)], ErrorCode.INVALID_REQUEST),  # by name and by id
        ([(None, ZERO_UUID)], ErrorCode.INVALID_REQUEST),  # by neither
    ],
)
def test_a_deletion_that_is_not_clear_deletes_nothing(
    client: RawClient, topic: str, states: list[tuple[str | None, bytes]], expected: ErrorCode
) -> None:
    named = [DeleteTopicState(name=topic if name else None, topic_id=topic_id) for name, topic_id in states]
    answers = client.call(DeleteTopicsRequest(topics=named, timeout_ms=10_000)).responses
    assert {ErrorCode(answer.error_code) for answer in answers} == {expected}
    assert metadata(client, topic).topics[0].error_code == NONE


def test_deletion_can_be_forbidden() -> None:
    config = {"delete.topic.enable": "false"}
    with Broker({"orders": 1}, config) as broker, RawClient(broker.port) as client:
        assert delete(client, "orders") == [ErrorCode.TOPIC_DELETION_DISABLED]
        assert client.produce("orders", good()).error_code == NONE


def test_a_deleted_topic_is_gone_from_the_disk_and_from_the_next_start(tmp_path: Path) -> None:
    with Broker({"orders": 2}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        client.produce("orders", good())
        assert delete(client, "orders") == [NONE]
        assert not [name for name in os.listdir(tmp_path) if name.startswith("orders") and not name.endswith("-delete")]
        broker.create_topics({"orders": 1})
        assert client.produce("orders", good()).base_offset == 0
    with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert len(metadata(client, "orders").topics[0].partitions) == 1
        assert client.list_offset("orders", -1).offset == 3


# ---- CreatePartitions


def grow(client: RawClient, name: str, count: int, *, version: int = 3, **options: Any) -> ErrorCode:
    options = {"assignments": None, "validate_only": False} | options
    validate_only = options.pop("validate_only")
    asked = CreatePartitionsTopic(name=name, count=count, **options)
    request = CreatePartitionsRequest(topics=[asked], timeout_ms=10_000, validate_only=validate_only)
    [answer] = client.call(request, version).results
    return ErrorCode(answer.error_code)


@pytest.mark.parametrize("version", range(0, 4))
def test_every_version_adds_partitions_and_keeps_the_old(client: RawClient, topic: str, version: int) -> None:
    client.produce(topic, good(), partition=2)
    assert grow(client, topic, 5, version=version) == NONE
    assert len(metadata(client, topic).topics[0].partitions) == 5
    assert client.produce(topic, good(), partition=4).base_offset == 0
    assert client.produce(topic, good(), partition=2).base_offset == 3


@pytest.mark.parametrize(
    ("name", "count", "options", "expected"),
    [
        ("own", 3, {}, ErrorCode.INVALID_PARTITIONS),  # it has three
        ("own", 2, {}, ErrorCode.INVALID_PARTITIONS),  # never fewer
        ("own", 0, {}, ErrorCode.INVALID_PARTITIONS),
        ("no-such-topic", 3, {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("own", 5, {"assignments": [CreatePartitionsAssignment(broker_ids=[1])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("own", 4, {"assignments": [CreatePartitionsAssignment(broker_ids=[7])]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("own", 4, {"assignments": [CreatePartitionsAssignment(broker_ids=[1])], "validate_only": True}, NONE),
    ],
)
def test_partitions_that_cannot_be_added(
    client: RawClient, topic: str, name: str, count: int, options: dict[str, Any], expected: ErrorCode
) -> None:
    assert grow(client, topic if name == "own" else name, count, **options) is expected
    assert len(metadata(client, topic).topics[0].partitions) == 3


# ---- DescribeTopicPartitions


def pages(client: RawClient, names: list[str], limit: int) -> list[list[tuple[str, int]]]:
    """What each page brings, until there is no cursor."""
    found, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        answer = client.call(request)
        found.append(
            [(topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions]
        )
        cursor = answer.next_cursor
        if cursor is None:
            return found
        assert isinstance(cursor, Cursor)


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 100])
def test_topics_are_described_page_by_page(broker: Broker, client: RawClient, limit: int) -> None:
    names = [f"paged-{limit}-{letter}" for letter in "cab"]
    broker.create_topics(dict(zip(names, (3, 1, 3))))
    found = pages(client, names, limit)
    everything = [(name, index) for name, count in sorted(zip(names, (3, 1, 3))) for index in range(count)]
    assert [place for page in found for place in page] == everything
    assert all(len(page) <= limit for page in found)


def test_a_described_partition_has_its_replicas_and_no_null_lists(client: RawClient, topic: str) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic), TopicRequest(name="no-such-topic")])
    answers = {described.name: described for described in client.call(request).topics}
    described = answers[topic]
    assert (described.error_code, described.topic_id) == (NONE, client.topic_id(topic))
    for partition in described.partitions:
        assert (partition.leader_id, list(partition.replica_nodes), list(partition.isr_nodes)) == (1, [1], [1])
        assert (list(partition.eligible_leader_replicas or "null"), list(partition.last_known_elr or "null")) in (
            ([], []),
            (list("null"), list("null")),
        )
    assert answers["no-such-topic"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_all_topics_are_described_to_those_who_name_none(client: RawClient, topic: str) -> None:
    names = {described.name for described in client.call(DescribeTopicPartitionsRequest(topics=[])).topics}
    assert {topic, "payments"} <= names


# ---- the cluster


@pytest.mark.parametrize("version", range(0, 3))
def test_every_version_describes_the_cluster(broker: Broker, client: RawClient, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=version > 0)
    answer = client.call(request, version)
    assert (answer.error_code, answer.controller_id) == (NONE, 1)
    assert answer.cluster_id == metadata(client).cluster_id
    [node] = answer.brokers
    assert (node.broker_id, node.host, node.port, node.is_fenced) == (1, "127.0.0.1", broker.port, False)
    assert answer.cluster_authorized_operations == (8096 if version > 0 else NOT_ASKED)


@pytest.mark.parametrize(
    ("endpoint_type", "expected"),
    [(1, NONE), (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
def test_a_broker_speaks_for_brokers_only(client: RawClient, endpoint_type: int, expected: ErrorCode) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
    assert ErrorCode(client.call(request).error_code) is expected


def test_what_the_cluster_knows_is_the_same_after_a_restart(tmp_path: Path) -> None:
    def known(client: RawClient) -> dict[str, tuple[bytes, int]]:
        return {
            topic.name: (topic.topic_id, len(topic.partitions))
            for topic in client.call(MetadataRequest(topics=None)).topics
        }

    with Broker({"a": 1, "b": 7}, data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
        assert grow(client, "a", 3) == NONE
        before, cluster_id = known(client), metadata(client).cluster_id
    for _ in range(3):
        with Broker(data_dir=str(tmp_path)) as broker, RawClient(broker.port) as client:
            assert (known(client), metadata(client).cluster_id) == (before, cluster_id)
