"""Questions to coordinators on other brokers: batched, one request at a time, each answered for itself."""

import pytest

from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.transactions.brokers import Brokers
from barnabas.broker.transactions.remote_coordinators import Outcome, RemoteCoordinators
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.types import TopicPartition
from tests.broker.transactions.scripted_broker import REQUESTS, Asked, ScriptedBroker
from tests.broker.transactions.stage import US, image_of
from tests.simulation.world import World

E = ErrorCode
THEM = 2
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 3)


class Scene:
    def __init__(self, *, serves: dict[int, object] = REQUESTS) -> None:
        self.world = World(1)
        environment = self.world.machine("broker-1").start().environment
        self.them = ScriptedBroker(self.world, THEM, serves=serves)
        self.image = image_of(brokers=(US, THEM))
        brokers = Brokers(environment, Buffers(), lambda: self.image, node_id=US, listener="PLAINTEXT")
        self.coordinators = RemoteCoordinators(brokers)

    def ask(
        self, transactional_id: str, *partitions: TopicPartition, epoch: int = 0, verify_only: bool = True
    ) -> Promise[Outcome]:
        asked = partitions or (ORDERS,)
        return self.coordinators.ask(THEM, transactional_id, 7, epoch, asked, verify_only=verify_only)

    def settle(self, *promises: Promise[Outcome]) -> None:
        done = lambda: all(promise.done for promise in promises)  # noqa: E731 - a sentence
        self.world.scheduler.run_until_true(done, within_ms=40_000, what="all are answered")


def ids_of(asked: Asked) -> list[str]:
    return [transaction.transactional_id for transaction in asked.request.transactions]


def answer(asked: Asked, **codes: ErrorCode) -> None:
    """Answers each transactional id with one code for all its partitions."""
    asked.answer(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=codes.get(transaction.transactional_id, E.NONE),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in asked.request.transactions
            ]
        )
    )


def test_what_is_asked_in_one_turn_travels_in_one_request() -> None:
    scene = Scene()
    one, other = scene.ask("one", ORDERS, BILLS), scene.ask("other", verify_only=False)
    asked = scene.them.next()
    assert (ids_of(asked), asked.version) == (["one", "other"], 5)
    assert [transaction.verify_only for transaction in asked.request.transactions] == [True, False]
    answer(asked, one=E.TRANSACTION_ABORTABLE)
    scene.settle(one, other)
    assert one.value == {ORDERS: E.TRANSACTION_ABORTABLE, BILLS: E.TRANSACTION_ABORTABLE}
    assert other.value == {ORDERS: E.NONE}


def test_what_is_asked_while_a_request_is_in_flight_travels_in_the_next() -> None:
    scene = Scene()
    first = scene.ask("one")
    asked = scene.them.next()
    others = [scene.ask("two"), scene.ask("three")]
    answer(asked)
    scene.settle(first)
    asked = scene.them.next()
    assert ids_of(asked) == ["two", "three"]
    answer(asked)
    scene.settle(*others)


def test_two_questions_of_one_producer_travel_one_after_the_other() -> None:
    """A request has room for one of them, and neither is worth an error."""
    scene = Scene()
    one, other = scene.ask("mover", ORDERS), scene.ask("mover", BILLS)
    answer(scene.them.next())
    scene.settle(one)
    asked = scene.them.next()
    assert [topic.name for topic in asked.request.transactions[0].topics] == ["bills"]
    answer(asked, mover=E.CONCURRENT_TRANSACTIONS)
    scene.settle(other)
    assert (one.value, other.value) == ({ORDERS: E.NONE}, {BILLS: E.CONCURRENT_TRANSACTIONS})


def test_of_two_epochs_that_wait_the_newer_one_is_asked_for() -> None:
    scene = Scene()
    scene.ask("another")
    scene.them.next()
    middle = scene.ask("mover", epoch=5)
    older, newer = scene.ask("mover", epoch=4), scene.ask("mover", epoch=6)
    scene.settle(older, middle)
    assert (older.value, middle.value) == ({ORDERS: E.INVALID_PRODUCER_EPOCH},) * 2
    answer(scene.them.next())
    asked = scene.them.next()
    assert [transaction.producer_epoch for transaction in asked.request.transactions] == [6]
    answer(asked)
    scene.settle(newer)
    assert newer.value == {ORDERS: E.NONE}


def test_a_broker_that_dies_answers_with_a_network_exception() -> None:
    scene = Scene()
    one = scene.ask("one")
    scene.them.next()
    waiting = scene.ask("two")
    scene.them.kill()
    scene.settle(one, waiting)
    assert (one.value, waiting.value) == ({ORDERS: E.NETWORK_EXCEPTION},) * 2


def test_a_broker_that_nobody_knows_coordinates_nothing() -> None:
    scene = Scene()
    scene.image = image_of()
    one = scene.ask("one")
    scene.settle(one)
    assert one.value == {ORDERS: E.COORDINATOR_NOT_AVAILABLE}


def test_a_broker_that_cannot_be_asked_is_not_taken_for_one_that_agrees() -> None:
    scene = Scene(serves={ApiKey.API_VERSIONS: REQUESTS[ApiKey.API_VERSIONS]})
    one = scene.ask("one")
    scene.settle(one)
    assert one.value == {ORDERS: E.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (E.CLUSTER_AUTHORIZATION_FAILED, E.INVALID_TXN_STATE),  # of this broker, and not of its client
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_request_that_is_refused_as_a_whole_is_refused_for_each(refused: ErrorCode, told: ErrorCode) -> None:
    scene = Scene()
    one, other = scene.ask("one"), scene.ask("other", BILLS)
    scene.them.next().answer(AddPartitionsToTxnResponse(error_code=refused))
    scene.settle(one, other)
    assert (one.value, other.value) == ({ORDERS: told}, {BILLS: told})


def test_what_an_answer_leaves_out_is_not_verified() -> None:
    scene = Scene()
    one = scene.ask("one")
    scene.them.next().answer(AddPartitionsToTxnResponse())
    scene.settle(one)
    assert one.value == {ORDERS: E.COORDINATOR_NOT_AVAILABLE}


def test_a_broker_that_stops_answers_everybody() -> None:
    scene = Scene()
    in_flight = scene.ask("one")
    scene.them.next()
    waiting = scene.ask("two")
    scene.coordinators.close()
    late = scene.ask("three")
    scene.settle(in_flight, waiting, late)
    assert in_flight.value == {ORDERS: E.NETWORK_EXCEPTION}
    assert (waiting.value, late.value) == ({ORDERS: E.COORDINATOR_NOT_AVAILABLE},) * 2
