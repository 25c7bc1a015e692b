"""Cuts a stream of bytes into frames, without I/O of its own.

    buffer = reader.space()           # where the next bytes should land
    reader.fill(count)                # so many came
    while (frame := reader.next_frame()) is not None: ...
    reader.finish()                   # what is left over waits for the rest

Rules:
- A frame is handed out as a view of the buffer that it arrived in. The view is dead once `finish` is called.
- What is handled at once is never copied. The start of a small frame is copied aside; a large frame that is still
  incomplete keeps the buffer it began in (see `buffers.py`).
- A reader may stop before the last whole frame. `finish` sets the others aside, and the next `next_frame` goes on.
"""

from struct import Struct

from barnabas.broker.network.buffers import Buffers
from barnabas.protocol.frame import SIZE_BYTES, frame_size

SMALL_FRAME_BYTES = 16 * 1024
_NOTHING = memoryview(b"")
_unpack_size = Struct(">i").unpack_from


class FrameReader:
    __slots__ = ("_buffers", "_end", "_filled", "_large", "_max_frame_bytes", "_position", "_received")

    def __init__(self, buffers: Buffers, max_frame_bytes: int) -> None:
        self._buffers = buffers
        self._max_frame_bytes = max_frame_bytes
        self._received = _NOTHING
        """What has come and is not handed out lies between `_position` and `_end` of this."""
        self._position = 0
        self._end = 0
        self._large: memoryview | None = None
        """The buffer of a large frame of which so far only the first `_filled` bytes have come."""
        self._filled = 0

    def space(self) -> memoryview:
        """Returns the buffer for the next bytes. Every whole frame must have been handed out before."""
        large = self._large
        if large is not None:
            size = SIZE_BYTES + frame_size(large, 0, self._max_frame_bytes)
            if self._filled == len(large):
                large = self._large = self._buffers.grown(large, size)
            return large[self._filled : min(size, len(large))]
        scratch = self._buffers.scratch
        kept = self._end - self._position
        return scratch[kept:] if kept else scratch

    def fill(self, count: int) -> None:
        """Takes the first `count` bytes of `space` as received."""
        if self._large is not None:
            self._fill_large(self._large, count)
            return
        scratch = self._buffers.scratch
        kept = self._end - self._position
        if kept:
            scratch[:kept] = self._received[self._position : self._end]
        self._received, self._position, self._end = scratch, 0, kept + count

    def _fill_large(self, large: memoryview, count: int) -> None:
        self._filled += count
        size = SIZE_BYTES + frame_size(large, 0, self._max_frame_bytes)
        if self._filled == size:
            self._received, self._position, self._end = large, 0, size

    def next_frame(self) -> memoryview | None:
        """Returns what follows the size of the next frame; None if none is whole. Raises ProtocolError for a size that
        no frame may have."""
        position, end = self._position, self._end
        start = position + SIZE_BYTES
        if start > end:
            return None
        received = self._received
        size: int = _unpack_size(received, position)[0]
        if not 0 <= size <= self._max_frame_bytes:
            frame_size(received, position, self._max_frame_bytes)  # raises; a call for every frame would cost as much
        next_position = start + size
        if next_position > end:
            return None
        self._position = next_position
        return received[start:next_position]

    def finish(self) -> None:
        """Keeps what was not handed out, and gives the buffer back."""
        if self._position < self._end:
            if self._received is not self._large:
                self._keep()
            return
        if self._large is not None and self._received is self._large:
            self._buffers.give_back(self._large)
            self._large = None
        self._received, self._position, self._end = _NOTHING, 0, 0

    def _keep(self) -> None:
        """Moves what is left out of the buffer that all connections share."""
        received, position = self._received[: self._end], self._position
        count = len(received) - position
        if count >= SIZE_BYTES:
            size = SIZE_BYTES + frame_size(received, position, self._max_frame_bytes)
            if size > SMALL_FRAME_BYTES and count < size:
                self._large, self._filled = self._buffers.keep(received, position, size), count
                self._received, self._position, self._end = _NOTHING, 0, 0
                return
        if received.obj is self._buffers.scratch.obj:
            self._received, self._position, self._end = memoryview(bytearray(received[position:])), 0, count

    @property
    def is_halfway(self) -> bool:
        """Returns whether a frame has begun that is not handed out."""
        return self._large is not None or self._position < self._end

    @property
    def first_bytes(self) -> bytes:
        """Returns the first bytes that are not handed out: they show whether a client speaks another protocol."""
        return bytes(self._received[self._position : min(self._end, self._position + SIZE_BYTES)])
