"""Offsets of transactions where the group is coordinated by one broker of three and the transaction by another."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.client.client import Client, Coordinated
from barnabas.client.connection import Connection, parse_addresses
from barnabas.client.errors import check
from barnabas.client.group_offsets import committed_offsets, stable_offsets, unstable_offsets
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from barnabas.protocol.types import TopicPartition
from barnabas.testing import Cluster

GROUP = "readers"
ORDERS = TopicPartition("orders", 0)
PARTITIONS = 3
COORDINATORS_TOPIC = "__consumer_offsets"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    numbers = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    with Cluster({"orders": 1}, config=numbers) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    cluster.wait_in_sync()
    with Client(parse_addresses(cluster.bootstrap_servers), timeout_s=60) as client:
        yield client


class Producer:
    """One whose transactions are coordinated elsewhere than its group."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        group = client.coordinator(GROUP)
        names = (f"{name}-{number}" for number in range(1_000))
        self.transactional_id = next(
            each for each in names if client.coordinator(each, Coordinated.TRANSACTIONAL_ID) != group
        )
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        answer = self._of_transactions(request, InitProducerIdResponse)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def commit(self, offset: int, version: int) -> None:
        """The client adds the group itself, unless it is one of version 2."""
        if version < 5:
            added = AddOffsetsToTxnRequest(**self._named(), group_id=GROUP)
            self._of_transactions(added, AddOffsetsToTxnResponse)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
        topics = [TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])]
        request = TxnOffsetCommitRequest(**self._named(), group_id=GROUP, topics=topics)

        def ask(connection: Connection) -> None:
            connection.send(request, TxnOffsetCommitResponse, version)
            answer = connection.receive(TxnOffsetCommitResponse)
            check(answer.topics[0].partitions[0].error_code, None, "the offset was not committed")

        self._client.on_coordinator(GROUP, ask)

    def end(self, *, committed: bool, version: int) -> None:
        request = EndTxnRequest(**self._named(), committed=committed)
        answer = self._of_transactions(request, EndTxnResponse, version if version == 5 else 3)
        if version == 5:
            self.epoch = answer.producer_epoch

    def _of_transactions(self, request: Any, response_class: Callable[..., Any], version: int | None = None) -> Any:
        def ask(connection: Connection) -> Any:
            connection.send(request, response_class, connection.version_of(type(request), version))  # type: ignore[arg-type]
            answer: Any = connection.receive(response_class)  # type: ignore[arg-type]
            check(answer.error_code, None, type(request).__name__)
            return answer

        def attempt() -> Any:
            return self._client.on_coordinator(self.transactional_id, ask, Coordinated.TRANSACTIONAL_ID)

        return self._client.retry(attempt, frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}))

    def _named(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }


@pytest.mark.parametrize("version", [3, 5])
def test_the_group_is_part_of_a_transaction_that_another_broker_coordinates(client: Client, version: int) -> None:
    producer = Producer(client, f"copier-{version}")
    for committed, offset in ((True, 10), (False, 20), (True, 30)):
        producer.commit(offset, version)
        assert unstable_offsets(client, GROUP, [ORDERS]) == {ORDERS}
        producer.end(committed=committed, version=version)
        assert stable_offsets(client, GROUP, [ORDERS])[ORDERS] == (offset if committed else 10)


@pytest.mark.parametrize("version", [3, 5])
@pytest.mark.parametrize("how", ["is moved", "dies"])
def test_a_coordinator_that_takes_over_knows_what_is_pending_and_hears_of_the_end(
    cluster: Cluster, client: Client, how: str, version: int
) -> None:
    producer = Producer(client, f"copier-{how[:2]}-{version}")
    offset = 1_000 * version + len(how)
    producer.commit(offset, version)
    before = committed_offsets(client, GROUP).get(ORDERS)
    index = java_hash(GROUP) % PARTITIONS
    leader = client.coordinator(GROUP)
    if how == "dies":
        cluster[leader].kill()
        wait_for_another_leader(cluster, index, leader)
    else:
        cluster.move_leader(COORDINATORS_TOPIC, index, leader % 3 + 1)
    with Client(parse_addresses(cluster.bootstrap_servers), timeout_s=60) as other:
        assert other.coordinator(GROUP) != leader
        assert unstable_offsets(other, GROUP, [ORDERS]) == {ORDERS}
        assert committed_offsets(other, GROUP).get(ORDERS) == before
        producer.end(committed=True, version=version)
        assert stable_offsets(other, GROUP, [ORDERS])[ORDERS] == offset
    if how == "dies":
        cluster[leader].start()


def wait_for_another_leader(cluster: Cluster, index: int, dead: int) -> None:
    """Returns when every broker that is left knows that it leads."""

    def is_known() -> bool:
        images = [node.process.server.node.image for node in cluster if node.process is not None and node.is_running]
        topics = [image.topic(COORDINATORS_TOPIC) for image in images]
        return all(topic is not None and topic.partitions[index].leader not in (-1, dead) for topic in topics)

    cluster._nodes.runtime.wait_until(is_known, "nobody else leads")
