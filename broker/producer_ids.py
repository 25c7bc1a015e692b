"""Producer ids: never the same twice in a cluster, so they come from the controller, a block at a time (KIP-730)."""

from collections import deque

from barnabas.base.promise import Promise, resolved
from barnabas.broker.cluster.lifecycle import BrokerLifecycle
from barnabas.protocol.errors import CoordinatorLoadInProgress
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.replication.controller.channel import ControllerChannel, own_context


class ProducerIds:
    __slots__ = ("_controller", "_end", "_is_asking", "_lifecycle", "_next", "_waiting")

    def __init__(self, lifecycle: BrokerLifecycle, controller: ControllerChannel) -> None:
        self._lifecycle = lifecycle
        self._controller = controller
        self._next = self._end = 0
        self._waiting: deque[Promise[None]] = deque()
        self._is_asking = False

    def next(self) -> Promise[int]:
        return self.when_at_hand().map(lambda _: self.take())

    def when_at_hand(self) -> Promise[None]:
        """Returns a promise that is kept when there is an id to take."""
        if self._next < self._end:
            return resolved(None)
        promise: Promise[None] = Promise()
        self._waiting.append(promise)
        self._ask()
        return promise

    def take(self) -> int:
        """Returns an id that is at hand. Raises CoordinatorLoadInProgress if there is none, and asks for more."""
        if self._next == self._end:
            self._ask()
            raise CoordinatorLoadInProgress("no producer id is at hand: the controller is asked for more")
        producer_id, self._next = self._next, self._next + 1
        return producer_id

    def _ask(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            lifecycle = self._lifecycle
            request = AllocateProducerIdsRequest(broker_id=lifecycle.node_id, broker_epoch=lifecycle.broker_epoch)
            self._controller.submit(request, own_context(request)).when_done(self._on_block)

    def _on_block(self, answer: Promise[AllocateProducerIdsResponse]) -> None:
        self._is_asking = False
        if answer.error is not None:
            waiting, self._waiting = self._waiting, deque()
            for promise in waiting:
                promise.fail(answer.error)
            return
        block = answer.value
        self._next, self._end = block.producer_id_start, block.producer_id_start + block.producer_id_len
        while self._waiting and self._next < self._end:
            self._waiting.popleft().resolve(None)
        if self._waiting:
            self._ask()
