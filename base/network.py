"""The network as the broker sees it: ordered streams of bytes, behind an interface that never blocks.

Rules:
- A transport is one connection: bytes arrive in the order they were sent, once, or the connection breaks.
- No method blocks. Where a socket has nothing to read or no room to write, BlockingIOError is raised; any other OSError
  means that the connection is broken.
- `watch` says which events the owner can use. The owner is called again as long as an event holds (level-triggered),
  and never from inside a call of its own.
- A transport of `connect` is usable at once. Its first WRITE event says that the connection is established, or that it
  failed: then the next call raises the reason.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.base.files import Buffer, FileSlice
from barnabas.protocol.named_tuple import NamedTuple

READ = 1
WRITE = 2

OnEvent = Callable[[int], None]


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Transport(Protocol):
    peer: tuple[str, int]

    @property
    def local(self) -> tuple[str, int]: ...

    @property
    def receive_into(self) -> Callable[[memoryview], int]:
        """Fills the start of the buffer; returns how many bytes came, 0 at the end of the stream."""
        ...

    @property
    def send(self) -> Callable[[Buffer], int]:
        """Returns how many bytes were taken."""
        ...

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        """Sends like `send`, from several buffers at once. `more` says that the rest of a message follows right
        away."""
        ...

    def send_file(self, records: FileSlice) -> int:
        """Sends like `send`, from a file. Raises EIO if the file ends before the bytes do."""
        ...

    def watch(self, events: int, on_event: OnEvent) -> None:
        """Calls `on_event` from now on with READ, WRITE or both, as far as `events` names them; 0 stops it."""
        ...

    def close(self) -> None:
        """Closes the connection. No callback follows; a second call does nothing."""
        ...


class SocketOptions(NamedTuple):
    """Settings of a listening socket; a buffer size of -1 leaves the system's choice."""

    backlog: int
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1


class ServerSocket(Protocol):
    """A bound address. Connections are accepted from `accept` on; before that, clients are refused."""

    address: tuple[str, int]
    """The address with the port that the system chose, if it was asked to."""

    def accept(self, on_transport: Callable[[Transport], None]) -> None: ...

    def close(self) -> None:
        """Refuses connections from now on; those already accepted stay open."""
        ...


class Network(Protocol):
    def bind(self, host: str, port: int, options: SocketOptions) -> ServerSocket:
        """Binds the address. Raises OSError if that is not possible."""
        ...

    def connect(self, address: Address) -> Transport:
        """Connects to another node. The connection breaks some seconds after the other machine has vanished."""
        ...
