"""Where received bytes land.

Every connection of a loop reads into the same scratch buffer: what is handled at once is never copied, and a thousand
idle connections own no memory. Only a large frame that is still incomplete has a buffer of its own: the scratch buffer
itself, for which another one steps in, or, if little of it has come, a copy. The copy grows as bytes arrive, not as
the frame's size promises. Both go back to a small pool, so that their pages stay warm.

What a follower fetches is often larger than the scratch buffer. To take new memory for it, and to move what has come so
far, would cost more than to receive it: two larger buffers are kept for the next such frames.
"""

FIRST_BYTES = 16 * 1024
POOLED_BYTES = 1024 * 1024
_WORTH_A_BUFFER = 64 * 1024  # fewer bytes are copied: a buffer that was in use may have all its pages in memory
_POOL_LIMIT = 8
_LARGER_LIMIT = 2
_LARGER_BYTES_MAX = 8 * POOLED_BYTES


class Buffers:
    __slots__ = ("_larger", "_pool", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(POOLED_BYTES))
        self._pool: list[memoryview] = []
        self._larger: list[memoryview] = []  # the largest last

    def keep(self, received: memoryview, start: int, frame_bytes: int) -> memoryview:
        """Returns a buffer that begins with the bytes received from `start` on: part of a frame of this size."""
        count = len(received) - start
        if frame_bytes > POOLED_BYTES and count >= _WORTH_A_BUFFER and self._larger:
            buffer = self._larger.pop()
        elif not start and count >= _WORTH_A_BUFFER and received.obj is self.scratch.obj:
            buffer = self.scratch
            self.scratch = self._pool.pop() if self._pool else memoryview(bytearray(POOLED_BYTES))
            return buffer
        else:
            buffer = self._taken(frame_bytes, count)
        buffer[:count] = received[start:]
        return buffer

    def grown(self, buffer: memoryview, frame_bytes: int) -> memoryview:
        if len(buffer) < POOLED_BYTES:
            larger = self._taken(frame_bytes, len(buffer))
        elif self._larger and len(self._larger[-1]) > len(buffer):
            larger = self._larger.pop()
        else:
            size = 2 * len(buffer)  # whole powers of two, so that the next frame, of another size, fits as well
            larger = memoryview(bytearray(size if size <= _LARGER_BYTES_MAX else min(frame_bytes, size)))
        larger[: len(buffer)] = buffer
        self.give_back(buffer)
        return larger

    def give_back(self, buffer: memoryview) -> None:
        if len(buffer) == POOLED_BYTES and len(self._pool) < _POOL_LIMIT:
            self._pool.append(buffer)
        elif POOLED_BYTES < len(buffer) <= _LARGER_BYTES_MAX:
            self._larger = sorted((*self._larger, buffer), key=len)[-_LARGER_LIMIT:]

    def _taken(self, frame_bytes: int, received_bytes: int) -> memoryview:
        """Returns a buffer for a frame of this size; a small one at first: a thousand promises must stay cheap."""
        is_large = frame_bytes > POOLED_BYTES // 8
        if is_large and self._pool:
            return self._pool.pop()
        if received_bytes < FIRST_BYTES:
            return memoryview(bytearray(min(frame_bytes, FIRST_BYTES)))
        return memoryview(bytearray(POOLED_BYTES if is_large else frame_bytes))
