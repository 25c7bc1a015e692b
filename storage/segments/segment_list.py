"""The segments of a log in order of offsets, and the way from an offset to a slice of one of them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from barnabas.base.files import FileSlice
from barnabas.storage.segments.batches import header_in
from barnabas.storage.segments.segment import Segment

_CURSORS_MAX = 8


class SegmentList:
    """Never empty. The last segment is the active one."""

    __slots__ = ("_bases", "_cursors", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments, "a log has at least its active segment"
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._cursors: dict[int, int] = {}
        """Offsets up to which the active segment was read, and their positions."""
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, slot: int) -> Segment:
        return self._segments[slot]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def append(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self._cursors.clear()
        self.active = segment

    def truncate(self, count: int, segment: Segment) -> list[Segment]:
        """Keeps the first `count` segments; `segment` is the active one from here on. Returns those that are gone."""
        removed = self._segments[count:]
        del self._segments[count:], self._bases[count:]
        self.append(segment)
        return removed

    def count_below(self, offset: int) -> int:
        """Returns how many segments lie wholly below the offset; the active one never counts."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def remove_first(self, count: int) -> list[Segment]:
        assert count < len(self._segments), "the active segment stays"
        removed = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return removed

    def slots_of(self, bases: Sequence[int]) -> slice | None:
        """Returns the slots of the closed segments with these base offsets; None if they do not stand in a row."""
        start = bisect_left(self._bases, bases[0])
        slots = slice(start, start + len(bases))
        return slots if self._bases[slots] == list(bases) and slots.stop < len(self._bases) else None

    def in_slots(self, slots: slice) -> list[Segment]:
        return self._segments[slots]

    def replace(self, slots: slice, segment: Segment) -> None:
        self._segments[slots] = [segment]
        self._bases[slots] = [segment.base_offset]

    # ---- reading

    def read(
        self, offset: int, max_bytes: int, *, max_offset: int, end_offset: int, at_least_one: bool
    ) -> FileSlice | None:
        """Returns whole batches from the one that holds `offset` up to `max_offset`, which is at most `end_offset`."""
        while offset < self._bases[-1]:
            slot = self.count_below(offset)
            segment = self._segments[slot]
            start = segment.position_of(offset)
            next_base = self._bases[slot + 1]
            if start < segment.size:
                limit = segment.size if max_offset >= next_base else segment.position_of(max_offset)
                return _slice(segment, start, segment.end_of_batches(start, max_bytes, limit), limit, at_least_one)
            if next_base >= max_offset:
                return None
            offset = next_base  # compaction removed every record from the offset to this segment's end
        return self._read_active(offset, max_bytes, max_offset, end_offset, at_least_one)

    def _read_active(
        self, offset: int, max_bytes: int, max_offset: int, end_offset: int, at_least_one: bool
    ) -> FileSlice | None:
        segment = self.active
        start = self._cursors.get(offset)
        if start is None:
            start = segment.position_of(offset)
        limit = segment.size
        if max_offset < end_offset:
            position = self._cursors.get(max_offset)
            limit = segment.position_of(max_offset) if position is None else position
        end = segment.end_of_batches(start, max_bytes, limit)
        if end == limit:
            self.remember(max_offset, limit)
        return _slice(segment, start, end, limit, at_least_one)

    def end_offset_of(self, found: FileSlice) -> int | None:
        """Returns the offset at which what was read just now ends: where the next batch or segment begins. None if
        nothing follows."""
        first, end = header_in(found.file, found.position), found.position + found.size
        assert first is not None, f"no batch at {found.position}"
        slot = self.count_below(first.base_offset)
        if end < self._segments[slot].size:
            return self._segments[slot].base_offset_at(end)
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else None

    def unread_bytes(self, offset: int, max_offset: int) -> int | None:
        """Returns the bytes between the two; None if they are in different segments: no read crosses that border."""
        slot = self.count_below(offset)
        if slot != self.count_below(max_offset):
            return None
        segment = self._segments[slot]
        return segment.position_of(max_offset) - segment.position_of(offset)

    def remember(self, offset: int, position: int) -> None:
        """Remembers where a reader stopped: it comes back for what follows, and finds it without a search."""
        cursors = self._cursors
        if offset not in cursors:
            if len(cursors) >= _CURSORS_MAX:
                del cursors[next(iter(cursors))]
            cursors[offset] = position


def _slice(segment: Segment, start: int, end: int, limit: int, at_least_one: bool) -> FileSlice | None:
    if end <= start:
        if not at_least_one or limit <= start:
            return None
        end = segment.end_of_batch(start)
    return FileSlice(segment.file(), start, end - start)
