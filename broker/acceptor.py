"""Listening sockets and the connections they bring: how many there may be, and how long one may be silent."""

import errno
import socket
from collections import Counter

from barnabas.broker.buffers import Buffers
from barnabas.broker.config import BrokerConfig
from barnabas.broker.connection import Connection, Dispatch
from barnabas.broker.descriptors import connections_below
from barnabas.broker.listeners import Listener
from barnabas.broker.loop import Loop
from barnabas.broker.poller import READ
from barnabas.protocol.errors import KafkaError
from barnabas.storage.seams import Report, Timer

_ACCEPTED_PER_EVENT = 64
_BACKLOG_MIN = 1_024  # a client that finds the queue full tries again after a whole second
_REFUSALS_TOLD_PER_SECOND = 10
_RETRY_MS = 100
_NEVER_MS = 10 * 365 * 24 * 3_600_000
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CannotListen(KafkaError):
    """An address that cannot be bound."""


class Acceptor:
    """Every listener of a broker and every connection they accepted."""

    def __init__(self, config: BrokerConfig, *, loop: Loop, report: Report) -> None:
        self.config = config
        self._loop = loop
        self._report = report
        self._dispatch: Dispatch | None = None
        self._descriptors_below = connections_below()
        self._buffers = Buffers()
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._watched: set[socket.socket] = set()
        self._idle_timers: dict[Connection, Timer] = {}
        self._per_address: Counter[str] = Counter()
        self._refusals = 0
        self._told_since_ms = 0

    # Listening

    def bind(self) -> list[Listener]:
        """Takes the addresses of all client listeners; returns them with the ports that they really have."""
        for listener in self.config.client_listeners:
            self._sockets.append((listener, _bound(listener, self.config)))
        return [listener._replace(port=bound.getsockname()[1]) for listener, bound in self._sockets]

    def accept(self, dispatch: Dispatch) -> None:
        """From now on connections are served."""
        self._dispatch = dispatch
        for listener, bound in self._sockets:
            bound.listen(max(self.config.socket_listen_backlog_size, _BACKLOG_MIN))
            self._watch(listener, bound)

    def _watch(self, listener: Listener, bound: socket.socket) -> None:
        if bound.fileno() >= 0:
            self._loop.register(bound.fileno(), READ, lambda _events: self._on_event(listener, bound))
            self._watched.add(bound)

    def _unwatch(self, bound: socket.socket) -> None:
        if bound in self._watched:
            self._watched.remove(bound)
            self._loop.unregister(bound.fileno())

    def _on_event(self, listener: Listener, bound: socket.socket) -> None:
        for _ in range(_ACCEPTED_PER_EVENT):
            try:
                client, address = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._pause(listener, bound, str(error))
                return  # or the client gave up before it was accepted
            if client.fileno() >= self._descriptors_below:
                client.close()
                return self._pause(listener, bound, "the last descriptors are kept for files")
            self._on_client(listener, client, address[0])

    def _pause(self, listener: Listener, bound: socket.socket, reason: str) -> None:
        """Without descriptors the next try fails as well: others must close theirs first."""
        self._tell(f"no connection can be accepted on {listener}: {reason}; raise `ulimit -n` or lower max.connections")
        self._unwatch(bound)
        self._loop.call_later(_RETRY_MS, self._watch, listener, bound)

    def _on_client(self, listener: Listener, client: socket.socket, address: str) -> None:
        if (reason := self._why_refused(address)) is not None:
            client.close()
            return self._tell(f"refused a connection from {address}: {reason}")
        try:
            connection = self._connected(listener, client)
        except OSError:
            return client.close()  # gone already
        self._per_address[address] += 1
        self._idle_timers[connection] = self._loop.call_later(self._max_idle_ms, self._check_idle, connection)

    def _why_refused(self, address: str) -> str | None:
        config = self.config
        if len(self._idle_timers) >= config.max_connections:
            return f"there are {len(self._idle_timers)} already (max.connections)"
        limit = config.connections_per_ip_overrides.get(address, config.max_connections_per_ip)
        if self._per_address[address] >= limit:
            return f"it has {self._per_address[address]} already (max.connections.per.ip)"
        return None

    def _connected(self, listener: Listener, client: socket.socket) -> Connection:
        assert self._dispatch is not None
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(
            client,
            listener=listener.name,
            loop=self._loop,
            buffers=self._buffers,
            dispatch=self._dispatch,
            max_frame_bytes=self.config.socket_request_max_bytes,
            on_close=self._on_close,
        )

    # Living and dying

    @property
    def _max_idle_ms(self) -> int:
        limit_ms = self.config.connections_max_idle_ms
        return limit_ms if limit_ms >= 0 else _NEVER_MS

    def _check_idle(self, connection: Connection) -> None:
        idle_ms = self._loop.now_ms() - connection.last_active_ms
        limit_ms = self._max_idle_ms
        if idle_ms >= limit_ms and not connection.is_being_answered:
            return connection.close(_why_idle(connection, idle_ms))
        self._idle_timers[connection] = self._loop.call_later(
            max(limit_ms - idle_ms, _RETRY_MS), self._check_idle, connection
        )

    def _on_close(self, connection: Connection, reason: str | None) -> None:
        self._idle_timers.pop(connection).cancel()
        address = connection.peer[0]
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        if reason is not None:
            self._tell(f"closed the connection from {address}:{connection.peer[1]}: {reason}")

    def _tell(self, text: str) -> None:
        """A few lines a second: a flood of bad clients must not become a flood in the log."""
        now_ms = self._loop.now_ms()
        if now_ms - self._told_since_ms >= 1_000:
            if self._refusals > _REFUSALS_TOLD_PER_SECOND:
                self._report.warning(f"... and {self._refusals - _REFUSALS_TOLD_PER_SECOND} more like these")
            self._told_since_ms, self._refusals = now_ms, 0
        self._refusals += 1
        if self._refusals <= _REFUSALS_TOLD_PER_SECOND:
            self._report.warning(text)

    def stop_accepting(self) -> None:
        for _listener, bound in self._sockets:
            self._unwatch(bound)
            bound.close()
        self._sockets.clear()

    def stop_reading(self) -> None:
        """Requests that are here are still answered, no more are taken."""
        for connection in list(self._idle_timers):
            connection.stop_reading()

    @property
    def is_idle(self) -> bool:
        return all(connection.is_idle for connection in self._idle_timers)

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self._idle_timers):
            connection.close()


def _why_idle(connection: Connection, idle_ms: int) -> str | None:
    """Silence between requests needs no words."""
    if not connection.is_idle:
        return f"it read nothing of its replies for {idle_ms} ms (connections.max.idle.ms)"
    if connection.is_halfway:
        return f"half a request, then nothing for {idle_ms} ms (connections.max.idle.ms)"
    return None


def _bound(listener: Listener, config: BrokerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if config.socket_receive_buffer_bytes > 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes)
        if config.socket_send_buffer_bytes > 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
        bound.setblocking(False)
        bound.bind((listener.host, listener.port))
        if (address := bound.getsockname()[0]).startswith("127.") or address == "::1":
            _do_not_pace(bound)
    except OSError as error:
        bound.close()
        raise CannotListen(f"cannot listen on {listener}: {error.strerror or error}") from None
    return bound


def _do_not_pace(bound: socket.socket) -> None:
    """The connections of a loopback address. Inside one kernel there is no congestion to control, and where BBR is the
    default it sends in measured doses even there: at two thirds of the speed, for three times the CPU. Reno does not,
    and is the one that every kernel has and every user may choose.
    """
    if hasattr(socket, "TCP_CONGESTION"):
        try:
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        except OSError:
            pass  # as it was, then
