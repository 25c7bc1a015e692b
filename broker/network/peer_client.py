"""Requests to one other broker, without blocking: brokers and controllers talk to each other through this.

Rules:
- The connection opens when the first request needs it. It begins with ApiVersions; every request then travels in the
  highest version that both sides serve.
- Requests are pipelined: responses come in their order, and their correlation ids must agree.
- A request that was sent on a connection that broke fails: it may or may not have been carried out, so the caller
  decides whether to send it again. A request that was not sent waits for the next connection, unless connecting failed.
- After a connection that worked the next one is tried at once. After one that failed there is a pause, which doubles up
  to a limit and varies at random, so that many do not come back in step.
- A request without a response in time ends its connection: later responses could only be read after its own.
- A response is handed over where it arrived: views of its bytes are dead when the callback of its promise returns.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from barnabas.base.environment import Environment, Timer
from barnabas.base.network import READ, WRITE, Address, Transport
from barnabas.base.promise import Promise, failed
from barnabas.base.version import VERSION
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.frame_reader import FrameReader
from barnabas.broker.network.send_queue import SendQueue
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.frame import decode_response, encode_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.named_tuple import NamedTuple

T = TypeVar("T")

_MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_NEGOTIATION_VERSION = 3
_EARLY_MS = 250
"""How much too early the timer of deadlines may be. It is moved now and then, and so fires only for who is late."""
_ERROR_CODE = slice(4, 6)  # of a response to ApiVersions, after the correlation id


class PeerSettings(NamedTuple):
    timeout_ms: int = 30_000
    """How long a request waits for its response, unless the request says so itself."""
    connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    max_in_flight: int = 1_000


class PeerUnavailable(KafkaError):
    """The connection broke, or none could be opened."""

    code = ErrorCode.NETWORK_EXCEPTION

    def __init__(self, message: str, *, was_sent: bool, is_refused: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        """Whether the peer may have carried the request out."""
        self.is_refused = is_refused
        """Whether the peer's machine is there and nobody listens at the address: its process is dead."""


class State(IntEnum):
    IDLE = 0
    BACKING_OFF = 1
    CONNECTING = 2
    NEGOTIATING = 3
    READY = 4
    CLOSED = 5


class _Request:
    __slots__ = ("correlation_id", "deadline_ms", "max_version", "message", "promise", "response_class", "version")

    def __init__(self, message: Any, response_class: type, max_version: int | None, deadline_ms: int) -> None:
        self.message = message
        self.response_class = response_class
        self.max_version = max_version
        self.deadline_ms = deadline_ms
        self.promise: Promise[Any] = Promise()
        self.correlation_id = -1
        self.version = -1


class PeerClient:
    def __init__(
        self,
        address: Address,
        environment: Environment,
        buffers: Buffers,
        *,
        client_id: str,
        settings: PeerSettings = PeerSettings(),  # noqa: B008 - a value
    ) -> None:
        self.address = address
        self.on_lost: Callable[[], None] | None = None
        """Called when a connection that worked has broken, after its requests have failed."""
        self._clock = environment.clock
        self._network = environment.network
        self._random = environment.random
        self._buffers = buffers
        self._client_id = client_id
        self._settings = settings
        self._state = State.IDLE
        self._transport: Transport | None = None
        self._reader: FrameReader
        self._out = SendQueue()
        self._events = 0
        self._versions: dict[int, range] = {}
        self._queued: deque[_Request] = deque()
        self._in_flight: deque[_Request] = deque()
        self._correlation_id = 0
        self._backoff_ms = 0
        self._connection_timer: Timer | None = None
        """Ends a pause, or an attempt to connect."""
        self._deadline_timer: Timer | None = None
        self._timer_due_ms = 0
        self._is_scheduled = False

    @property
    def state(self) -> State:
        return self._state

    # ---- requests

    def send(
        self,
        request: Any,
        response_class: type[T],
        *,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Promise[T]:
        """Returns a promise of the response. It fails with PeerUnavailable, with REQUEST_TIMED_OUT, or with
        UNSUPPORTED_VERSION if both sides have no version in common."""
        if self._state is State.CLOSED:
            return failed(PeerUnavailable(f"the client of {self.address} is closed", was_sent=False))
        if timeout_ms is None:
            timeout_ms = self._settings.timeout_ms
        queued = _Request(request, response_class, max_version, self._clock.monotonic_ms() + timeout_ms)
        self._queued.append(queued)
        self._expire_by(queued.deadline_ms)
        if self._state is State.IDLE:
            self._connect()
        elif self._state is State.READY:
            self._flush_later()
        return queued.promise

    def close(self) -> None:
        """Gives up the connection and every request."""
        if self._state is State.CLOSED:
            return
        self._state = State.CLOSED
        self._drop_transport()
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._fail_all(f"the client of {self.address} was closed", self._queued)

    # ---- connecting

    def _connect(self) -> None:
        self._connection_timer = None
        self._state = State.CONNECTING
        self._reader = FrameReader(self._buffers, _MAX_RESPONSE_BYTES)
        try:
            self._transport = self._network.connect(self.address)
        except OSError as error:
            self._clock.call_soon(self._disconnect, error)
            return
        self._watch(READ | WRITE)
        self._connection_timer = self._clock.call_later(
            self._settings.connection_setup_timeout_ms, self._on_setup_timeout
        )

    def _on_setup_timeout(self) -> None:
        self._connection_timer = None
        self._disconnect(TimeoutError("the connection was not set up in time"))

    def _negotiate(self) -> None:
        self._state = State.NEGOTIATING
        request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=VERSION.replace("+", "-"))
        self._correlation_id += 1
        self._out.append(encode_request(request, _NEGOTIATION_VERSION, self._correlation_id, self._client_id))

    def _negotiated(self, frame: memoryview) -> None:
        """Learns the peer's versions. A peer that does not know our ApiVersions answers its error in v0 (KIP-511)."""
        is_unsupported = frame[_ERROR_CODE] == int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
        version = 0 if is_unsupported else _NEGOTIATION_VERSION
        correlation_id, response = decode_response(ApiVersionsResponse, version, frame)
        self._check_correlation(correlation_id, self._correlation_id)
        if response.error_code and not response.api_keys:
            raise ProtocolError(f"it refuses ApiVersions with error {response.error_code}")
        self._versions = {api.api_key: range(api.min_version, api.max_version + 1) for api in response.api_keys}
        self._state = State.READY
        self._backoff_ms = 0
        if self._connection_timer is not None:
            self._connection_timer.cancel()
            self._connection_timer = None
        self._flush_later()

    def _disconnect(self, error: Exception) -> None:
        """Gives up this connection; the next attempt follows if anything waits for it."""
        if self._state is State.CLOSED:
            return
        was_ready = self._state is State.READY
        self._state = State.IDLE
        self._drop_transport()
        delay_ms = 0 if was_ready else self._next_backoff_ms()
        reason = f"{self.address}: {_reason(error)}"
        if delay_ms or self._queued:
            self._state = State.BACKING_OFF
            self._connection_timer = self._clock.call_later(delay_ms, self._pause_over)
        self._fail_all(reason, None if was_ready else self._queued, isinstance(error, ConnectionRefusedError))
        if was_ready and self.on_lost is not None:
            self.on_lost()

    def _pause_over(self) -> None:
        self._connection_timer = None
        self._state = State.IDLE
        if self._queued:
            self._connect()

    def _next_backoff_ms(self) -> int:
        settings = self._settings
        doubled_ms = max(settings.reconnect_backoff_ms, 2 * self._backoff_ms)
        self._backoff_ms = min(settings.reconnect_backoff_max_ms, doubled_ms)
        return max(1, self._backoff_ms * (80 + self._random.randrange(41)) // 100)

    def _drop_transport(self) -> None:
        if self._connection_timer is not None:
            self._connection_timer.cancel()
            self._connection_timer = None
        if self._transport is not None:
            self._transport.close()
        self._transport = None
        self._events = 0
        self._out.clear()

    def _fail_all(self, reason: str, queued: "deque[_Request] | None", is_refused: bool = False) -> None:
        """Fails the requests that were sent and, if nothing can be sent, the queued ones."""
        sent, self._in_flight = self._in_flight, deque()
        waiting: deque[_Request] = deque()
        if queued is not None:
            waiting, self._queued = self._queued, deque()
        for request in sent:
            request.promise.fail(PeerUnavailable(reason, was_sent=True))
        for request in waiting:
            request.promise.fail(PeerUnavailable(reason, was_sent=False, is_refused=is_refused))

    # ---- bytes out

    def _flush_later(self) -> None:
        """Lets the requests of one turn leave in one write."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        if self._transport is None or self._state is State.CONNECTING:
            return  # it was scheduled for the connection before this one
        if self._state is State.READY:
            self._encode_queued()
        try:
            self._out.send_to(self._transport)
        except OSError as error:
            return self._disconnect(error)
        self._watch(READ | WRITE if self._out.unsent else READ)

    def _encode_queued(self) -> None:
        queued, in_flight = self._queued, self._in_flight
        while queued and len(in_flight) < self._settings.max_in_flight:
            request = queued.popleft()
            self._correlation_id += 1
            request.correlation_id = self._correlation_id
            try:
                request.version = self._version_of(request)
                frame = encode_request(request.message, request.version, self._correlation_id, self._client_id)
            except KafkaError as error:
                request.promise.fail(error)
                continue
            except Exception as error:  # those behind it must not wait for one that cannot be sent
                what = f"{type(request.message).__name__} cannot be encoded: {error!r}"
                request.promise.fail(KafkaError(what, ErrorCode.UNKNOWN_SERVER_ERROR))
                continue
            in_flight.append(request)
            self._out.append(frame)

    def _version_of(self, request: _Request) -> int:
        message = request.message
        ours: range = message.__versions__
        theirs = self._versions.get(int(message.__api_key__), range(0))
        highest = ours[-1] if request.max_version is None else min(ours[-1], request.max_version)
        version = min(highest, theirs[-1] if theirs else -1)
        if version not in theirs or version not in ours:
            name = type(message).__name__
            raise KafkaError(f"{self.address} serves no version of {name} that we do", ErrorCode.UNSUPPORTED_VERSION)
        return version

    def _watch(self, events: int) -> None:
        if events != self._events and self._transport is not None:
            self._events = events
            self._transport.watch(events, self._on_event)

    # ---- bytes in

    def _on_event(self, events: int) -> None:
        if self._transport is None:
            return
        if events & WRITE:
            if self._state is State.CONNECTING:
                self._negotiate()
            self._flush()
        if events & READ and self._transport is not None:
            self._receive(self._transport)

    def _receive(self, transport: Transport) -> None:
        reader = self._reader
        try:
            count = transport.receive_into(reader.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            return self._disconnect(error)
        if not count:
            return self._disconnect(ConnectionResetError("the connection was closed"))
        reader.fill(count)
        try:
            while self._transport is transport and (frame := reader.next_frame()) is not None:
                self._on_frame(frame)
            reader.finish()
        except ProtocolError as error:
            return self._disconnect(error)
        if self._queued:
            self._flush_later()

    def _on_frame(self, frame: memoryview) -> None:
        if self._state is State.NEGOTIATING:
            return self._negotiated(frame)
        if not self._in_flight:
            raise ProtocolError("a response to no request")
        request = self._in_flight[0]
        correlation_id, response = decode_response(request.response_class, request.version, frame)
        self._check_correlation(correlation_id, request.correlation_id)
        self._in_flight.popleft()
        request.promise.resolve(response)

    def _check_correlation(self, found: int, expected: int) -> None:
        if found != expected:
            raise ProtocolError(f"a response to request {found} where request {expected} is the oldest")

    # ---- deadlines

    def _expire_by(self, deadline_ms: int) -> None:
        if self._deadline_timer is not None:
            if self._timer_due_ms <= deadline_ms < self._timer_due_ms + _EARLY_MS:
                return
            if self._timer_due_ms <= deadline_ms and len(self._queued) + len(self._in_flight) > 1:
                return  # it may be the deadline of another
            self._deadline_timer.cancel()
        self._timer_due_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        self._deadline_timer = self._clock.call_later(delay_ms, self._expire)

    def _expire(self) -> None:
        self._deadline_timer = None
        now_ms = self._clock.monotonic_ms()
        late = [request for request in (*self._in_flight, *self._queued) if request.deadline_ms <= now_ms]
        is_stuck = any(request.correlation_id >= 0 for request in late)
        self._in_flight = deque(request for request in self._in_flight if request not in late)
        self._queued = deque(request for request in self._queued if request not in late)
        if is_stuck:
            self._disconnect(TimeoutError("a request was not answered in time"))
        for request in late:
            text = f"{self.address} did not answer {type(request.message).__name__} in time"
            request.promise.fail(KafkaError(text, ErrorCode.REQUEST_TIMED_OUT))
        left = [request.deadline_ms for request in (*self._in_flight, *self._queued)]
        if left:
            self._expire_by(min(left))


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text[:1].lower() + text[1:]
