"""`.txnindex`: the aborted transactions of a segment, for readers of committed records and for compaction.

A row is (version 0, producer id, first offset, last offset, last stable offset) and lies with the segment in which the
transaction ended. All rows of a log are in memory: few transactions are aborted. They reach the file when the segment
is sealed, like the other indexes; after a crash they are found again in every segment that recovery walks over.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from struct import Struct

from barnabas.protocol.named_tuple import NamedTuple
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


class AbortedTransactions:
    """The rows of all segments of one log, by the base offset of the segment in which each transaction ended."""

    __slots__ = ("_bases", "_by_segment")

    def __init__(self) -> None:
        self._by_segment: dict[int, list[AbortedTransaction]] = {}
        """Rows in the order of their markers."""
        self._bases: list[int] = []
        """The keys, ascending."""

    def __bool__(self) -> bool:
        return bool(self._bases)

    def of_segment(self, base_offset: int) -> list[AbortedTransaction]:
        return self._by_segment.get(base_offset, [])

    def add(self, base_offset: int, row: AbortedTransaction) -> None:
        rows = self._by_segment.get(base_offset)
        if rows is None:
            self.replace(base_offset, [row])
        else:
            rows.append(row)

    def replace(self, base_offset: int, rows: list[AbortedTransaction]) -> None:
        if not rows:
            self.remove_segment(base_offset)
            return
        if base_offset not in self._by_segment:
            insort(self._bases, base_offset)
        self._by_segment[base_offset] = rows

    def remove_segment(self, base_offset: int) -> None:
        if self._by_segment.pop(base_offset, None) is not None:
            self._bases.remove(base_offset)

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Returns the transactions that reach into this range, ordered by first offset.

        One that ended before it must not be among them: a reader drops all records of its producer until it comes upon
        the marker, which it would never meet. The search begins at the first row that ends in the range or beyond it,
        and is over with the first after which everything below the range's end was decided.
        """
        found: list[AbortedTransaction] = []
        for base_offset in self._bases[max(bisect_right(self._bases, start_offset) - 1, 0) :]:
            rows = self._by_segment[base_offset]
            for slot in range(bisect_left(rows, start_offset, key=_last_offset), len(rows)):
                row = rows[slot]
                if row.first_offset < end_offset:
                    found.append(row)
                if row.last_stable_offset >= end_offset:
                    return sorted(found)
        return sorted(found)

    def files_of(self, directory: str, segments: Iterable[Segment]) -> Iterator[tuple[str, bytes]]:
        """Yields the files that these segments must have, and what each must hold."""
        for segment in segments:
            if rows := self._by_segment.get(segment.base_offset):
                yield f"{directory}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}", encode_aborted(rows)


def _last_offset(row: AbortedTransaction) -> int:
    return row.last_offset
