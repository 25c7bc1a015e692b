"""Where received bytes land.

Every connection of a loop reads into the same scratch buffer: what is handled at once is never copied, and a thousand
idle connections own no memory. Only a large frame that is still incomplete moves to a buffer of its own. That one grows
as bytes arrive, not as the frame's size promises, and goes back to a small pool, so that its pages stay warm.
"""

SCRATCH_BYTES = 256 * 1024
FIRST_BYTES = 16 * 1024
POOLED_BYTES = 1024 * 1024
_POOL_LIMIT = 8


class Buffers:
    __slots__ = ("_pool", "scratch")

    def __init__(self) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._pool: list[memoryview] = []

    def take(self, frame_bytes: int, received_bytes: int) -> memoryview:
        """For a frame of this size. Who only promises one gets little: a thousand promises must stay cheap."""
        is_large = frame_bytes > POOLED_BYTES // 8
        if is_large and self._pool:
            return self._pool.pop()
        if received_bytes < FIRST_BYTES:
            return memoryview(bytearray(min(frame_bytes, FIRST_BYTES)))
        return memoryview(bytearray(POOLED_BYTES if is_large else frame_bytes))

    def grown(self, buffer: memoryview, frame_bytes: int) -> memoryview:
        if len(buffer) < POOLED_BYTES:
            larger = self.take(frame_bytes, len(buffer))
        else:
            larger = memoryview(bytearray(min(frame_bytes, 2 * len(buffer))))
        larger[: len(buffer)] = buffer
        self.give_back(buffer)
        return larger

    def give_back(self, buffer: memoryview) -> None:
        if len(buffer) == POOLED_BYTES and len(self._pool) < _POOL_LIMIT:
            self._pool.append(buffer)
