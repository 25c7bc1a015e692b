"""Opens partitions without holding up requests: a few at once, the others a few at a time between requests.

Creating one takes several system calls, and a file system may need a millisecond for each of them, as ext4 without a
journal does for a minute after many files were deleted. A request may bring a thousand topics, and a topic ten thousand
partitions.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.base.environment import Clock

if TYPE_CHECKING:
    from barnabas.protocol.types import TopicPartition

AT_ONCE = 32
"""How many partitions a change of the metadata may open before those who wait for it are told."""
_OPENING_MS = 5
_BREATH_MS = 5


class OpeningQueue:
    def __init__(self, clock: Clock, open_one: "Callable[[TopicPartition, bool], None]") -> None:
        """Calls `open_one` with each partition, and with whether it was created just now."""
        self._clock = clock
        self._open = open_one
        self._queue: deque[tuple[TopicPartition, bool]] = deque()
        self._left_at_once = 0

    def begin_change(self) -> None:
        """Lets the next few partitions be opened at once."""
        self._left_at_once = AT_ONCE

    def create(self, names: "Sequence[TopicPartition]") -> None:
        """Opens what a change of the metadata brings: as much at once as the change has left, the others later."""
        at_once, later = names[: self._left_at_once], names[self._left_at_once :]
        self._left_at_once -= len(at_once)
        for name in at_once:
            self._open(name, True)
        self.open_later(later, are_new=True)

    def open_later(self, names: "Sequence[TopicPartition]", *, are_new: bool) -> None:
        was_idle = not self._queue
        self._queue.extend((name, are_new) for name in names)
        if was_idle and self._queue:
            self._clock.call_soon(self._open_some)

    def _open_some(self) -> None:
        deadline_ms = self._clock.monotonic_ms() + _OPENING_MS
        while self._queue and self._clock.monotonic_ms() < deadline_ms:
            self._open(*self._queue.popleft())
        if self._queue:
            self._clock.call_later(_BREATH_MS, self._open_some)

    def close(self) -> None:
        """Opens nothing more."""
        self._queue.clear()
