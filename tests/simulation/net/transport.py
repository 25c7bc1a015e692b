"""A process's end of a simulated connection: what `base/network.py` promises of a transport."""

import errno
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.base.files import Buffer, FileSlice
from barnabas.base.network import READ, WRITE, OnEvent
from tests.simulation.loop import SimulatedLoop
from tests.simulation.net.paths import Host

if TYPE_CHECKING:
    from tests.simulation.net.streams import Stream


class SimulatedTransport:
    """`on_gone` is called when the process lets go of it, and how it did."""

    __slots__ = (
        "_error", "_events", "_loop", "_on_event", "_on_gone", "has_ended", "host", "incoming", "is_connecting",
        "is_gone", "local", "outgoing", "peer", "unread",
    )  # fmt: skip

    def __init__(
        self,
        loop: SimulatedLoop,
        host: Host,
        addresses: tuple[tuple[str, int], tuple[str, int]],
        on_gone: Callable[["SimulatedTransport", str], None],
    ) -> None:
        self.host = host
        self.local, self.peer = addresses
        self.incoming: Stream
        self.outgoing: Stream
        self.unread = bytearray()
        self.has_ended = False
        self.is_connecting = False
        self.is_gone = False
        """Nobody holds it any more."""
        self._loop = loop
        self._on_gone = on_gone
        self._error = 0
        self._events = 0
        self._on_event: OnEvent | None = None

    # ---- what the process does

    def receive_into(self, buffer: memoryview) -> int:
        if self.is_gone:
            raise _bad_descriptor()
        unread = self.unread
        if unread:
            count = min(len(unread), len(buffer))
            buffer[:count] = unread[:count]
            del unread[:count]
            self.incoming.consume(count)
            return count
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        if self.has_ended:
            return 0
        raise BlockingIOError(errno.EAGAIN, "nothing to read")

    def send(self, data: Buffer) -> int:
        count = min(self._room(), len(data))
        self.outgoing.put(bytes(memoryview(data)[:count]))
        return count

    def send_buffers(self, buffers: Sequence[Buffer], *, more: bool) -> int:
        room = self._room()
        data = b"".join(buffers)[:room]
        self.outgoing.put(data)
        return len(data)

    def send_file(self, records: FileSlice) -> int:
        data = records.file.pread(min(records.size, self._room()), records.position)
        if not data:
            raise OSError(errno.EIO, "the file ended before the records that were promised")
        self.outgoing.put(data)
        return len(data)

    def _room(self) -> int:
        if self.is_gone:
            raise _bad_descriptor()
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        if self.is_connecting or (room := self.outgoing.room()) <= 0:
            raise BlockingIOError(errno.EAGAIN, "no room to write")
        return room

    def watch(self, events: int, on_event: OnEvent) -> None:
        if self.is_gone:
            raise _bad_descriptor()
        self._events = events
        self._on_event = on_event
        if events:
            self._loop.may_be_ready(self)
        else:
            self._loop.forget(self)

    def close(self) -> None:
        if self.is_gone:
            return
        self._let_go("closed" if not self._error else f"gave up ({os.strerror(self._error)})")
        if self._error or not self._stands:
            return
        if self.unread:
            self.outgoing.reset()  # as a kernel does if bytes were never read
        else:
            self.outgoing.finish()

    @property
    def _stands(self) -> bool:
        """The server knows of it, even if the client does not so far."""
        return len(self.outgoing.connection.ends) == 2

    def _let_go(self, how: str) -> None:
        self.is_gone = True
        self._events = 0
        self._on_event = None
        self._loop.forget(self)
        self._on_gone(self, how)

    # ---- what happens to it

    def may_be_ready(self) -> None:
        if self._events:
            self._loop.may_be_ready(self)

    def ready_events(self) -> int:
        events = self._events
        if self._error:
            return events
        ready = 0
        if events & READ and (self.unread or self.has_ended):
            ready = READ
        if events & WRITE and not self.is_connecting:
            if self.outgoing.room() * 3 >= self.outgoing.window_bytes:
                ready |= WRITE
            else:
                self.outgoing.wants_room()
        return ready

    def on_ready(self, events: int) -> None:
        if (events := events & self._events) and self._on_event is not None:
            self._on_event(events)

    def connected(self) -> None:
        self.is_connecting = False
        self.may_be_ready()

    def break_off(self, error: int, *, forgets_unread: bool) -> None:
        if self.is_gone or self._error:
            return
        self._error = error
        if forgets_unread:
            self.unread.clear()
        self.may_be_ready()

    def killed(self, *, resets: bool) -> None:
        """The process is gone; its kernel is not, and says so."""
        if self.is_gone:
            return
        if resets and not self._error and self._stands:
            self._let_go("reset")
            self.outgoing.reset()
        else:
            self.close()

    def vanish(self) -> None:
        """The machine is gone: nobody is told."""
        if not self.is_gone:
            self._let_go("silently lost")
            self.outgoing.lose_unsent()


def _bad_descriptor() -> OSError:
    return OSError(errno.EBADF, os.strerror(errno.EBADF))
