"""The listeners of a broker and the connections they bring: how many there may be, and how long one may be silent."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment, Timer
from barnabas.base.network import ServerSocket, SocketOptions, Transport
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.listeners import Listener
from barnabas.protocol.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.network.connection import Connection, Dispatch

_BACKLOG_MIN = 1_024  # a client that finds the queue full tries again after a whole second
_REPORTS_PER_SECOND = 10
_IDLE_CHECK_MIN_MS = 100
_NEVER_MS = 10 * 365 * 24 * 3_600_000


class CannotListen(KafkaError):
    """An address that cannot be bound."""


class Acceptor:
    """Some listeners of a node, those for clients or those of the controller, and every connection they accepted."""

    def __init__(
        self, config: BrokerConfig, environment: Environment, buffers: Buffers, *, is_limited: bool = True
    ) -> None:
        """`is_limited`: how many connections there may be, and how long one may be silent, is limited. Between nodes it
        is not: a connection that ends means that a node is dead."""
        self.config = config
        self._is_limited = is_limited
        self._network = environment.network
        self._clock = environment.clock
        self._report = environment.report
        self._buffers = buffers
        self._dispatch: Dispatch | None = None
        self._servers: list[tuple[Listener, ServerSocket]] = []
        self._idle_timers: dict[Connection, Timer] = {}
        self._per_address: Counter[str] = Counter()
        self._reports = 0
        self._reports_since_ms = 0

    # ---- listening

    def bind(self, listeners: Iterable[Listener]) -> list[Listener]:
        """Takes the addresses of these listeners; returns them with the ports that they really have."""
        config = self.config
        options = SocketOptions(
            backlog=max(config.socket_listen_backlog_size, _BACKLOG_MIN),
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
            send_buffer_bytes=config.socket_send_buffer_bytes,
        )
        for listener in listeners:
            try:
                server = self._network.bind(listener.host, listener.port, options)
            except OSError as error:
                raise CannotListen(f"cannot listen on {listener}: {error.strerror or error}") from None
            self._servers.append((listener._replace(port=server.address[1]), server))
        return [listener for listener, _ in self._servers]

    def accept(self, dispatch: "Dispatch") -> None:
        """Serves connections from now on."""
        self._dispatch = dispatch
        for listener, server in self._servers:
            server.accept(partial(self._on_transport, listener))

    def _on_transport(self, listener: Listener, transport: Transport) -> None:
        address = transport.peer[0]
        if (reason := self._why_refused(address)) is not None:
            transport.close()
            return self._warn(f"refused a connection from {address}: {reason}")
        assert self._dispatch is not None
        from barnabas.broker.network.connection import Connection  # with the first one: a start can do without it

        try:
            connection = Connection(
                transport,
                listener=listener.name,
                clock=self._clock,
                buffers=self._buffers,
                dispatch=self._dispatch,
                max_frame_bytes=self.config.socket_request_max_bytes,
                on_close=self._on_close,
            )
        except OSError:
            return transport.close()  # the client is gone already
        self._per_address[address] += 1
        self._idle_timers[connection] = self._clock.call_later(self._max_idle_ms, self._check_idle, connection)

    def _why_refused(self, address: str) -> str | None:
        config = self.config
        if not self._is_limited:
            return None
        if len(self._idle_timers) >= config.max_connections:
            return f"there are {len(self._idle_timers)} already (max.connections)"
        limit = config.connections_per_ip_overrides.get(address, config.max_connections_per_ip)
        if self._per_address[address] >= limit:
            return f"it has {self._per_address[address]} already (max.connections.per.ip)"
        return None

    # ---- living and dying

    @property
    def _max_idle_ms(self) -> int:
        limit_ms = self.config.connections_max_idle_ms
        return limit_ms if limit_ms >= 0 and self._is_limited else _NEVER_MS

    def _check_idle(self, connection: "Connection") -> None:
        idle_ms = self._clock.now_ms() - connection.last_active_ms
        limit_ms = self._max_idle_ms
        if idle_ms >= limit_ms and not connection.is_being_answered:
            return connection.close(_why_idle(connection, idle_ms))
        self._idle_timers[connection] = self._clock.call_later(
            max(limit_ms - idle_ms, _IDLE_CHECK_MIN_MS), self._check_idle, connection
        )

    def _on_close(self, connection: "Connection", reason: str | None) -> None:
        self._idle_timers.pop(connection).cancel()
        host, port = connection.session.peer
        self._per_address[host] -= 1
        if not self._per_address[host]:
            del self._per_address[host]
        if reason is not None:
            self._warn(f"closed the connection from {host}:{port}: {reason}")

    def _warn(self, text: str) -> None:
        """Reports a few lines a second: a flood of bad clients must not become a flood in the log."""
        now_ms = self._clock.now_ms()
        if now_ms - self._reports_since_ms >= 1_000:
            if self._reports > _REPORTS_PER_SECOND:
                self._report.warning(f"... and {self._reports - _REPORTS_PER_SECOND} more like these")
            self._reports_since_ms, self._reports = now_ms, 0
        self._reports += 1
        if self._reports <= _REPORTS_PER_SECOND:
            self._report.warning(text)

    def stop_accepting(self) -> None:
        for _listener, server in self._servers:
            server.close()
        self._servers.clear()

    def stop_reading(self) -> None:
        """Takes no more requests. Those that are here are still answered."""
        for connection in list(self._idle_timers):
            connection.stop_reading()

    @property
    def is_idle(self) -> bool:
        return all(connection.is_idle for connection in self._idle_timers)

    def close(self) -> None:
        self.stop_accepting()
        for connection in list(self._idle_timers):
            connection.close()


def _why_idle(connection: "Connection", idle_ms: int) -> str | None:
    """Returns what to report of a connection that is closed for its silence; None for silence between requests."""
    if not connection.is_idle:
        return f"it read nothing of its replies for {idle_ms} ms (connections.max.idle.ms)"
    if connection.is_halfway:
        return f"half a request, then nothing for {idle_ms} ms (connections.max.idle.ms)"
    return None
