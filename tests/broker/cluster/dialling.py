"""A network of which a test says how each connection fares."""

from collections.abc import Callable

from barnabas.base.files import Buffer
from barnabas.base.network import READ, WRITE, Address, OnEvent


class Dialled:
    """One connection. It is being made until the test says otherwise."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False
        self._events = 0
        self._on_event: OnEvent | None = None
        self._read: Callable[[], int] = self._nothing
        self._is_connected = False
        self._error: OSError | None = None

    # ---- what the owner does

    def watch(self, events: int, on_event: OnEvent) -> None:
        self._events, self._on_event = events, on_event

    def receive_into(self, _buffer: memoryview) -> int:
        if self._error is not None:
            raise self._error
        return self._read()

    def send(self, data: Buffer) -> int:
        if self._error is not None:
            raise self._error
        self.sent += bytes(data)
        return len(data)

    def close(self) -> None:
        self.is_closed = True
        self._on_event = None

    # ---- what the test does

    @staticmethod
    def _nothing() -> int:
        raise BlockingIOError

    def accept(self) -> None:
        self._tell(WRITE)

    def answer(self) -> None:
        self._read = lambda: 1
        self._tell(READ)

    def end(self) -> None:
        self._read = lambda: 0
        self._tell(READ)

    def refuse(self) -> None:
        self.fail(ConnectionRefusedError())

    def fail(self, error: OSError) -> None:
        self._error = error
        self._tell(READ | WRITE)

    def _tell(self, events: int) -> None:
        assert not self.is_closed
        if events & self._events and self._on_event is not None:
            self._on_event(events & self._events)


class DialledNetwork:
    def __init__(self) -> None:
        self.dialled: list[Address] = []
        self.dials: list[Dialled] = []

    def connect(self, address: Address) -> Dialled:
        self.dialled.append(address)
        self.dials.append(Dialled())
        return self.dials[-1]

    @property
    def last(self) -> Dialled:
        return self.dials[-1]
