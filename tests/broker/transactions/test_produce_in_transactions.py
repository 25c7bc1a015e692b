"""Produce and WriteTxnMarkers in transactions, on brokers that coordinate them and on those that do not."""

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from barnabas.testing import Cluster
from tests.broker.transactions.calls import end, init
from tests.broker.wire import CutOff, RawClient, Sent, good, values_of

E = ErrorCode
READ_COMMITTED = 1
VALUES = [b"value-0", b"value-1", b"value-2"]
TOPIC = "orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"transaction.state.log.num.partitions": "1", "default.replication.factor": "1"}
    with Cluster({TOPIC: 3}, config) as cluster:
        with RawClient(cluster[1].port) as client:
            assert client.call(FindCoordinatorRequest(key="any", key_type=1), 3).error_code == E.NONE
        yield cluster


class Place:
    """A partition that is written to, with connections to its leader and to the coordinator."""

    def __init__(self, cluster: Cluster, name: str, *, is_coordinator: bool) -> None:
        coordinator = cluster.leader(TRANSACTION_STATE_TOPIC, java_hash(name) % 1)
        assert coordinator is not None
        self.name = name
        self.partition = next(
            index for index in range(3) if (cluster.leader(TOPIC, index) == coordinator) is is_coordinator
        )
        leader = cluster.leader(TOPIC, self.partition)
        assert leader is not None
        self.coordinator = RawClient(cluster[coordinator].port)
        self.leader = RawClient(cluster[leader].port)
        self.start: int = self.leader.list_offset(TOPIC, -1, partition=self.partition).offset

    @property
    def end(self) -> int:
        """Where the reading of what is committed ends."""
        data = self.leader.fetch(TOPIC, self.start, partition=self.partition, isolation_level=READ_COMMITTED)
        return data.last_stable_offset

    def init(self) -> Any:
        producer = init(self.coordinator, self.name)
        assert producer.error_code == E.NONE
        return producer

    def request(self, producer: Any, sequence: int = 0, *, acks: int = -1) -> ProduceRequest:
        sent = Sent(producer.producer_id, producer.producer_epoch, sequence)
        data = PartitionProduceData(index=self.partition, records=good(sent=sent, transactional=True))
        return ProduceRequest(
            transactional_id=self.name,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )

    def produce(self, producer: Any, sequence: int = 0, *, version: int = 12) -> tuple[ErrorCode, int]:
        return outcome(self.leader.call(self.request(producer, sequence), version))

    def committed(self) -> list[bytes | None]:
        """The records and markers that can be read from where this place began."""
        offset, values = self.start, list[bytes | None]()
        while offset < self.end:
            data = self.leader.fetch(TOPIC, offset, partition=self.partition, isolation_level=READ_COMMITTED)
            aborted = {transaction.producer_id for transaction in data.aborted_transactions or ()}
            assert not aborted, "what is aborted has another test"
            values += [value for value in values_of(data) if value in VALUES]
            offset = data.last_stable_offset
        return values


@pytest.fixture(params=[True, False], ids=["its own coordinator", "another's"])
def place(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(cluster, f"mover-{abs(hash(request.node.name))}", is_coordinator=request.param)
    with place.coordinator, place.leader:
        yield place


def outcome(response: Any) -> tuple[ErrorCode, int]:
    partition = response.responses[0].partition_responses[0]
    return ErrorCode(partition.error_code), partition.base_offset


def test_what_a_new_client_writes_is_added_to_its_transaction(place: Place) -> None:
    producer = place.init()
    assert place.produce(producer) == (E.NONE, place.start)
    assert place.end == place.start, "nothing is committed so far"
    producer = end(place.coordinator, place.name, producer)
    assert producer.error_code == E.NONE
    assert place.produce(producer)[0] == E.NONE, "the next transaction begins at once"
    assert end(place.coordinator, place.name, producer).error_code == E.NONE
    while place.end < place.start + 8:
        pass
    assert place.committed() == VALUES * 2


def test_pipelined_batches_are_appended_in_their_order(place: Place) -> None:
    producer = place.init()
    for sequence in range(0, 30, 3):
        place.leader.send(place.request(producer, sequence), 12)
    outcomes = [outcome(place.leader.receive()) for _ in range(10)]
    assert outcomes == [(E.NONE, place.start + offset) for offset in range(0, 30, 3)]
    assert end(place.coordinator, place.name, producer, committed=False).error_code == E.NONE


@pytest.mark.parametrize(("version", "told"), [(9, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)])
def test_an_old_client_has_to_add_its_partitions_first(place: Place, version: int, told: ErrorCode) -> None:
    assert place.produce(place.init(), version=version)[0] == told


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_producer_that_was_fenced_hears_of_its_epoch(place: Place, version: int) -> None:
    first = place.init()
    place.init()
    assert place.produce(first, version=version)[0] == E.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [9, 11, 12])
def test_a_producer_that_nobody_knows_is_refused(place: Place, version: int) -> None:
    assert place.produce(Sent(987_654, 0), version=version)[0] == E.INVALID_PRODUCER_ID_MAPPING


def test_a_request_is_of_one_producer(place: Place) -> None:
    producer = place.init()
    request = place.request(producer)
    other = good(sent=Sent(producer.producer_id + 1, 0, 0), transactional=True)
    request.topic_data[0].partition_data = [
        *request.topic_data[0].partition_data,
        PartitionProduceData(index=(place.partition + 1) % 3, records=other),
    ]
    answered = place.leader.call(request, 12).responses[0].partition_responses
    assert [partition.error_code for partition in answered] == [E.INVALID_PRODUCER_ID_MAPPING] * 2


def test_without_acknowledgement_nothing_is_answered_and_a_refusal_ends_the_connection(place: Place) -> None:
    producer = place.init()
    place.leader.socket.sendall(place.leader.frame(place.request(producer, acks=0), 12))
    place.leader._expected.pop()
    assert place.produce(producer, 3) == (E.NONE, place.start + 3)
    assert end(place.coordinator, place.name, producer, committed=False).error_code == E.NONE
    place.leader.send(place.request(Sent(987_654, 0), acks=0), 12)
    with pytest.raises(CutOff):
        place.leader.receive()


# ---- markers


def markers(topic: str, partition: int, producer: Any, *, coordinator_epoch: int = 0) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def code_of(response: Any) -> ErrorCode:
    return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [1, 2])
def test_a_tool_can_end_a_transaction_on_a_partition(place: Place, version: int) -> None:
    producer = place.init()
    assert place.produce(producer)[0] == E.NONE
    assert code_of(place.leader.call(markers(TOPIC, place.partition, producer), version)) == E.NONE
    assert place.end == place.start + 4
    data = place.leader.fetch(TOPIC, place.start, partition=place.partition, isolation_level=READ_COMMITTED)
    aborted = [(transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or ()]
    assert aborted == [(producer.producer_id, place.start)]
    assert end(place.coordinator, place.name, producer, committed=False).error_code == E.NONE


def test_a_marker_of_a_former_coordinator_is_refused(place: Place) -> None:
    producer = place.init()
    assert code_of(place.leader.call(markers(TOPIC, place.partition, producer, coordinator_epoch=9))) == E.NONE
    late = markers(TOPIC, place.partition, producer, coordinator_epoch=8)
    assert code_of(place.leader.call(late)) == E.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_for_a_partition_that_is_not_led_here_is_refused(place: Place, cluster: Cluster) -> None:
    producer = place.init()
    assert code_of(place.leader.call(markers("nowhere", 0, producer))) == E.UNKNOWN_TOPIC_OR_PARTITION
    elsewhere = next(
        index for index in range(3) if cluster.leader(TOPIC, index) != cluster.leader(TOPIC, place.partition)
    )
    assert code_of(place.leader.call(markers(TOPIC, elsewhere, producer))) == E.NOT_LEADER_OR_FOLLOWER


def test_markers_of_one_producer_are_answered_together(place: Place) -> None:
    producer = place.init()
    request = markers(TOPIC, place.partition, producer)
    request.markers = [*request.markers, *markers("nowhere", 3, producer).markers]
    (answered,) = place.leader.call(request).markers
    assert {topic.name: topic.partitions[0].error_code for topic in answered.topics} == {
        TOPIC: E.NONE,
        "nowhere": E.UNKNOWN_TOPIC_OR_PARTITION,
    }
