"""`.index`: where in the segment a batch begins.

A row is (last offset of a batch - the segment's base offset, position of that batch), both int32. One is added when
more than index.interval.bytes lie after the last, so a lookup finds a row at or below the offset and walks on from
there. A row read from a file is only a hint: its user checks it against the batch it names, and a file that is wrong
is rebuilt from the log.
"""

from struct import Struct

from barnabas.storage.segments.index_table import FIRST, SECOND, IndexTable

_INT32 = Struct(">i")


class OffsetIndex(IndexTable):
    __slots__ = ()

    typecodes = ("i", "i")
    fields = (_INT32, _INT32)
    row_bytes = 8

    def is_full(self, segment_index_bytes: int) -> bool:
        return len(self) >= segment_index_bytes // self.row_bytes

    def slot_of_offset(self, relative_offset: int) -> int:
        """Returns the last row at or below the offset; -1 means the segment's start."""
        return self.floor(FIRST, relative_offset)

    def slot_of_position(self, position: int) -> int:
        """Returns the last row whose batch begins at or before the position; -1 if none does."""
        return self.floor(SECOND, position)
