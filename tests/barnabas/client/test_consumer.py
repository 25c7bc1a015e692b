"""The consumer of the command line, while partitions move and records go."""

from collections.abc import Iterator

import pytest

from barnabas.client.client import Client
from barnabas.client.connection import parse_addresses
from barnabas.client.consumer import Consumer, Position
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.testing import Cluster
from tests.broker.wire import RawClient, good, produce_request


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster({"orders": 3}, brokers=3, config={"default.replication.factor": "1"}) as cluster:
        yield cluster


def leader(cluster: Cluster, partition: int) -> int:
    found = cluster.leader("orders", partition)
    assert found is not None
    return found


def produce(cluster: Cluster, partition: int) -> None:
    """Appends three records."""
    with RawClient(cluster[leader(cluster, partition)].port) as client:
        answer = client.call(produce_request("orders", {partition: good()}), 12)
        assert answer.responses[0].partition_responses[0].error_code == 0


def move(cluster: Cluster, partition: int, to: int) -> None:
    moved = [ReassignablePartition(partition_index=partition, replicas=[to])]
    cluster._ask_controller(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=moved)])
    )
    cluster._nodes.runtime.wait_until(
        lambda: cluster._nodes.partition("orders", partition).replicas == (to,), "the replica did not move"
    )


def delete(cluster: Cluster, partition: int, offset: int) -> None:
    asked = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    with RawClient(cluster[leader(cluster, partition)].port) as client:
        topics = [DeleteRecordsTopic(name="orders", partitions=asked)]
        client.call(DeleteRecordsRequest(topics=topics, timeout_ms=10_000))


def test_a_replica_that_moves_away_is_followed(cluster: Cluster) -> None:
    produce(cluster, 0)
    with Client(parse_addresses(cluster.bootstrap_servers)) as client:
        consumer = Consumer(client, client.topic("orders"), {0: Position(0, None)})
        batches = consumer.batches()
        assert [consumed.record.offset for consumed in next(batches)] == [0, 1, 2]
        move(cluster, 0, to=leader(cluster, 0) % 3 + 1)
        produce(cluster, 0)
        found: list[int] = []
        while not found:
            found += [consumed.record.offset for consumed in next(batches)]
        assert found == [3, 4, 5]


def test_records_that_go_while_other_leaders_answer_are_skipped(cluster: Cluster) -> None:
    skipped: list[tuple[int, int, int]] = []
    for partition in range(3):
        produce(cluster, partition)
        delete(cluster, partition, 2)
    with Client(parse_addresses(cluster.bootstrap_servers)) as client:
        positions = {partition: Position(0, 3) for partition in range(3)}
        consumer = Consumer(client, client.topic("orders"), positions, on_skip=lambda *where: skipped.append(where))
        found = [(each.partition, each.record.offset) for batch in consumer.batches() for each in batch]
    assert sorted(found) == [(0, 2), (1, 2), (2, 2)]
    assert sorted(skipped) == [(0, 0, 2), (1, 0, 2), (2, 0, 2)]
