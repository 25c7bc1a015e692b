"""A transaction that begins while the broker that writes the markers of the last one is stopped."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from barnabas.testing import Cluster
from barnabas.testing.node import ClusterNode
from tests.broker.transactions.calls import described, end, init
from tests.broker.wire import RawClient, Sent, good

NAME, TOPIC = "tx", "orders"


class Ending(NamedTuple):
    """A transaction that is committed, and does not get its marker before its `writer` goes on."""

    coordinator: ClusterNode
    writer: ClusterNode
    producer: Any
    near: int
    """The partition that the coordinator's broker leads; the other one waits for its marker."""


@pytest.fixture
def ending() -> Iterator[Ending]:
    config = {
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "default.replication.factor": "1",
        "add.partitions.to.txn.retry.backoff.max.ms": "60000",
    }
    with Cluster({TOPIC: 2}, config, brokers=2) as cluster:
        with RawClient(cluster[1].port) as client:
            for key_type in (0, 1):
                answer = client.call(FindCoordinatorRequest(key=NAME, key_type=key_type), 3)
                assert answer.error_code == ErrorCode.NONE
        coordinator_id = cluster.leader(TRANSACTION_STATE_TOPIC, 0)
        assert coordinator_id is not None
        near = next(index for index in (0, 1) if cluster.leader(TOPIC, index) == coordinator_id)
        coordinator, writer = cluster[coordinator_id], cluster[3 - coordinator_id]
        with RawClient(coordinator.port) as client:
            producer = init(client, NAME)
            added = client.call(adding(producer, 1 - near), 3).results_by_topic_v3_and_below
            assert added[0].results_by_partition[0].partition_error_code == ErrorCode.NONE
            writer.pause()
            producer = end(client, NAME, producer)
            assert producer.error_code == ErrorCode.NONE
        yield Ending(coordinator, writer, producer, near)


def adding(producer: Any, partition: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NAME,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
    )


def adding_offsets(producer: Any, _partition: int) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=NAME,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id="group",
    )


def producing(producer: Any, partition: int) -> ProduceRequest:
    sent = Sent(producer.producer_id, producer.producer_epoch, 0)
    data = PartitionProduceData(index=partition, records=good(sent=sent, transactional=True))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(transactional_id=NAME, acks=-1, timeout_ms=60_000, topic_data=[topic])


@pytest.mark.parametrize(
    ("request_of", "version", "code_of"),
    [
        (adding, 3, lambda it: it.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code),
        (adding_offsets, 3, lambda it: it.error_code),
        (producing, 12, lambda it: it.responses[0].partition_responses[0].error_code),
    ],
)
def test_a_client_waits_for_the_end_of_its_last_transaction(
    ending: Ending, request_of: Callable[[Any, int], Any], version: int, code_of: Callable[[Any], int]
) -> None:
    with RawClient(ending.coordinator.port) as client, RawClient(ending.coordinator.port) as other:
        client.send(request_of(ending.producer, ending.near), version)
        assert described(other, NAME).transaction_state == "PrepareCommit"
        ending.writer.resume()
        assert code_of(client.receive()) == ErrorCode.NONE
        assert described(other, NAME).transaction_state == "Ongoing"


def test_a_broker_is_answered_at_once_because_it_asks_for_others_too(ending: Ending) -> None:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=NAME,
        producer_id=ending.producer.producer_id,
        producer_epoch=ending.producer.producer_epoch,
        verify_only=False,
        topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[ending.near])],
    )
    with RawClient(ending.coordinator.port) as client:
        (result,) = client.call(AddPartitionsToTxnRequest(transactions=[transaction]), 5).results_by_transaction
        code = result.topic_results[0].results_by_partition[0].partition_error_code
        assert code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert described(client, NAME).transaction_state == "PrepareCommit"
    ending.writer.resume()
