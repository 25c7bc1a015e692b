import pytest

from barnabas.base.promise import Promise
from barnabas.broker.cluster.lifecycle import BrokerLifecycle
from barnabas.broker.producer_ids import ProducerIds
from barnabas.protocol.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse
from barnabas.replication.metadata.image import empty_image
from tests.broker.slow_controller import SlowController
from tests.fakes import FakeClock, FakeReport


def producer_ids_of(controller: SlowController) -> ProducerIds:
    lifecycle = BrokerLifecycle(1, controller, FakeClock(), FakeReport(), lambda: empty_image("a cluster"))
    lifecycle.broker_epoch = 5
    return ProducerIds(lifecycle, controller)


def block(first: int, count: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=0, producer_id_start=first, producer_id_len=count)


def taken(producer_ids: ProducerIds, count: int) -> list[Promise[int]]:
    return [producer_ids.next() for _ in range(count)]


def test_ids_wait_for_a_block_and_are_given_in_order() -> None:
    controller = SlowController()
    waiting = taken(ids := producer_ids_of(controller), 3)
    assert [promise.done for promise in waiting] == [False] * 3
    (request,) = controller.requests  # one question for all who wait
    assert (request.broker_id, request.broker_epoch) == (1, 5)
    controller.asked[0].resolve(block(1_000, 1_000))
    assert [promise.value for promise in waiting] == [1_000, 1_001, 1_002]
    assert ids.next().value == 1_003


def test_a_block_that_is_used_up_is_followed_by_the_next() -> None:
    controller = SlowController()
    waiting = taken(producer_ids_of(controller), 5)
    controller.asked[0].resolve(block(0, 3))
    assert [promise.value for promise in waiting if promise.done] == [0, 1, 2]
    controller.asked[1].resolve(block(7_000, 3))
    assert [promise.value for promise in waiting] == [0, 1, 2, 7_000, 7_001]
    assert len(controller.asked) == 2


def test_those_who_wait_are_told_when_there_is_no_block_and_the_next_may_try_again() -> None:
    controller = SlowController()
    ids = producer_ids_of(controller)
    waiting = taken(ids, 2)
    error = KafkaError("the epoch is stale", ErrorCode.STALE_BROKER_EPOCH)
    controller.asked[0].fail(error)
    assert [promise.error for promise in waiting] == [error, error]
    later = ids.next()
    controller.asked[1].resolve(block(0, 1_000))
    assert later.value == 0


def test_an_id_is_taken_if_there_is_one_and_otherwise_more_are_asked_for() -> None:
    controller = SlowController()
    ids = producer_ids_of(controller)
    for _ in range(2):
        with pytest.raises(CoordinatorLoadInProgress):
            ids.take()
    ready = ids.when_at_hand()
    assert len(controller.asked) == 1
    controller.asked[0].resolve(block(0, 2))
    assert ready.done
    assert ids.when_at_hand().done
    assert [ids.take(), ids.take()] == [0, 1]
    assert not ids.when_at_hand().done
    assert len(controller.asked) == 2
