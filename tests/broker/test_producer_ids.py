from typing import Any

from barnabas.broker.controller_shell import ControllerShell
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.promise import Promise
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.replication.cluster_control import ProducerIdBlock


class SlowController(ControllerShell):
    """Answers when it is told to."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: list[Promise[Any]] = []

    def submit(self, decide: Any) -> Promise[Any]:
        self.asked.append(Promise())
        return self.asked[-1]


def taken(producer_ids: ProducerIds, count: int) -> list[Promise[int]]:
    return [producer_ids.next() for _ in range(count)]


def test_ids_wait_for_a_block_and_are_given_in_order() -> None:
    controller = SlowController()
    waiting = taken(ids := ProducerIds(1, 5, controller), 3)
    assert [promise.done for promise in waiting] == [False] * 3
    assert len(controller.asked) == 1, "one question for all who wait"
    controller.asked[0].resolve(ProducerIdBlock(1_000, 1_000))
    assert [promise.value for promise in waiting] == [1_000, 1_001, 1_002]
    assert ids.next().value == 1_003


def test_a_block_that_is_used_up_is_followed_by_the_next() -> None:
    controller = SlowController()
    waiting = taken(ProducerIds(1, 5, controller), 5)
    controller.asked[0].resolve(ProducerIdBlock(0, 3))
    assert [promise.value for promise in waiting if promise.done] == [0, 1, 2]
    controller.asked[1].resolve(ProducerIdBlock(7_000, 3))
    assert [promise.value for promise in waiting] == [0, 1, 2, 7_000, 7_001]
    assert len(controller.asked) == 2


def test_those_who_wait_are_told_when_there_is_no_block_and_the_next_may_try_again() -> None:
    controller = SlowController()
    ids = ProducerIds(1, 5, controller)
    waiting = taken(ids, 2)
    error = KafkaError("the epoch is stale", ErrorCode.STALE_BROKER_EPOCH)
    controller.asked[0].fail(error)
    assert [promise.error for promise in waiting] == [error, error]
    later = ids.next()
    controller.asked[1].resolve(ProducerIdBlock(0, 1_000))
    assert later.value == 0
