"""Requests about transactions, each as a call."""

from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.wire import RawClient


def init(client: RawClient, transactional_id: str, version: int = 5, **fields: Any) -> Any:
    fields = {"transaction_timeout_ms": 60_000, **fields}
    return client.call(InitProducerIdRequest(transactional_id=transactional_id, **fields), version)


def add(
    client: RawClient, transactional_id: str, producer: Any, *topics: str, version: int = 3
) -> dict[str, ErrorCode]:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0]) for topic in topics],
    )
    answer = client.call(request, version)
    return {
        topic.name: ErrorCode(topic.results_by_partition[0].partition_error_code)
        for topic in answer.results_by_topic_v3_and_below
    }


def described_when_loaded(client: RawClient, transactional_id: str) -> Any:
    while (state := described(client, transactional_id)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    return state


def end(client: RawClient, transactional_id: str, producer: Any, *, committed: bool = True, version: int = 5) -> Any:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
    )
    return client.call(request, version)


def described(client: RawClient, transactional_id: str) -> Any:
    (state,) = client.call(DescribeTransactionsRequest(transactional_ids=[transactional_id])).transaction_states
    return state


def listed(client: RawClient, version: int = 2, **fields: Any) -> Any:
    return client.call(ListTransactionsRequest(**{"state_filters": (), "producer_id_filters": (), **fields}), version)
