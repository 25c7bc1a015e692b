"""One connection over real loopback TCP, its loop turned by hand, and a toy protocol in the place of Kafka's.

A request of the toy names what it wants: `echo …`, `big <bytes>`, `park <name>`, `slice <bytes>`, `none`, `bad`, `bug`.
"""

import socket
import time
from collections.abc import Callable
from struct import pack, unpack_from
from typing import Any

from barnabas.base.files import FileSlice
from barnabas.base.promise import Promise
from barnabas.broker.network.buffers import Buffers
from barnabas.broker.network.connection import Connection
from barnabas.broker.network.reply_queue import Reply
from barnabas.broker.network.session import Session
from barnabas.broker.system.loop import Loop
from barnabas.broker.system.sockets import SocketTransport
from barnabas.protocol.errors import ProtocolError

MAX_FRAME_BYTES = 8 * 1024 * 1024
PATIENCE_S = 20


def frame(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def framed(payload: bytes) -> Reply:
    """As a reply."""
    return bytearray(frame(payload)), []


def frames(stream: bytes) -> list[bytes]:
    """The payloads of the whole frames of a stream, which must hold nothing else."""
    found, position = [], 0
    while position < len(stream):
        (size,) = unpack_from(">i", stream, position)
        found.append(stream[position + 4 : position + 4 + size])
        assert len(found[-1]) == size, "half a reply"
        position += 4 + size
    return found


def content(size: int, position: int = 0) -> bytes:
    """Bytes that differ from place to place, so that any mix-up shows."""
    pattern = bytes(range(251))
    start = position % 251
    return (pattern * (size // 251 + 2))[start : start + size]


def slice_reply(size: int) -> bytes:
    """What the toy answers to `slice <size>`."""
    return b"<<" + content(size, size % 100) + b">"


class CountingSocket(socket.socket):
    """The broker's end; counts its writes."""

    sends = 0

    def sendmsg(self, *args: Any) -> int:
        self.sends += 1
        return super().sendmsg(*args)


def tcp_pair(*, send_buffer: int = 0, receive_buffer: int = 0) -> tuple[CountingSocket, socket.socket]:
    """The broker's end and the client's end."""
    with socket.socket() as listening:
        if send_buffer:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        client = socket.socket()
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setblocking(False)
    client.setblocking(False)
    return CountingSocket(fileno=accepted.detach()), client


class Toy:
    """Handles the requests of all connections of a test."""

    def __init__(self) -> None:
        self.handled: list[bytes] = []
        self.parked: dict[bytes, Promise[Reply]] = {}
        self.abandoned: list[bytes] = []
        self.file: Any = None
        self.before_reply: Callable[[bytes], None] = lambda _payload: None

    def __call__(self, frame: memoryview, session: Session) -> Promise[Reply] | Reply:
        payload = bytes(frame)
        self.handled.append(payload)
        self.before_reply(payload)
        verb, _, rest = payload.partition(b" ")
        match verb:
            case b"park":
                promise: Promise[Reply] = Promise(lambda: self.abandoned.append(rest))
                self.parked[rest] = promise
                return promise
            case b"big":
                return framed(bytes(int(rest)))
            case b"slice":
                return self._slice(int(rest))
            case b"none":
                return None
            case b"bad":
                raise ProtocolError("not what the protocol allows")
            case b"bug":
                raise RuntimeError("a bug")
        return framed(payload)

    def _slice(self, size: int) -> Reply:
        """A reply with something before and after records of a file."""
        out = bytearray(pack(">i", 2 + size + 1) + b"<<" + b">")
        return out, [(6, FileSlice(self.file, size % 100, size))]

    def keep(self, name: bytes, payload: bytes | None = None) -> None:
        self.parked.pop(name).resolve(framed(payload or name))


class Wire:
    """A loop, the toy, and the clients that a test connects."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.loop = Loop(self.errors.append)
        self.buffers = Buffers()
        self.toy = Toy()
        self.closed: list[tuple[Connection, str | None]] = []
        self.clients: list[Client] = []

    def connect(self, *, send_buffer: int = 0, receive_buffer: int = 0) -> "Client":
        broker_end, client_end = tcp_pair(send_buffer=send_buffer, receive_buffer=receive_buffer)
        connection = Connection(
            SocketTransport(broker_end, client_end.getsockname(), self.loop),
            listener="PLAINTEXT",
            clock=self.loop,
            buffers=self.buffers,
            dispatch=self.toy,
            max_frame_bytes=MAX_FRAME_BYTES,
            on_close=lambda connection, reason: self.closed.append((connection, reason)),
        )
        client = Client(self, connection, broker_end, client_end)
        self.clients.append(client)
        return client

    def turn(self) -> None:
        """One turn of the loop, without waiting."""
        self.loop.call_soon(lambda: None)
        self.loop.run_once()

    def turn_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not come true in time"
            self.loop.call_later(2, lambda: None)
            self.loop.run_once()

    def settle(self, turns: int = 20) -> None:
        """Loopback is immediate: after some turns without a wait nothing more can happen by itself."""
        for _ in range(turns):
            self.turn()

    def why_closed(self, client: "Client") -> str | None:
        return next(reason for connection, reason in self.closed if connection is client.connection)

    def close(self) -> None:
        for client in self.clients:
            client.socket.close()
            client.connection.close()
        self.loop.close()


class Client:
    def __init__(self, wire: Wire, connection: Connection, broker_end: CountingSocket, end: socket.socket) -> None:
        self.wire = wire
        self.connection = connection
        self.broker_end = broker_end
        self.socket = end
        self.received = bytearray()
        self.is_cut_off = False

    def send(self, data: bytes) -> None:
        """Turns the loop while the broker must read to make room."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.socket.send(rest) :]
            except BlockingIOError:
                self.wire.turn()

    def request(self, *payloads: bytes) -> None:
        self.send(b"".join(map(frame, payloads)))

    def read(self, size: int = 1 << 20) -> bool:
        """Takes what has come; whether that was the end of it."""
        try:
            data = self.socket.recv(size)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        self.received += data
        self.is_cut_off = not data
        return self.is_cut_off

    def replies(self, count: int) -> list[bytes]:
        """Waits for so many replies; there must be no more."""

        def enough() -> bool:
            self.read()
            return _count(self.received) >= count or self.is_cut_off

        self.wire.turn_until(enough)
        found = frames(bytes(self.received))
        self.received.clear()
        return found

    def until_cut_off(self) -> list[bytes]:
        """The replies that came before the broker closed the connection."""

        self.wire.turn_until(self.read)
        return frames(bytes(self.received))


def _count(stream: bytearray) -> int:
    count = position = 0
    while position + 4 <= len(stream):
        position += 4 + unpack_from(">i", stream, position)[0]
        count += position <= len(stream)
    return count
