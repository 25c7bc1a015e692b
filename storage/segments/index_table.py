"""Rows of two ascending integers: the shape of both Kafka indexes.

While a segment grows its rows are two arrays in memory; the file is written when the segment is closed. From then on
rows are read from the file one by one, so a large log with many closed segments keeps nothing of its indexes in
memory. `bisect` does the searching in both cases: a column of the file is a sequence like an array.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from struct import Struct
from typing import ClassVar

from barnabas.base.files import File
from barnabas.storage.segments.file_cache import FileCache

FIRST, SECOND = 0, 1


class FileColumn(Sequence[int]):
    """One column of the rows in a file."""

    __slots__ = ("_at", "_count", "_field", "_file", "_row_bytes")

    def __init__(self, file: File, count: int, row_bytes: int, field: Struct, at: int) -> None:
        self._file = file
        self._count = count
        self._row_bytes = row_bytes
        self._field = field
        self._at = at

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, slot: int) -> int:  # type: ignore[override]  # nobody slices an index
        raw = self._file.pread(self._field.size, slot * self._row_bytes + self._at)
        value: int = self._field.unpack(raw)[0]
        return value


class IndexTable:
    """The rows of one index file."""

    __slots__ = ("_cache", "_columns", "_count", "path")

    typecodes: ClassVar[tuple[str, str]]
    fields: ClassVar[tuple[Struct, Struct]]
    row_bytes: ClassVar[int]

    def __init__(self, path: str, cache: FileCache) -> None:
        """Creates a table that is empty and in memory."""
        self.path = path
        self._cache = cache
        self._columns: tuple[array[int], array[int]] | None = (array(self.typecodes[0]), array(self.typecodes[1]))
        self._count = 0

    def leave_memory(self, count: int) -> None:
        """Drops the rows from memory: the file holds all of them, this many."""
        self._columns = None
        self._count = count

    def __len__(self) -> int:
        return self._count if self._columns is None else len(self._columns[0])

    @property
    def is_in_memory(self) -> bool:
        return self._columns is not None

    def append(self, first: int, second: int) -> None:
        assert self._columns is not None, "a closed segment's index does not grow"
        self._columns[0].append(first)
        self._columns[1].append(second)

    def row(self, slot: int) -> tuple[int, int]:
        return self._column(FIRST)[slot], self._column(SECOND)[slot]

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self.row(count - 1) if count else None

    def floor(self, column: int, value: int) -> int:
        """Returns the slot of the last row whose column is at most `value`; -1 if there is none."""
        return bisect_right(self._column(column), value) - 1

    def _column(self, column: int) -> Sequence[int]:
        if self._columns is not None:
            return self._columns[column]
        at = self.fields[0].size if column else 0
        return FileColumn(self._cache.open(self.path), self._count, self.row_bytes, self.fields[column], at)

    def load(self) -> None:
        """Brings the rows of the file into memory, to be appended to."""
        if self._columns is None:
            data = self._cache.open(self.path).pread(self._count * self.row_bytes, 0) if self._count else b""
            self._columns = self._decode(data)

    def cut(self, column: int, value: int) -> None:
        """Drops the rows whose column is at least `value`."""
        assert self._columns is not None, "a closed segment's index is brought into memory first"
        count = bisect_left(self._columns[column], value)
        del self._columns[0][count:], self._columns[1][count:]

    def clear(self) -> None:
        self._columns = (array(self.typecodes[0]), array(self.typecodes[1]))

    @classmethod
    def _decode(cls, data: bytes) -> "tuple[array[int], array[int]]":
        columns = (array(cls.typecodes[0]), array(cls.typecodes[1]))
        rows = Struct(f">{cls.typecodes[0]}{cls.typecodes[1]}")
        for first, second in rows.iter_unpack(data[: len(data) // rows.size * rows.size]):
            columns[0].append(first)
            columns[1].append(second)
        return columns

    def to_bytes(self) -> bytes:
        """Returns the contents that the file should have."""
        assert self._columns is not None, "the file is the only copy"
        first, second = (_big_endian(column) for column in self._columns)
        width, row_bytes = self.fields[0].size, self.row_bytes
        data = bytearray(len(self) * row_bytes)
        for byte in range(width):
            data[byte::row_bytes] = first[byte::width]
        for byte in range(row_bytes - width):
            data[width + byte :: row_bytes] = second[byte :: row_bytes - width]
        return bytes(data)


def _big_endian(column: "array[int]") -> bytes:
    if sys.byteorder == "little":
        column = column[:]
        column.byteswap()
    return column.tobytes()
