"""Fetch and ListOffsets of committed records, while transactions begin and end on the partition that is read."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from barnabas.base.promise import resolved
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.storage.transactions.marker import TransactionMarker
from barnabas.testing import Broker
from barnabas.testing.calls import call_and_wait
from tests.broker.wire import RawClient, Sent, fetch_request, good, now_ms, values_of
from tests.storage.logs import verified

READ_COMMITTED = 1
LATEST = -1
T = TypeVar("T")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"orders": 1}) as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        yield client


def on_leader(broker: Broker, act: Callable[[LeaderPartition], T]) -> T:
    """What comes of acting on the partition, in the thread of the broker."""
    assert broker._server is not None
    replicas = broker._server.node.replicas
    return call_and_wait(broker._running.call, lambda: resolved(act(replicas.partition("orders", 0))), "acted")


def write(broker: Broker, producer_id: int, sequence: int = 0) -> int:
    """Three records in a transaction, and the offset of the first."""
    batch = memoryview(good(sent=Sent(producer_id, 0, sequence), transactional=True))

    def append(leader: LeaderPartition) -> int:
        return leader.append(batch, now_ms(), verified(leader.log, batch)).base_offset

    return on_leader(broker, append)


def end(broker: Broker, producer_id: int, *, is_committed: bool) -> None:
    marker = TransactionMarker(producer_id, 1, 0, is_committed, 2)
    on_leader(broker, lambda leader: leader.end_transaction(marker, now_ms()))


def aborted(answer: PartitionData) -> list[tuple[int, int]]:
    assert answer.aborted_transactions is not None
    return [(transaction.producer_id, transaction.first_offset) for transaction in answer.aborted_transactions]


def offset_at(client: RawClient, timestamp: int, isolation_level: int = READ_COMMITTED) -> int:
    asked = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    topics = [ListOffsetsTopic(name="orders", partitions=asked)]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
    return int(client.call(request).topics[0].partitions[0].offset)


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_fetch_that_waits_is_answered_when_a_transaction_ends(
    broker: Broker, client: RawClient, is_committed: bool
) -> None:
    """No record is new then: the fetch gets those that were held back."""
    write(broker, 7)
    client.send(fetch_request("orders", {0: 0}, max_wait_ms=60_000, isolation_level=READ_COMMITTED), 12)
    with RawClient(broker.port) as other:
        held_back = other.fetch("orders", isolation_level=READ_COMMITTED)
        assert (values_of(held_back), held_back.last_stable_offset, held_back.high_watermark) == ([], 0, 3)
    end(broker, 7, is_committed=is_committed)
    answer = client.receive().responses[0].partitions[0]
    assert (answer.last_stable_offset, len(values_of(answer))) == (4, 4), "and the marker, which moves clients on"
    assert aborted(answer) == ([] if is_committed else [(7, 0)])


def test_only_transactions_that_reach_into_the_answer_are_told_in_the_order_in_which_they_began(
    broker: Broker, client: RawClient
) -> None:
    for producer_id in (7, 8, 9):
        write(broker, producer_id)
    for producer_id in (9, 7, 8):
        end(broker, producer_id, is_committed=False)
    write(broker, 10)
    end(broker, 10, is_committed=False)
    everything = client.fetch("orders", isolation_level=READ_COMMITTED)
    assert aborted(everything) == [(7, 0), (8, 3), (9, 6), (10, 12)]
    first_batch = client.fetch("orders", partition_max_bytes=1, isolation_level=READ_COMMITTED)
    assert aborted(first_batch) == [(7, 0)], "the others begin behind what is returned"
    assert aborted(client.fetch("orders", 10, isolation_level=READ_COMMITTED)) == [(7, 0), (8, 3), (10, 12)]
    assert aborted(client.fetch("orders", 12, isolation_level=READ_COMMITTED)) == [(10, 12)]
    assert aborted(client.fetch("orders", 16, isolation_level=READ_COMMITTED)) == []


def test_offsets_of_what_is_not_decided_are_not_told(broker: Broker, client: RawClient) -> None:
    before_ms = now_ms()
    write(broker, 7)
    assert [offset_at(client, LATEST, isolation) for isolation in (0, READ_COMMITTED)] == [3, 0]
    assert [offset_at(client, before_ms - 1, isolation) for isolation in (0, READ_COMMITTED)] == [0, -1]
    end(broker, 7, is_committed=True)
    assert [offset_at(client, LATEST, isolation) for isolation in (0, READ_COMMITTED)] == [4, 4]
    assert offset_at(client, before_ms - 1) == 0
