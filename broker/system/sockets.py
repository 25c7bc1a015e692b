"""The production network: TCP sockets on the loop.

- `recv_into` and `send` of the socket are the transport's own methods: a call in between would cost as much as some of
  the requests that pass through.
- A listener on a loopback address does not pace: see `_do_not_pace`.
- A connection to another node breaks when that node's machine has said nothing for five seconds: see `_notice_silence`.
- When this process dies, its connections to other nodes are the first that the system closes: see `_closed_first`.
- The last descriptors are kept for files: a listener that would take one of them pauses.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Sequence

from barnabas.base.environment import Report, Workers
from barnabas.base.files import Buffer, FileSlice
from barnabas.base.network import READ, Address, OnEvent, SocketOptions, Transport
from barnabas.base.promise import Promise
from barnabas.broker.system.descriptors import connections_below
from barnabas.broker.system.loop import Loop

_MSG_MORE = getattr(socket, "MSG_MORE", 0)
_DO_NOT_LINGER = struct.pack("ii", 1, 0)
_ACCEPTED_PER_EVENT = 64
_RETRY_MS = 100
_REPORT_EVERY_MS = 1_000
_SILENCE_MS = 5_000
_HIGH_DESCRIPTOR = 4_096
"""Above those of most processes, and low enough for a small table of descriptors."""
_OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class SocketTransport:
    """A connected socket, or one that is being connected."""

    __slots__ = ("_events", "_fd", "_loop", "_socket", "peer", "receive_into", "send")

    def __init__(self, connected: socket.socket, peer: tuple[str, int], loop: Loop) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._fd = connected.fileno()
        self._loop = loop
        self._events = 0
        self.peer = peer
        self.receive_into: Callable[[memoryview], int] = connected.recv_into
        self.send: Callable[[Buffer], int] = connected.send

    @property
    def local(self) -> tuple[str, int]:
        host, port = self._socket.getsockname()[:2]
        return host, port

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        return self._socket.sendmsg(buffers, (), _MSG_MORE if more else 0)

    def send_file(self, records: FileSlice) -> int:
        sent = os.sendfile(self._fd, records.fileno(), records.position, records.size)
        if sent == 0:
            raise OSError(errno.EIO, "the file ended before the records that were promised")
        return sent

    def watch(self, events: int, on_event: OnEvent) -> None:
        if not self._events and events:
            self._loop.register(self._fd, events, on_event)
        elif not events and self._events:
            self._loop.unregister(self._fd)
        elif events:
            self._loop.modify(self._fd, events, on_event)
        self._events = events

    def close(self) -> None:
        if self._events:
            self._loop.unregister(self._fd)
            self._events = 0
        self._socket.close()

    def reset(self) -> None:
        """Closes the connection as the system does for a process that died: nothing more is sent, and the peer hears of
        it at once."""
        if self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DO_NOT_LINGER)
        self.close()


class SocketServer:
    """A bound socket; `accept` makes it listen."""

    def __init__(self, bound: socket.socket, backlog: int, loop: Loop, report: Report) -> None:
        self._socket = bound
        self._backlog = backlog
        self._loop = loop
        self._report = report
        self._is_watched = False
        self._reported_ms = 0
        self._descriptors_below = connections_below()
        self._on_transport: Callable[[Transport], None]
        host, port = bound.getsockname()[:2]
        self.address: tuple[str, int] = (host, port)

    def accept(self, on_transport: Callable[[Transport], None]) -> None:
        self._on_transport = on_transport
        self._socket.listen(self._backlog)
        self._watch()

    def close(self) -> None:
        self._unwatch()
        self._socket.close()

    def _watch(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.register(self._socket.fileno(), READ, self._on_event)
            self._is_watched = True

    def _unwatch(self) -> None:
        if self._is_watched:
            self._loop.unregister(self._socket.fileno())
            self._is_watched = False

    def _on_event(self, _events: int) -> None:
        for _ in range(_ACCEPTED_PER_EVENT):
            try:
                client, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OUT_OF_DESCRIPTORS:
                    self._pause(str(error))
                return  # or the client gave up before it was accepted
            if client.fileno() >= self._descriptors_below:
                client.close()
                return self._pause("the last descriptors are kept for files")
            try:
                transport = SocketTransport(client, address[:2], self._loop)
            except OSError:
                client.close()  # the client is gone already
                continue
            self._on_transport(transport)

    def _pause(self, reason: str) -> None:
        """Stops accepting for a moment: the next try would fail as well until others close their descriptors."""
        host, port = self.address
        if self._loop.monotonic_ms() - self._reported_ms >= _REPORT_EVERY_MS or not self._reported_ms:
            self._reported_ms = self._loop.monotonic_ms()
            remedy = "raise `ulimit -n` or lower max.connections"
            self._report.warning(f"no connection can be accepted on {host}:{port}: {reason}; {remedy}")
        self._unwatch()
        self._loop.call_later(_RETRY_MS, self._watch)


class SocketNetwork:
    def __init__(self, loop: Loop, workers: Workers, report: Report) -> None:
        self._loop = loop
        self._workers = workers
        self._report = report

    def bind(self, host: str, port: int, options: SocketOptions) -> SocketServer:
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it; Kafka's have it, too
            if options.receive_buffer_bytes > 0:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
            if options.send_buffer_bytes > 0:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
            bound.setblocking(False)
            bound.bind((host, port))
            if _is_loopback(bound.getsockname()[0]):
                _do_not_pace(bound)
        except OSError:
            bound.close()
            raise
        return SocketServer(bound, options.backlog, self._loop, self._report)

    def connect(self, address: Address) -> "Transport":
        if family := _family_of(address.host):
            return _connecting(family, address, self._loop)
        return ResolvingTransport(address, self._loop, self._workers)


def _family_of(host: str) -> int:
    """Returns the family of a numeric address; 0 for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family
    return 0


def _connecting(family: int, address: Address, loop: Loop) -> SocketTransport:
    """Returns at once; a refusal that is known at once is raised by the transport's first call."""
    connecting = _closed_first(socket.socket(family, socket.SOCK_STREAM))
    try:
        transport = SocketTransport(connecting, address, loop)
        _notice_silence(connecting)
        if _is_loopback(address.host):
            _do_not_pace(connecting)
        connecting.connect_ex(address)
    except OSError:
        connecting.close()
        raise
    return transport


class ResolvingTransport:
    """A transport to a host that is known by name: a worker looks the name up, and everything waits for it."""

    __slots__ = ("_error", "_is_closed", "_loop", "_on_event", "_transport", "_watched", "peer")

    def __init__(self, address: Address, loop: Loop, workers: Workers) -> None:
        self.peer: tuple[str, int] = address
        self._loop = loop
        self._transport: SocketTransport | None = None
        self._error: OSError | None = None
        self._watched = 0
        self._on_event: OnEvent | None = None
        self._is_closed = False
        workers.run(self._look_up).when_done(self._resolved)

    def _look_up(self) -> tuple[int, Address]:
        """Returns the first address of the host, and its family. Nobody waits for it if the transport is closed."""
        if self._is_closed:
            return 0, Address("", 0)
        family, *_, found = socket.getaddrinfo(*self.peer, type=socket.SOCK_STREAM)[0]
        return family, Address(str(found[0]), int(found[1]))

    def _resolved(self, found: Promise[tuple[int, Address]]) -> None:
        if self._is_closed:
            return
        try:
            if found.error is not None:
                raise OSError(errno.EHOSTUNREACH, f"{self.peer[0]} cannot be resolved: {found.error}")
            self._transport = _connecting(*found.value, self._loop)
        except OSError as failure:
            self._error = failure
        if self._on_event is not None:
            self.watch(self._watched, self._on_event)

    @property
    def _connected(self) -> SocketTransport:
        if self._error is not None:
            raise self._error
        if self._transport is None:
            raise BlockingIOError(errno.EAGAIN, "the name is being looked up")
        return self._transport

    @property
    def local(self) -> tuple[str, int]:
        return self._connected.local

    def receive_into(self, buffer: memoryview) -> int:
        return self._connected.receive_into(buffer)

    def send(self, data: Buffer) -> int:
        return self._connected.send(data)

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        return self._connected.send_buffers(buffers, more=more)

    def send_file(self, records: FileSlice) -> int:
        return self._connected.send_file(records)

    def watch(self, events: int, on_event: OnEvent) -> None:
        self._watched, self._on_event = events, on_event
        if self._transport is not None:
            self._transport.watch(events, on_event)
        elif self._error is not None and events:
            self._loop.call_soon(self._say_failed)

    def _say_failed(self) -> None:
        if self._watched and self._on_event is not None and not self._is_closed:
            self._on_event(self._watched)

    def close(self) -> None:
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _closed_first(new: socket.socket) -> socket.socket:
    """Gives a connection a high descriptor. Linux closes those of a dead process from the highest down, so that other
    nodes hear of the death before clients do, who will ask them for another leader."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    try:
        high = fcntl(new, F_DUPFD_CLOEXEC, int(min(_HIGH_DESCRIPTOR, connections_below() // 2)))
    except OSError:
        return new  # there is none left: any other does
    with new:
        return socket.socket(new.family, new.type, new.proto, high)


def _notice_silence(connecting: socket.socket) -> None:
    """Lets the system break a connection to a machine that has vanished: without that, one who has sent something waits
    for a quarter of an hour, and one who only waits for ever. A process that hangs is another matter: its machine
    answers."""
    connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = _SILENCE_MS // 1_000
    for name, value in (("TCP_KEEPIDLE", seconds), ("TCP_KEEPINTVL", 1), ("TCP_USER_TIMEOUT", _SILENCE_MS)):
        if (option := getattr(socket, name, None)) is not None:  # not every system has them
            connecting.setsockopt(socket.IPPROTO_TCP, option, value)


def _do_not_pace(bound: socket.socket) -> None:
    """Chooses Reno for the connections of a loopback address. Inside one kernel there is no congestion to control, and
    where BBR is the default it sends in measured doses even there: at two thirds of the speed, for three times the CPU.
    Reno does not, and it is the one that every kernel has and every user may choose.
    """
    if hasattr(socket, "TCP_CONGESTION"):
        try:
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        except OSError:
            pass  # the system's choice stays
