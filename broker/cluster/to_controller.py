"""Hands requests to the active controller, wherever it is: in this process, or on another node.

Rules:
- What a broker says for itself (its registration, its heartbeats) travels as it is. What a client asked for is
  forwarded whole, in an Envelope with the client's principal and address (KIP-590).
- A request that met no active controller, or whose connection broke, is sent again until its time is over. So it may be
  carried out twice, as with Kafka: the second time it is answered as a request is that changes nothing.
- A connection may be dead without having told anybody. So an attempt of what a broker says for itself takes half of its
  session at most, and leaves time for another.
- A connection that breaks is this broker's link (`liveness.py`, rule 3): the broker reports at once on the next one,
  before the controller can take it for dead.
"""

from collections.abc import Callable
from typing import Any

from barnabas.base.environment import Environment
from barnabas.base.network import Address
from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.buffers import Buffers
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.quorum_controller import QuorumController, not_controller

TIMEOUT_MS = 30_000
_RETRY_MS = (0, 20, 50)
"""The pauses before the first attempts are repeated; the last stays."""
_CONNECTING_MS = 2_000
_RETRIABLE = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT))
_OWN = frozenset(
    (
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
    )
)
"""What a broker or a controller asks for itself."""


class _Pending:
    __slots__ = ("attempts", "context", "deadline_ms", "promise", "request")

    def __init__(self, request: Any, context: ControllerRequestContext, deadline_ms: int) -> None:
        self.request = request
        self.context = context
        self.deadline_ms = deadline_ms
        self.promise: Promise[Any] = Promise()
        self.attempts = 0


class ToController:
    def __init__(
        self, quorum: QuorumController, environment: Environment, buffers: Buffers, config: BrokerConfig
    ) -> None:
        self._quorum = quorum
        self._environment = environment
        self._clock = environment.clock
        self._buffers = buffers
        self._node_id = config.node_id
        self._own_attempt_ms = config.broker_session_timeout_ms // 2
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the connection to the controller has broken."""
        self.lost = 0
        """How often it has."""
        self._client: Any = None
        """The connection to the controller, a PeerClient. A node that has the controller itself needs none."""
        self._waiting: list[_Pending] = []
        self._is_closed = False
        quorum.on_change(self._on_change)

    def submit(self, request: Any, context: ControllerRequestContext) -> Promise[Any]:
        """Returns a promise of the response that belongs to the type of `request`."""
        if not context.may_forward:
            return self._quorum.submit(request, context)
        pending = self._pending(request, context)
        self._try(pending)
        return pending.promise

    def _pending(self, request: Any, context: ControllerRequestContext) -> _Pending:
        is_heartbeat = request.__api_key__ == ApiKey.BROKER_HEARTBEAT
        timeout_ms = self._own_attempt_ms if is_heartbeat else TIMEOUT_MS
        return _Pending(request, context, self._clock.monotonic_ms() + timeout_ms)

    # ---- attempts

    def _try(self, pending: _Pending) -> None:
        if pending.promise.done:
            return
        if self._is_closed:
            return pending.promise.fail(not_controller())
        if self._clock.monotonic_ms() >= pending.deadline_ms:
            return pending.promise.fail(KafkaError("No controller answered in time.", ErrorCode.REQUEST_TIMED_OUT))
        if self._quorum.is_active:
            answer = self._quorum.submit(pending.request, pending.context)
        else:
            leader_id, _epoch, address = self._quorum.driver.leader
            if leader_id in (-1, self._node_id) or address is None:
                return self._wait(pending)
            answer = self._send(pending, Address(address.host, address.port))
        answer.when_done(lambda answered: self._answered(pending, answered))

    def _answered(self, pending: _Pending, answer: Promise[Any]) -> None:
        if answer.error is None:
            pending.promise.resolve(answer.value)
        elif _is_retriable(answer.error) and self._clock.monotonic_ms() < pending.deadline_ms and not self._is_closed:
            self._wait(pending)
        else:
            pending.promise.fail(answer.error)

    def _wait(self, pending: _Pending) -> None:
        self._waiting.append(pending)
        pause_ms = _RETRY_MS[min(pending.attempts, len(_RETRY_MS) - 1)]
        pending.attempts += 1
        self._clock.call_later(pause_ms, self._wake, pending)

    def _wake(self, pending: _Pending) -> None:
        if pending in self._waiting:
            self._waiting.remove(pending)
            self._try(pending)

    def _on_change(self) -> None:
        """Tries at once what waits for a controller: there is another one. Not inside the quorum's own turn."""
        self._clock.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._leave_old_controller()
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            self._try(pending)

    def _leave_old_controller(self) -> None:
        """Gives up what was sent to a controller that another has replaced: it may be cut off, and silent for long."""
        leader_id, _epoch, address = self._quorum.driver.leader
        if self._client is None or leader_id == -1 or address is None:
            return
        if leader_id == self._node_id or self._client.address != Address(address.host, address.port):
            client, self._client = self._client, None
            client.close()

    # ---- the wire

    def _send(self, pending: _Pending, address: Address) -> Promise[Any]:
        from barnabas.broker.network.forwarding import send_as_it_is, send_in_envelope

        client = self._client_of(address)
        timeout_ms = max(1, pending.deadline_ms - self._clock.monotonic_ms())
        if pending.request.__api_key__ in _OWN:
            return send_as_it_is(client, pending.request, min(timeout_ms, self._own_attempt_ms))
        return send_in_envelope(client, pending.request, pending.context, timeout_ms)

    def _client_of(self, address: Address) -> Any:
        from barnabas.broker.network.peer_client import PeerClient, PeerSettings

        if self._client is None or self._client.address != address:
            if self._client is not None:
                self._client.close()
            settings = PeerSettings(
                connection_setup_timeout_ms=_CONNECTING_MS, reconnect_backoff_ms=20, reconnect_backoff_max_ms=500
            )
            client_id = f"node-{self._node_id}-to-controller"
            self._client = PeerClient(address, self._environment, self._buffers, client_id=client_id, settings=settings)
            self._client.on_lost = self._on_lost
        return self._client

    def _on_lost(self) -> None:
        self.lost += 1
        self.on_lost()

    def close(self) -> None:
        """Gives up what waits."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, []
        for pending in waiting:
            pending.promise.fail(not_controller())
        if self._client is not None:
            self._client.close()


def _is_retriable(error: Exception) -> bool:
    return isinstance(error, KafkaError) and error.code in _RETRIABLE
