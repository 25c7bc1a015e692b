"""`.timeindex`: from which offset on a timestamp may be found.

A row is (largest timestamp so far: int64, last offset of the batch that brought it - base offset: int32). It says: no
batch before that one reaches this timestamp. Rows are added together with those of the offset index, but only when
the timestamp has grown; one more is added when the segment is closed, so the last row holds the segment's largest
timestamp, by which retention judges it.
"""

from struct import Struct

from barnabas.storage.segments.index_table import FIRST, IndexTable


class TimeIndex(IndexTable):
    __slots__ = ()

    typecodes = ("q", "i")
    fields = (Struct(">q"), Struct(">i"))
    row_bytes = 12

    def is_full(self, segment_index_bytes: int) -> bool:
        """Returns whether it is full: one row stays free for the closing of the segment."""
        return len(self) >= segment_index_bytes // self.row_bytes - 1

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        last = self.last()
        if timestamp > (last[0] if last else -1):
            self.append(timestamp, relative_offset)

    def relative_offset_before(self, timestamp: int) -> int:
        """Returns the offset from which to look for the first record at or after the timestamp; 0 means the start."""
        slot = self.floor(FIRST, timestamp)
        return self.row(slot)[1] if slot >= 0 else 0
