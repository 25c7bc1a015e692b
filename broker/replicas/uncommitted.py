"""The appends of one leader that are not committed: how much each of them will make readable, and its bytes.

The bytes are kept because each follower asks for them in a moment. Where many partitions have one small batch each, to
find a batch in its file and to read it there costs more than all else that an answer says of its partition. Few are
kept, and no longer than they are uncommitted; what is not here is read from the log.
"""

from collections import deque

_APPENDS_MAX = 10_000
_KEPT_BYTES_MAX = 4_096
"""Of one partition: thousands of them may wait for a follower that is slow."""

_Append = tuple[int, int, int, bytes | None]
"""Base offset, end offset, size, and the bytes if they are kept."""


class Uncommitted:
    __slots__ = ("_kept_bytes", "appends")

    def __init__(self) -> None:
        self.appends: deque[_Append] = deque()
        self._kept_bytes = 0

    def add(self, base_offset: int, end_offset: int, data: memoryview) -> None:
        """Notes an append, whose bytes are those of the log."""
        appends, size = self.appends, len(data)
        if len(appends) >= _APPENDS_MAX:  # nothing is committed for a long time, and acks=1 goes on
            base_offset, _, merged_bytes, kept = appends.pop()
            if kept is not None:
                self._kept_bytes -= merged_bytes
            appends.append((base_offset, end_offset, size + merged_bytes, None))
        elif self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept_bytes += size
            appends.append((base_offset, end_offset, size, bytes(data)))
        else:
            appends.append((base_offset, end_offset, size, None))

    def committed(self, high_watermark: int) -> int:
        """Forgets what lies below the high watermark. Returns how many bytes that is."""
        appends, committed_bytes = self.appends, 0
        while appends and appends[0][1] <= high_watermark:
            _, _, size, kept = appends.popleft()
            committed_bytes += size
            if kept is not None:
                self._kept_bytes -= size
        return committed_bytes

    def since(self, offset: int, max_bytes: int) -> bytes | None:
        """Returns all that was appended from this offset on; None unless all of it is kept, and not more than that."""
        found: list[bytes] = []
        for base_offset, _, size, kept in reversed(self.appends):
            max_bytes -= size
            if kept is None or max_bytes < 0:
                return None
            if base_offset <= offset:
                if base_offset != offset:
                    return None
                if not found:
                    return kept
                found.append(kept)
                found.reverse()
                return b"".join(found)
            found.append(kept)
        return None
