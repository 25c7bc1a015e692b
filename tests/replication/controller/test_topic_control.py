from collections import Counter
from collections.abc import Sequence

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from barnabas.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from barnabas.protocol.stored.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from barnabas.protocol.types import Uuid, uuid_text
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.decision import RECORDS_MAX, Decision
from barnabas.replication.controller.settings import TopicDefaults
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import (
    DEFAULTS,
    cluster,
    controller,
    decided,
    new_topic,
    partition_of,
    topic_of,
    uuid,
    with_topics,
)

E = ErrorCode


def create(
    image: MetadataImage, *topics: CreatableTopic, validate_only: bool = False, defaults: TopicDefaults = DEFAULTS
) -> Decision[CreateTopicsResponse]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return decided(request, image, defaults=defaults)


def errors_of(
    results: Sequence[CreatableTopicResult] | Sequence[CreatePartitionsTopicResult],
) -> list[tuple[str, ErrorCode]]:
    return [(result.name, ErrorCode(result.error_code)) for result in results]


# ---- CreateTopics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (new_topic("orders"), E.NONE),
        (new_topic("Or-d_e.r5"), E.NONE),  # every legal character
        (new_topic("x" * 249), E.NONE),  # as long as it may be
        (new_topic("x" * 250), E.INVALID_TOPIC_EXCEPTION),
        (new_topic(""), E.INVALID_TOPIC_EXCEPTION),
        (new_topic("."), E.INVALID_TOPIC_EXCEPTION),
        (new_topic(".."), E.INVALID_TOPIC_EXCEPTION),
        (new_topic("../etc/passwd"), E.INVALID_TOPIC_EXCEPTION),
        (new_topic("a b"), E.INVALID_TOPIC_EXCEPTION),
        (new_topic("größe"), E.INVALID_TOPIC_EXCEPTION),  # a letter, but not an ASCII one
        (new_topic("١٢"), E.INVALID_TOPIC_EXCEPTION),  # digits, but not ASCII ones
        (new_topic("old.topic"), E.TOPIC_ALREADY_EXISTS),  # itself, although it also collides with itself
        (new_topic("old_topic"), E.INVALID_TOPIC_EXCEPTION),  # old.topic would share its metrics
        (new_topic("__cluster_metadata"), E.INVALID_REQUEST),  # the controller's own
        (new_topic("__consumer_offsets"), E.NONE),  # internal, but clients may create it
        (new_topic("orders", -1, -1), E.NONE),  # the defaults
        (new_topic("orders", 0), E.INVALID_PARTITIONS),
        (new_topic("orders", -2), E.INVALID_PARTITIONS),
        (new_topic("orders", 1, 0), E.INVALID_REPLICATION_FACTOR),
        (new_topic("orders", 1, -2), E.INVALID_REPLICATION_FACTOR),
        (new_topic("orders", 1, 3), E.NONE),  # as many as there are brokers
        (new_topic("orders", 1, 4), E.INVALID_REPLICATION_FACTOR),
        (new_topic("orders", RECORDS_MAX + 1), E.POLICY_VIOLATION),
        (new_topic("orders", 2**31 - 1), E.POLICY_VIOLATION),  # must not even be tried
        (new_topic("orders", configs={"retention.ms": "5"}), E.NONE),
        (new_topic("orders", configs={"retention.ms": "soon"}), E.INVALID_CONFIG),
        (new_topic("orders", configs={"retention.mss": "5"}), E.INVALID_CONFIG),
        (new_topic("orders", configs={"retention.ms": None}), E.INVALID_CONFIG),
        (new_topic("orders", 0, configs={"retention.mss": "5"}), E.INVALID_CONFIG),  # the configs are told first
        (new_topic("a b", configs={"retention.mss": "5"}), E.INVALID_TOPIC_EXCEPTION),  # and the name before them
        (new_topic("orders", -1, -1, {0: [1, 2], 1: [2, 3]}), E.NONE),
        (new_topic("orders", -1, -1, {1: [1], 0: [2]}), E.NONE),  # in any order
        (new_topic("orders", 2, -1, {0: [1], 1: [1]}), E.INVALID_REQUEST),  # counted and assigned
        (new_topic("orders", -1, 1, {0: [1]}), E.INVALID_REQUEST),
        (new_topic("orders", -1, -1, [(0, [1]), (0, [2])]), E.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", -1, -1, {0: [1], 2: [1]}), E.INVALID_REPLICA_ASSIGNMENT),  # a gap
        (new_topic("orders", -1, -1, {1: [1]}), E.INVALID_REPLICA_ASSIGNMENT),  # not from 0
        (new_topic("orders", -1, -1, {0: []}), E.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", -1, -1, {0: [1, 1]}), E.INVALID_REPLICA_ASSIGNMENT),
        (new_topic("orders", -1, -1, {0: [1, 9]}), E.INVALID_REPLICA_ASSIGNMENT),  # nobody's id
        (new_topic("orders", -1, -1, {0: [1], 1: [1, 2]}), E.INVALID_REPLICA_ASSIGNMENT),  # unequal
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else value.name[:20],
)
def test_a_topic_is_created_or_refused_for_the_reason_kafka_gives(topic: CreatableTopic, code: E) -> None:
    image = with_topics(cluster(1, 2, 3), "old.topic")
    records, response = create(image, topic)
    assert errors_of(response.topics) == [(topic.name, code)]
    assert bool(records) == (code == E.NONE)
    if code == E.NONE:
        assert topic.name in replayed(image, records).topics
    else:
        assert response.topics[0].error_message


def test_the_records_are_the_topic_then_its_configs_then_its_partitions() -> None:
    image = cluster(1, 2)
    topic = new_topic("orders", -1, -1, {0: [2, 1], 1: [1, 2]}, {"cleanup.policy": "compact", "retention.ms": "5"})
    records, response = create(image, topic)
    assert [type(record) for record in records] == [TopicRecord, ConfigRecord, ConfigRecord, *[PartitionRecord] * 2]
    after = replayed(image, records)
    assert after.config(2, "orders") == {"cleanup.policy": "compact", "retention.ms": "5"}
    first = partition_of(after, "orders", 0)
    assert (first.leader, first.leader_epoch, first.partition_epoch, first.isr) == (2, 0, 0, (2, 1))
    assert first.directories == (uuid(202), uuid(201))  # each broker has one log dir, so it is that one
    result = response.topics[0]
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (
        topic_of(after, "orders").topic_id,
        2,
        2,
    )


def test_the_response_tells_every_config_and_where_it_comes_from() -> None:
    _, response = create(cluster(1), new_topic("orders", configs={"retention.ms": "5"}))
    configs = {config.name: (config.value, config.config_source) for config in response.topics[0].configs or ()}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert list(configs) == sorted(configs)
    assert "internal.segment.bytes" not in configs  # nobody asked for it


def test_defaults_are_the_brokers() -> None:
    defaults = TopicDefaults(num_partitions=6, replication_factor=2)
    _, response = create(cluster(1, 2), new_topic("orders", -1, -1), defaults=defaults)
    assert (response.topics[0].num_partitions, response.topics[0].replication_factor) == (6, 2)


def test_validate_only_answers_but_decides_nothing() -> None:
    records, response = create(cluster(1), new_topic("orders", 3), new_topic("a b"), validate_only=True)
    assert not records
    assert errors_of(response.topics) == [("orders", E.NONE), ("a b", E.INVALID_TOPIC_EXCEPTION)]
    assert response.topics[0].num_partitions == 3


def test_each_topic_of_a_request_stands_alone_and_duplicates_fall_together() -> None:
    topics = [new_topic("a"), new_topic("twice"), new_topic("b c"), new_topic("twice"), new_topic("d")]
    records, response = create(cluster(1), *topics)
    assert errors_of(response.topics) == [
        ("a", E.NONE),
        ("twice", E.INVALID_REQUEST),
        ("b c", E.INVALID_TOPIC_EXCEPTION),
        ("d", E.NONE),
    ]
    assert [record.name for record in records if isinstance(record, TopicRecord)] == ["a", "d"]


def test_names_of_one_request_that_collide_are_refused_after_the_first() -> None:
    _, response = create(cluster(1), new_topic("a.b"), new_topic("a_b"))
    assert errors_of(response.topics) == [("a.b", E.NONE), ("a_b", E.INVALID_TOPIC_EXCEPTION)]


def test_too_many_partitions_are_counted_over_the_whole_request() -> None:
    _, response = create(cluster(1), new_topic("a", RECORDS_MAX), new_topic("b"))
    assert errors_of(response.topics) == [("a", E.POLICY_VIOLATION), ("b", E.POLICY_VIOLATION)]


def test_ten_thousand_partitions_are_one_request() -> None:
    image = cluster(1)
    records, _ = create(image, new_topic("wide", 10_000))
    assert len(topic_of(replayed(image, records), "wide").partitions) == 10_000


def test_an_unknown_config_is_answered_with_the_nearest_one() -> None:
    _, response = create(cluster(1), new_topic("orders", configs={"retention.mss": "5"}))
    assert "retention.ms" in (response.topics[0].error_message or "")


@pytest.mark.parametrize(
    ("image", "code", "leader", "isr"),
    [
        (cluster(1, 2, fenced=(1,)), E.NONE, 2, (2,)),  # the fenced one is a replica, but neither leads nor is in sync
        (cluster(1, 2, stopping=(1,)), E.NONE, 2, (2,)),
        (cluster(1, 2, fenced=(1, 2)), E.INVALID_REPLICATION_FACTOR, None, None),
        (cluster(), E.INVALID_REPLICATION_FACTOR, None, None),
    ],
)
def test_only_active_brokers_lead_and_are_in_sync(
    image: MetadataImage, code: E, leader: int | None, isr: tuple[int, ...] | None
) -> None:
    records, response = create(image, new_topic("orders", 1, 2))
    assert response.topics[0].error_code == code
    if code == E.NONE:
        partition = partition_of(replayed(image, records), "orders", 0)
        assert (partition.leader, partition.isr, set(partition.replicas)) == (leader, isr, {1, 2})


def test_a_manual_assignment_to_fenced_brokers_only_is_refused() -> None:
    _, response = create(cluster(1, 2, fenced=(1,)), new_topic("orders", -1, -1, {0: [2, 1], 1: [1]}))
    assert response.topics[0].error_code == E.INVALID_REPLICA_ASSIGNMENT


def test_topic_ids_are_random_uuids_that_no_command_line_takes_for_an_option() -> None:
    image = cluster(1)
    records, _ = create(image, *[new_topic(f"t{number}") for number in range(500)])
    ids = [record.topic_id for record in records if isinstance(record, TopicRecord)]
    assert len(set(ids)) == 500
    assert all(topic_id[6] >> 4 == 4 and topic_id[8] >> 6 == 2 for topic_id in ids)  # version 4
    assert not any(uuid_text(topic_id).startswith("-") for topic_id in ids)


# ---- DeleteTopics


def delete(
    image: MetadataImage,
    *states: DeleteTopicState,
    names: Sequence[str] = (),
    api_version: int = 6,
    delete_topic_enable: bool = True,
) -> Decision[DeleteTopicsResponse]:
    request = DeleteTopicsRequest(topics=list(states), topic_names=list(names), timeout_ms=1000)
    deciding = controller(delete_topic_enable=delete_topic_enable)
    return deciding.decide(request, ControllerRequestContext(api_version), image, now_ms=0)


def by_name(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def by_id(topic_id: Uuid) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id)


TWO = with_topics(cluster(1), "a", "b")
A, B = topic_of(TWO, "a").topic_id, topic_of(TWO, "b").topic_id


@pytest.mark.parametrize(
    ("states", "expected", "left"),
    [
        ([by_name("a")], [E.NONE], {"b"}),
        ([by_id(A)], [E.NONE], {"b"}),
        ([by_name("a"), by_id(B)], [E.NONE, E.NONE], set()),
        ([by_name("c")], [E.UNKNOWN_TOPIC_OR_PARTITION], {"a", "b"}),
        ([by_id(uuid(9))], [E.UNKNOWN_TOPIC_ID], {"a", "b"}),
        ([DeleteTopicState()], [E.INVALID_REQUEST], {"a", "b"}),  # neither
        ([DeleteTopicState(name="a", topic_id=A)], [E.INVALID_REQUEST], {"a", "b"}),  # both
        ([by_name("a"), by_name("a"), by_name("b")], [E.INVALID_REQUEST, E.NONE], {"a"}),
        ([by_id(A), by_id(A), by_name("b")], [E.INVALID_REQUEST, E.NONE], {"a"}),
        ([by_name("a"), by_id(A)], [E.INVALID_REQUEST], {"a", "b"}),  # one topic, two ways: one answer
        ([DeleteTopicState(), DeleteTopicState()], [E.INVALID_REQUEST] * 2, {"a", "b"}),  # each is nonsense by itself
        ([by_name("a"), by_name("a"), by_id(A)], [E.INVALID_REQUEST, E.NONE], {"b"}),  # the name is out already
        ([by_id(A), by_id(A), by_name("a")], [E.INVALID_REQUEST, E.INVALID_REQUEST], {"a", "b"}),
    ],
)
def test_topics_are_deleted_by_name_or_by_id(states: list[DeleteTopicState], expected: list[E], left: set[str]) -> None:
    records, response = delete(TWO, *states)
    assert [result.error_code for result in response.responses] == expected
    assert set(replayed(TWO, records).topics) == left


def test_the_answer_names_the_topic_and_its_id_only_when_it_was_deleted() -> None:
    _, response = delete(TWO, by_id(A), by_name("b"), by_id(uuid(9)))
    assert [(result.name, result.topic_id) for result in response.responses] == [("a", A), ("b", B), (None, uuid(9))]


def test_old_requests_give_names_only() -> None:
    records, response = delete(TWO, names=["a", "c"], api_version=5)
    assert [result.error_code for result in response.responses] == [E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert set(replayed(TWO, records).topics) == {"b"}


@pytest.mark.parametrize(("api_version", "code"), [(2, E.INVALID_REQUEST), (3, E.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_disabled(api_version: int, code: E) -> None:
    records, response = delete(TWO, names=["a"], api_version=api_version, delete_topic_enable=False)
    assert not records
    assert [result.error_code for result in response.responses] == [code]


# ---- CreatePartitions


def more(name: str, count: int, assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
    assigned = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments or ()]
    return CreatePartitionsTopic(name=name, count=count, assignments=assigned or None)


def grow(
    image: MetadataImage, *topics: CreatePartitionsTopic, validate_only: bool = False
) -> Decision[CreatePartitionsResponse]:
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    return decided(request, image)


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (more("orders", 5), E.NONE),
        (more("orders", 2), E.INVALID_PARTITIONS),  # as many as there are
        (more("orders", 1), E.INVALID_PARTITIONS),
        (more("orders", -1), E.INVALID_PARTITIONS),
        (more("payments", 5), E.UNKNOWN_TOPIC_OR_PARTITION),
        (more("orders", 4, [[1, 2], [2, 3]]), E.NONE),
        (more("orders", 4, [[1, 2]]), E.INVALID_REPLICA_ASSIGNMENT),  # one is missing
        (more("orders", 3, [[1]]), E.INVALID_REPLICA_ASSIGNMENT),  # the topic has two replicas
        (more("orders", 3, [[1, 9]]), E.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 3, [[1, 1]]), E.INVALID_REPLICA_ASSIGNMENT),
        (more("orders", 2 + RECORDS_MAX + 1), E.POLICY_VIOLATION),
    ],
)
def test_partitions_are_added_or_refused_for_the_reason_kafka_gives(topic: CreatePartitionsTopic, code: E) -> None:
    image = with_topics(cluster(1, 2, 3), new_topic("orders", 2, 2))
    records, response = grow(image, topic)
    assert errors_of(response.results) == [(topic.name, code)]
    after = topic_of(replayed(image, records), "orders")
    assert len(after.partitions) == (topic.count if code == E.NONE else 2)
    assert all(len(partition.replicas) == 2 for partition in after.partitions)
    assert after.partitions[:2] == topic_of(image, "orders").partitions


def test_growth_that_is_only_validated_decides_nothing_and_duplicates_are_refused() -> None:
    image = with_topics(cluster(1), "a", "b")
    records, response = grow(image, more("a", 2), more("b", 2), more("b", 3), validate_only=True)
    assert not records
    assert errors_of(response.results) == [("a", E.NONE), ("b", E.INVALID_REQUEST)]


# ---- placement in a topic


def test_leaders_and_replicas_spread_over_the_brokers() -> None:
    image = with_topics(cluster(1, 2, 3, 4), new_topic("orders", 400, 2))
    partitions = topic_of(image, "orders").partitions
    leaders = Counter(partition.leader for partition in partitions)
    assert leaders == {1: 100, 2: 100, 3: 100, 4: 100}
    followers = Counter(partition.replicas[1] for partition in partitions)
    assert set(followers) == {1, 2, 3, 4}
