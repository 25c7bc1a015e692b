"""How much of throttled replicas may be copied, and when. Pure: it is told what was copied, and the time.

Rules, which are Kafka's:
- What is copied is counted in windows. The rate is all that is counted, divided by the time since the oldest window
  began; a single window counts as a whole one, because a rate over a moment means nothing.
- A window is forgotten when nothing was added to it for as long as all of them last.
- What exceeds the rate is not cut short: it is copied, and the next has to wait longer. So a batch of any size passes.
"""

from collections import deque


class _Window:
    __slots__ = ("latest_ms", "size", "start_ms")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.latest_ms = now_ms
        self.size = 0


class ReplicationQuota:
    __slots__ = ("_count", "_size", "_window_ms", "_windows", "bytes_per_second")

    def __init__(self, window_count: int, window_ms: int, bytes_per_second: int | None = None) -> None:
        self._count = window_count
        self._window_ms = window_ms
        self._windows: deque[_Window] = deque()
        self._size = 0
        self.bytes_per_second = bytes_per_second
        """The rate; None: no limit."""

    def record(self, size: int, now_ms: int) -> None:
        """Counts what is copied, whether it exceeds the rate or not."""
        self._forget(now_ms)
        windows = self._windows
        if not windows or now_ms - windows[-1].start_ms >= self._window_ms:
            windows.append(_Window(now_ms))
            if len(windows) > self._count + 1:  # one more: the oldest has begun before the time that counts
                self._size -= windows.popleft().size
        latest = windows[-1]
        latest.size += size
        latest.latest_ms = now_ms
        self._size += size

    def wait_ms(self, now_ms: int) -> int:
        """Returns when to ask again, because nothing may be copied now; 0 if something may be."""
        self._forget(now_ms)
        rate = self.bytes_per_second
        if rate is None or not self._windows:
            return 0
        oldest = self._windows[0]
        elapsed_ms = now_ms - oldest.start_ms
        if self._size * 1000 <= rate * max(elapsed_ms, self._window_ms):
            return 0
        forgotten_in_ms = oldest.latest_ms + self._count * self._window_ms - now_ms
        return min(forgotten_in_ms, -(-self._size * 1000 // rate) - elapsed_ms) if rate else forgotten_in_ms

    def _forget(self, now_ms: int) -> None:
        windows, age_ms = self._windows, self._count * self._window_ms
        while windows and now_ms - windows[0].latest_ms >= age_ms:
            self._size -= windows.popleft().size
