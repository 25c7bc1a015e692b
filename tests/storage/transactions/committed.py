"""A reader of committed records, as clients are, and what it must find: what a history of batches says by itself."""

from collections import deque
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from barnabas.protocol.batch_header import NO_PRODUCER_ID, BatchHeader, iter_batches
from barnabas.protocol.records import ControlType, control_type_of, iter_records
from barnabas.storage.log import Log

_FETCH_BYTES = (1, 200, 1_000, 100_000)


def read_committed(log: Log, offset: int, random: Random, *, is_compacted: bool = False) -> list[BatchHeader]:
    """Returns the batches that a client hands on, which fetches now little and now much. As clients do, it drops what a
    producer has written from the first offset of an aborted transaction on, up to the marker of the abort."""
    returned: list[BatchHeader] = []
    max_offset = log.last_stable_offset
    while (found := log.read(offset, random.choice(_FETCH_BYTES), max_offset=max_offset)) is not None:
        aborted, dropped, data = deque(log.aborted_in(offset, found)), set[int](), found.read()
        assert list(aborted) == sorted(aborted), "there are clients that rely on the order"
        for position, header in iter_batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                dropped.add(aborted.popleft().producer_id)
            if header.is_control:
                if _is_abort(data[position : position + header.size_bytes]):
                    dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in dropped):
                returned.append(header)
            offset = header.next_offset
        assert is_compacted or not aborted, "more is told than what was read"
    return returned


def _is_abort(marker: bytes) -> bool:
    return any(
        control_type_of(record) == ControlType.ABORT for record in iter_records(marker, max_decompressed_bytes=99)
    )


class Written(NamedTuple):
    base_offset: int
    next_offset: int
    producer_id: int = NO_PRODUCER_ID
    """Set for what belongs to a transaction."""
    ends: ControlType | None = None
    """Set for a marker."""


class Transactions:
    """What became of the transactions of a history."""

    def __init__(self, history: Iterable[Written]) -> None:
        self.open: dict[int, list[Written]] = {}
        """The batches of each transaction that is not ended, by producer."""
        self.ended: list[tuple[list[Written], int]] = []
        """The batches of each, and the offset of its marker."""
        self.rows: list[tuple[int, int]] = []
        """Where each that was aborted began, and the offset of its marker."""
        self.aborted: set[int] = set()
        """The base offsets of their batches."""
        for batch in history:
            if batch.ends is not None:
                self._end(batch)
            elif batch.producer_id != NO_PRODUCER_ID:
                self.open.setdefault(batch.producer_id, []).append(batch)

    def _end(self, marker: Written) -> None:
        batches = self.open.pop(marker.producer_id, None)
        if batches is not None:
            self.ended.append((batches, marker.base_offset))
            if marker.ends is ControlType.ABORT:
                self.rows.append((batches[0].base_offset, marker.base_offset))
                self.aborted.update(batch.base_offset for batch in batches)

    def last_stable_offset(self, high_watermark: int) -> int:
        return min([high_watermark, *(batches[0].base_offset for batches in self.unstable(high_watermark))])

    def unstable(self, high_watermark: int) -> list[list[Written]]:
        """Returns the batches of each transaction whose outcome is not committed."""
        return [*self.open.values(), *(batches for batches, marker in self.ended if marker >= high_watermark)]


def check_committed(log: Log, history: Iterable[Written], random: Random) -> None:
    """What is read from any offset on is every committed batch, once, and nothing else. For a log that was not
    compacted; what lies below its start may be forgotten."""
    history = list(history)
    transactions = Transactions(history)
    stable, start = log.last_stable_offset, log.log_start_offset
    for batches in transactions.unstable(log.high_watermark):
        left = [batch for batch in batches if batch.next_offset > start]
        assert not left or stable <= max(left[0].base_offset, start), "a transaction is told that may end otherwise"
    if log.high_watermark == log.log_end_offset:  # otherwise caution may hold it back further
        assert stable >= min(max(transactions.last_stable_offset(log.high_watermark), start), log.high_watermark)
    offset = random.randint(start, max(stable, start))
    expected = [
        batch.base_offset
        for batch in history
        if batch.ends is None and offset < batch.next_offset <= stable
        if batch.base_offset not in transactions.aborted
    ]
    found = [header.base_offset for header in read_committed(log, offset, random)]
    assert found == expected, f"from {offset} to {stable}: {found} instead of {expected}"
