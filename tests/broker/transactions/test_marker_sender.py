"""Markers reach the leaders of their partitions, whoever leads, and count once they are committed there."""

import pytest

from barnabas.base.promise import Promise, resolved
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.transactions.brokers import Brokers
from barnabas.broker.transactions.markers.sender import MarkerSender
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import changes_between
from barnabas.storage.transactions.marker import TransactionMarker
from tests.broker.transactions.scripted_broker import Asked, ScriptedBroker
from tests.broker.transactions.stage import US, image_of
from tests.fakes import FakeReport
from tests.simulation.world import World

E = ErrorCode
THEM = 2


class Written:
    """The markers of partitions that are led here."""

    def __init__(self) -> None:
        self.markers: list[tuple[str, TransactionMarker]] = []
        self.answer: Promise[None] = resolved(None)

    def write(self, partition: TopicPartition, marker: TransactionMarker) -> Promise[None]:
        self.markers.append((partition.topic, marker))
        return self.answer


class Scene:
    def __init__(self, **leaders: int) -> None:
        self.world = World(1)
        environment = self.world.machine("broker-1").start().environment
        self.them = ScriptedBroker(self.world, THEM)
        self.image = image_of(*leaders.items(), brokers=(US, THEM))
        self.here = Written()
        self.report = FakeReport()
        brokers = Brokers(environment, Buffers(), lambda: self.image, node_id=US, listener="PLAINTEXT")
        self.sender = MarkerSender(brokers, self.here, self.report)

    def send(self, transactional_id: str, *topics: str, producer_id: int = 7) -> Promise[None]:
        partitions = frozenset(TopicPartition(topic, 0) for topic in topics)
        return self.sender.send(TransactionMarkers(transactional_id, producer_id, 3, 5, True, 2, partitions))

    def settle(self, *promises: Promise[None]) -> None:
        self.world.scheduler.run_until_true(
            lambda: all(promise.done for promise in promises), within_ms=40_000, what="all markers are written"
        )

    def lead(self, **leaders: int) -> None:
        before, self.image = self.image, image_of(*leaders.items(), brokers=(US, THEM))
        self.sender.apply(changes_between(before, self.image))


def named(asked: Asked) -> list[tuple[int, list[str]]]:
    return [(marker.producer_id, [topic.name for topic in marker.topics]) for marker in asked.request.markers]


def answer(asked: Asked, **codes: ErrorCode) -> None:
    """Answers the markers of each topic with a code."""
    asked.answer(
        WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=codes.get(topic.name, E.NONE)
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in asked.request.markers
            ]
        )
    )


def test_what_is_led_here_is_written_in_the_same_turn() -> None:
    scene = Scene(orders=US, bills=US)
    assert scene.send("mover", "orders", "bills").done
    marker = TransactionMarker(7, 3, 5, True, 2)
    assert scene.here.markers == [("bills", marker), ("orders", marker)]


def test_partitions_are_left_until_they_have_their_marker() -> None:
    scene = Scene(orders=THEM, bills=US)
    assert scene.sender.left("mover") is None
    sent = scene.send("mover", "orders", "bills")
    assert scene.sender.left("mover") == frozenset({TopicPartition("orders", 0)})
    answer(scene.them.next())
    scene.settle(sent)
    assert scene.sender.left("mover") is None


def test_the_markers_of_many_transactions_travel_in_one_request() -> None:
    scene = Scene(orders=THEM, bills=THEM)
    one, other = scene.send("one", "orders", "bills"), scene.send("other", "orders", producer_id=8)
    asked = scene.them.next()
    assert (named(asked), asked.version) == ([(7, ["bills", "orders"]), (8, ["orders"])], 2)
    assert {(m.producer_epoch, m.coordinator_epoch, m.transaction_version) for m in asked.request.markers} == {
        (3, 5, 2)
    }
    waiting = scene.send("waiting", "orders", producer_id=9)
    answer(asked)
    scene.settle(one, other)
    assert named(scene.them.next()) == [(9, ["orders"])], "it waited for the answer"
    answer(scene.them.next())
    scene.settle(waiting)


@pytest.mark.parametrize(
    "code",
    [
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.REQUEST_TIMED_OUT,
        E.KAFKA_STORAGE_ERROR,
        E.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_is_not_written_is_sent_again(code: ErrorCode) -> None:
    scene = Scene(orders=THEM, bills=THEM)
    sent = scene.send("mover", "orders", "bills")
    answer(scene.them.next(), orders=code)
    assert named(scene.them.next()) == [(7, ["orders"])], "the other one is done"
    answer(scene.them.next())
    scene.settle(sent)
    assert bool(scene.report.lines) == (code == E.UNKNOWN_SERVER_ERROR), "only what nobody expects is told"


@pytest.mark.parametrize("code", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_where_a_newer_coordinator_acts_no_more_is_sent(code: ErrorCode) -> None:
    scene = Scene(orders=THEM, bills=-1)
    sent = scene.send("mover", "orders", "bills")
    answer(scene.them.next(), orders=code)
    scene.settle(sent)
    assert isinstance(sent.error, KafkaError)
    assert sent.error.code == code
    scene.lead(orders=THEM, bills=US)
    scene.world.scheduler.run_for(1_000)
    assert scene.here.markers == []


def test_a_marker_follows_its_partition_to_another_leader() -> None:
    scene = Scene(orders=THEM)
    sent = scene.send("mover", "orders")
    scene.them.next()
    scene.them.kill()
    scene.lead(orders=US)
    scene.settle(sent)
    assert [topic for topic, _ in scene.here.markers] == ["orders"]


def test_a_partition_without_a_leader_waits_for_one() -> None:
    scene = Scene(orders=-1)
    sent = scene.send("mover", "orders")
    scene.world.scheduler.run_for(1_000)
    assert not sent.done
    scene.lead(orders=US)
    scene.world.scheduler.run_for(1)
    assert sent.done, "it does not wait for the next attempt"


def test_a_partition_that_is_gone_needs_no_marker() -> None:
    scene = Scene(orders=-1)
    assert scene.send("mover", "gone").done
    sent = scene.send("mover", "orders")
    scene.lead()
    scene.settle(sent)
    assert sent.error is None


def test_what_is_forgotten_is_sent_no_more() -> None:
    scene = Scene(orders=THEM, bills=-1)
    sent = scene.send("mover", "orders", "bills")
    scene.them.next()
    scene.sender.forget({"mover"})
    answer(scene.them.next())
    scene.lead(orders=THEM, bills=US)
    scene.world.scheduler.run_for(1_000)
    assert (sent.done, scene.here.markers) == (False, [])


def test_a_decision_that_is_found_again_takes_the_place_of_the_first() -> None:
    scene = Scene(orders=THEM)
    first = scene.send("mover", "orders")
    second = scene.send("mover", "orders")
    answer(scene.them.next())
    scene.settle(second)
    assert (first.done, len(scene.them.asked)) == (False, 1)


def test_a_transaction_without_partitions_is_complete() -> None:
    assert Scene().send("mover").done


def test_a_broker_that_stops_sends_no_more() -> None:
    scene = Scene(orders=THEM, bills=-1)
    sent = scene.send("mover", "orders", "bills")
    scene.them.next()
    scene.sender.close()
    scene.lead(orders=US, bills=US)
    scene.world.scheduler.run_for(1_000)
    assert (sent.done, scene.here.markers) == (False, [])
