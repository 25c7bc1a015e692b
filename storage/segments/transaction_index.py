"""`.txnindex`: the aborted transactions of a segment, for readers of committed records and for compaction.

A row is (version 0, producer id, first offset, last offset, last stable offset) and lies with the segment in which the
transaction ended. All rows of a log are in memory: few transactions are aborted. A row reaches its file when the marker
is appended; the file is written again, and synced, when the segment is sealed, and after a crash it is rebuilt from the
batches of every segment that recovery walks over.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.base.files import Files
from barnabas.storage.segments.segment import TXN_INDEX_SUFFIX, Segment, file_name

_ROW = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    first_offset: int
    producer_id: int
    last_offset: int
    last_stable_offset: int


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    rows = _ROW.iter_unpack(data[: len(data) // _ROW.size * _ROW.size])
    return [AbortedTransaction(first, producer_id, last, stable) for _, producer_id, first, last, stable in rows]


def encode_aborted(rows: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _ROW.pack(_VERSION, row.producer_id, row.first_offset, row.last_offset, row.last_stable_offset) for row in rows
    )


def read_aborted(files: Files, directory: str) -> list[AbortedTransaction]:
    """Returns the rows of all segments."""
    rows: list[AbortedTransaction] = []
    for name in files.listdir(directory):
        if name.endswith(TXN_INDEX_SUFFIX):
            try:
                rows += decode_aborted(files.read_bytes(f"{directory}/{name}"))
            except FileNotFoundError:
                pass  # retention has just deleted the segment: what it held ends before those that are left
    return rows


class AbortedTransactions:
    """The rows of all segments of one log, by the base offset of the segment in which each transaction ended."""

    __slots__ = ("_by_segment",)

    def __init__(self) -> None:
        self._by_segment: dict[int, list[AbortedTransaction]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_segment)

    def of_segment(self, base_offset: int) -> list[AbortedTransaction]:
        return self._by_segment.get(base_offset, [])

    def add(self, base_offset: int, row: AbortedTransaction) -> None:
        self._by_segment.setdefault(base_offset, []).append(row)

    def replace(self, base_offset: int, rows: list[AbortedTransaction]) -> None:
        if rows:
            self._by_segment[base_offset] = rows
        else:
            self._by_segment.pop(base_offset, None)

    def remove_segment(self, base_offset: int) -> None:
        self._by_segment.pop(base_offset, None)

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Returns the transactions that reach into this range, ordered by first offset."""
        rows = (row for rows in self._by_segment.values() for row in rows)
        return sorted(row for row in rows if row.first_offset < end_offset and row.last_offset >= start_offset)

    def files_of(self, directory: str, segments: Iterable[Segment]) -> Iterator[tuple[str, bytes]]:
        """Yields the files that these segments must have, and what each must hold."""
        for segment in segments:
            if rows := self._by_segment.get(segment.base_offset):
                yield f"{directory}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}", encode_aborted(rows)
