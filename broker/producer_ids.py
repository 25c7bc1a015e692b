"""Producer ids: never the same twice in a cluster, so they come from the controller, a block at a time (KIP-730)."""

from collections import deque

from barnabas.broker.controller_shell import ControllerShell
from barnabas.broker.promise import Promise
from barnabas.replication.cluster_control import ProducerIdBlock


class ProducerIds:
    __slots__ = ("_broker_epoch", "_broker_id", "_controller", "_end", "_is_asking", "_next", "_waiting")

    def __init__(self, broker_id: int, broker_epoch: int, controller: ControllerShell) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._next = self._end = 0
        self._waiting: deque[Promise[int]] = deque()
        self._is_asking = False

    def next(self) -> Promise[int]:
        promise: Promise[int] = Promise()
        self._waiting.append(promise)
        self._serve()
        return promise

    def _serve(self) -> None:
        while self._waiting and self._next < self._end:
            producer_id, self._next = self._next, self._next + 1
            self._waiting.popleft().resolve(producer_id)
        if self._waiting and not self._is_asking:
            self._is_asking = True
            self._controller.submit(
                lambda controller, image: controller.allocate_producer_ids(self._broker_id, self._broker_epoch, image)
            ).when_done(self._on_block)

    def _on_block(self, promise: Promise[ProducerIdBlock]) -> None:
        self._is_asking = False
        if promise.error is not None:
            waiting, self._waiting = self._waiting, deque()
            for waits in waiting:
                waits.fail(promise.error)
            return
        block = promise.value
        self._next, self._end = block.first_producer_id, block.first_producer_id + block.size
        self._serve()
