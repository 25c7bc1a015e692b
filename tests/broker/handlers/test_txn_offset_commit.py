"""TxnOffsetCommit on one broker, as clients of both versions of the protocol send it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.testing import Broker
from tests.broker.wire import RawClient

GROUP = "readers"
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
BROKER_RESOURCE = 4
STRANGER = bytes(range(16))
"""The id of no topic."""


@pytest.fixture(scope="module")
def client() -> Iterator[RawClient]:
    with Broker({"orders": 2}) as broker, RawClient(broker.port) as client:
        for key_type in (0, 1):
            assert client.call(FindCoordinatorRequest(key=GROUP, key_type=key_type), 3).error_code == NONE
        yield client


class Producer:
    """One that does exactly what a test says."""

    def __init__(self, client: RawClient, transactional_id: str) -> None:
        self._client = client
        self.transactional_id = transactional_id
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        answer = client.call(request, 5)
        assert answer.error_code == NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(**self._named(), group_id=GROUP)
        assert self._client.call(request, 3).error_code == NONE

    def commit(self, offset: int, version: int, **fields: Any) -> ErrorCode:
        ((_, _, code),) = self.commits([("orders", 0)], offset, version, **fields)
        return code

    def commits(self, places: list[tuple[str, int]], offset: int, version: int, **fields: Any) -> "list[Committed]":
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for topic, index in places:
            partition = TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata="noted"
            )
            topics.setdefault(topic, []).append(partition)
        named = [
            TxnOffsetCommitRequestTopic(
                name=name, topic_id=topic_id_of(self._client, name) if version >= 6 else ZERO_UUID, partitions=each
            )
            for name, each in topics.items()
        ]
        request = TxnOffsetCommitRequest(**{**self._named(), "group_id": GROUP, "topics": named, **fields})
        answer = self._client.call(request, version)
        assert len(answer.topics) == len(topics), "one entry for each topic"
        names = {topic.topic_id: topic.name for topic in named}
        return [
            Committed(topic.name or names[topic.topic_id], partition.partition_index, ErrorCode(partition.error_code))
            for topic in answer.topics
            for partition in topic.partitions
        ]

    def end(self, *, committed: bool, version: int) -> None:
        answer = self._client.call(EndTxnRequest(**self._named(), committed=committed), version)
        assert answer.error_code == NONE, answer
        if version >= 5:
            self.epoch = answer.producer_epoch

    def partitions(self) -> list[str]:
        """The topics of its transaction."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        (state,) = self._client.call(request).transaction_states
        return [topic.topic for topic in state.topics]

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


def topic_id_of(client: RawClient, name: str) -> Uuid:
    """Returns the id of the topic; one that no topic has if it is unknown."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    (topic,) = client.call(request, 12).topics
    return STRANGER if topic.topic_id == ZERO_UUID else topic.topic_id


class Committed(NamedTuple):
    topic: str
    partition: int
    code: ErrorCode


def fetched(client: RawClient, *, require_stable: bool = False) -> tuple[int, str, ErrorCode]:
    topics = [OffsetFetchRequestTopics(name="orders", partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    answer = client.call(OffsetFetchRequest(groups=groups, require_stable=require_stable), 8)
    partition = answer.groups[0].topics[0].partitions[0]
    return partition.committed_offset, partition.metadata, ErrorCode(partition.error_code)


@pytest.mark.parametrize("version", range(7))
def test_offsets_count_when_their_transaction_is_committed(client: RawClient, version: int) -> None:
    producer = Producer(client, f"copier-{version}")
    before, *_ = fetched(client)
    for committed, offset in ((False, 100 * version + 10), (True, 100 * version + 20)):
        if version < 5:
            producer.add_offsets()
        assert producer.commit(offset, version) == NONE
        assert producer.partitions() == ["__consumer_offsets"]
        assert fetched(client)[0] == before
        assert fetched(client, require_stable=True) == (-1, "", UNSTABLE)
        producer.end(committed=committed, version=5 if version >= 5 else 1)
        expected = (offset, "noted", NONE) if committed else before
        assert fetched(client, require_stable=True)[0] == (offset if committed else before), expected


@pytest.mark.parametrize(
    ("version", "told"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_clients_of_version_1_add_the_group_first(client: RawClient, version: int, told: ErrorCode) -> None:
    producer = Producer(client, f"hasty-{version}")
    assert producer.commit(1, version) == told
    assert producer.partitions() == []
    producer.add_offsets()
    assert producer.commit(1, version) == NONE, "a refusal leaves nothing behind"
    producer.end(committed=False, version=1)


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"producer_epoch": 7}, ErrorCode.INVALID_PRODUCER_EPOCH),  # never PRODUCER_FENCED
        ({"producer_id": 999_999}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"transactional_id": "stranger"}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"generation_id": 3, "group_id": "strangers"}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger", "generation_id": 3}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_not_commit_is_told_why(
    client: RawClient, version: int, fields: dict[str, Any], told: ErrorCode
) -> None:
    producer = Producer(client, f"refused-{version}")
    producer.add_offsets()
    assert producer.commit(0, 3) == NONE
    producer.end(committed=True, version=1)  # the group is there
    producer.add_offsets()
    if fields.get("group_id") == "strangers" and version < 5:
        request = AddOffsetsToTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id="strangers",
        )
        assert client.call(request, 3).error_code == NONE
    assert producer.commit(1, version, **fields) == told
    producer.end(committed=False, version=1)


def test_what_does_not_exist_is_refused_and_the_rest_is_committed(client: RawClient) -> None:
    producer = Producer(client, "copier-of-much")
    codes = producer.commits([("orders", 0), ("orders", 7), ("gone", 0), ("orders", 1)], 77, 5)
    assert {(name, index): code for name, index, code in codes} == {
        ("orders", 0): NONE,
        ("orders", 1): NONE,
        ("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    producer.end(committed=True, version=5)
    assert fetched(client)[0] == 77
    nothing = Producer(client, "copier-of-nothing")
    assert nothing.commits([("gone", 0)], 1, 5)[0].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert nothing.partitions() == []


def test_what_was_committed_by_a_topic_s_id_is_of_no_other_topic(client: RawClient) -> None:
    producer = Producer(client, "copier-by-id")
    codes = producer.commits([("orders", 0), ("orders", 7), ("gone", 0)], 88, 6)
    assert {(name, index): code for name, index, code in codes} == {
        ("orders", 0): NONE,
        ("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("gone", 0): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    producer.end(committed=True, version=5)
    orders = topic_id_of(client, "orders")
    assert fetched_by_id(client, orders) == 88
    assert fetched_by_id(client, STRANGER) is None


def fetched_by_id(client: RawClient, topic_id: Uuid) -> int | None:
    topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])]
    answer = client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]), 10)
    partition = answer.groups[0].topics[0].partitions[0]
    return None if partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID else partition.committed_offset


@pytest.mark.parametrize(("version", "told"), [(5, ErrorCode.ILLEGAL_GENERATION), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_since_version_6_a_group_that_is_not_there_is_named_as_what_it_is(
    client: RawClient, version: int, told: ErrorCode
) -> None:
    producer = Producer(client, f"copier-of-strangers-{version}")
    assert producer.commit(1, version, generation_id=3, group_id="strangers") == told
    producer.end(committed=False, version=5)


@pytest.mark.parametrize(("name", "is_answered"), [("gone", True), ("orders", False)])
def test_a_topic_without_partitions_is_answered_if_it_does_not_exist(
    client: RawClient, name: str, is_answered: bool
) -> None:
    """As by Kafka, which tells that it is unknown and has nothing to tell of the other."""
    producer = Producer(client, f"copier-of-no-partition-of-{name}")
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=[])],
    )
    answered = [(topic.name, list(topic.partitions)) for topic in client.call(request, 5).topics]
    assert answered == [(name, [])] * is_answered


def test_without_verification_a_client_of_version_1_is_believed(client: RawClient) -> None:
    producer = Producer(client, "believed")
    verify(client, "false")
    try:
        assert producer.commit(1, 3) == NONE
    finally:
        verify(client, "true")


def verify(client: RawClient, value: str) -> None:
    config = AlterableConfig(name="transaction.partition.verification.enable", config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="", configs=[config])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == NONE, answer
