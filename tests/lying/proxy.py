"""A proxy in front of a real broker that tells the truth until it is asked to lie.

One request at a time per connection: it is read, forwarded, and its reply is sent back. A lie is a function that stands
in the place of the forwarding; it sees every request and lies when it wants to.
"""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

PRODUCE, FETCH, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, SYNC_GROUP, API_VERSIONS = 0, 1, 8, 9, 10, 14, 18
END_TXN = 26

Forward = Callable[[bytes], bytes]
Lie = Callable[["Exchange"], bytes]


class Exchange:
    """One request on its way, and how many of its kind came before it."""

    def __init__(self, request: bytes, number: int, forward: Forward, last_reply: bytes) -> None:
        self.request = request
        self.api_key: int = struct.unpack_from(">h", request)[0]
        self.number = number
        self.forward = forward
        self.last_reply = last_reply  # to a request of the same kind


class LyingProxy:
    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._broker = ("", 0)
        self._counts: dict[int, int] = {}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def tell(self, lie: Lie) -> None:
        """From the next request on, which is the first of its kind again."""
        self._lie = lie
        self._counts = {}

    def start(self, broker_port: int) -> None:
        self._broker = ("127.0.0.1", broker_port)
        self._run(self._accept)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._sockets:
            connection.close()

    def _run(self, work: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                self._sockets += [client, broker]
                self._run(self._serve, client, broker)

    def _serve(self, client: socket.socket, broker: socket.socket) -> None:
        last_replies: dict[int, bytes] = {}

        def forward(request: bytes) -> bytes:
            write_frame(broker, request)
            return read_frame(broker)

        with suppress(OSError, EOFError):
            while True:
                request = read_frame(client)
                api_key: int = struct.unpack_from(">h", request)[0]
                self._counts[api_key] = self._counts.get(api_key, 0) + 1
                reply = self._lie(Exchange(request, self._counts[api_key], forward, last_replies.get(api_key, b"")))
                last_replies[api_key] = reply
                write_frame(client, request[4:8] + reply[4:])  # a lie, too, answers the request that was asked
        for connection in (client, broker):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def read_frame(connection: socket.socket) -> bytes:
    return read_exactly(connection, struct.unpack(">i", read_exactly(connection, 4))[0])


def read_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise EOFError
        data += more
    return bytes(data)


def write_frame(connection: socket.socket, frame: bytes) -> None:
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def with_records(reply: bytes, change: Callable[[list[bytes]], list[bytes]]) -> bytes:
    """A Fetch reply of version 11 about one partition, with other batches in it."""
    name_bytes = struct.unpack_from(">h", reply, 18)[0]
    aborted_at = 18 + 2 + name_bytes + 4 + 4 + 2 + 8 + 8 + 8
    aborted = max(struct.unpack_from(">i", reply, aborted_at)[0], 0)
    length_at = aborted_at + 4 + aborted * 16 + 4
    size = max(struct.unpack_from(">i", reply, length_at)[0], 0)
    batches, at, end = [], length_at + 4, length_at + 4 + size
    while at + 12 <= end:
        batch_bytes = struct.unpack_from(">i", reply, at + 8)[0] + 12
        batches.append(reply[at : at + batch_bytes])
        at += batch_bytes
    records = b"".join(change(batches))
    return reply[:length_at] + struct.pack(">i", len(records)) + records + reply[end:]
