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
from barnabas.testing import Broker
from tests.broker.wire import RawClient

GROUP = "readers"
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
BROKER_RESOURCE = 4


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
        named = [TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()]
        request = TxnOffsetCommitRequest(**{**self._named(), "group_id": GROUP, "topics": named, **fields})
        answer = self._client.call(request, version)
        assert len(answer.topics) == len(topics), "one entry for each topic"
        return [
            Committed(topic.name, partition.partition_index, ErrorCode(partition.error_code))
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


@pytest.mark.parametrize("version", range(6))
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
        producer.end(committed=committed, version=5 if version == 5 else 1)
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
