"""Bytes that wait to be sent on one transport: buffers, and slices of files that leave with `sendfile`."""

from collections import deque

from barnabas.base.files import Buffer, FileSlice
from barnabas.base.network import Transport

_BUFFERS_PER_SEND = 64


class SendQueue:
    __slots__ = ("unsent", "unsent_bytes")

    def __init__(self) -> None:
        self.unsent: deque[Buffer | FileSlice] = deque()
        self.unsent_bytes = 0

    def append(self, part: Buffer | FileSlice) -> None:
        if len(part):
            self.unsent.append(part)
            self.unsent_bytes += len(part)

    def send_to(self, transport: Transport) -> bool:
        """Sends until all is sent or the transport takes no more. Returns whether it took anything.

        Raises OSError if the connection is broken."""
        unsent, has_sent = self.unsent, False
        try:
            while unsent:
                first = unsent[0]
                if isinstance(first, FileSlice):
                    count = transport.send_file(first)
                elif len(unsent) == 1:
                    count = transport.send(first)
                else:
                    buffers, more = self.buffers()
                    count = transport.send_buffers(buffers, more=more)
                has_sent = True
                if not self.sent(count):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        return has_sent

    def buffers(self) -> tuple[list[Buffer], bool]:
        """Returns what stands before the next slice, and whether more follows. The first part must be no slice."""
        buffers: list[Buffer] = []
        for part in self.unsent:
            if isinstance(part, FileSlice) or len(buffers) == _BUFFERS_PER_SEND:
                break
            buffers.append(part)
        return buffers, len(buffers) < len(self.unsent)

    def sent(self, count: int) -> bool:
        """Drops the first `count` bytes. Returns False if they end inside a buffer: there was no room for its rest."""
        if count == self.unsent_bytes:
            self.clear()
            return True
        unsent = self.unsent
        self.unsent_bytes -= count
        while count:
            first = unsent[0]
            size = len(first)
            if count < size:
                if isinstance(first, FileSlice):
                    unsent[0] = FileSlice(first.file, first.position + count, first.size - count)
                    return True
                unsent[0] = memoryview(first)[count:]
                return False
            count -= size
            unsent.popleft()
        return True

    def clear(self) -> None:
        self.unsent.clear()
        self.unsent_bytes = 0
