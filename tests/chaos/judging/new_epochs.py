"""Records that a producer has sent again in a new epoch, which no broker can tell from new ones.

A producer that is refused with OUT_OF_ORDER_SEQUENCE_NUMBER begins a new epoch and sends all that is not acknowledged
once more. Apache Kafka says so by right after a clean stop: it remembers the last batch of each producer only, and does
not know the retry of one before. docs/reliability.md tells of it. In one epoch nothing may be there twice.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.batch_header import header_at
from barnabas.protocol.records import iter_records
from tests.chaos.judging.replicas import DECOMPRESSED_BYTES_MAX, batches


class Epoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class Copies(NamedTuple):
    """How many records of a log are there more than once."""

    in_new_epochs: int
    in_one_epoch: int


def copies_in(folder: Path, end: int) -> Copies:
    """Counts the records that are there again, by their keys: no two records have the same."""
    seen: dict[bytes | None, list[Epoch]] = {}
    new = same = 0
    for batch in batches(folder, end):
        header = header_at(batch.data)
        if header.is_control:
            continue
        epoch = Epoch(header.producer_id, header.producer_epoch)
        for record in iter_records(batch.data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
            before = seen.setdefault(record.key, [])
            if before:
                is_new = epoch not in before and epoch.producer_id == before[-1].producer_id
                new, same = new + is_new, same + (not is_new)
            before.append(epoch)
    return Copies(new, same)


def offsets_of_new_epochs(folders: Iterable[Path], end: int) -> set[int]:
    """Returns the offsets of all records of epochs after the first one of their producer."""
    return {
        offset
        for folder in folders
        for batch in batches(folder, end)
        if header_at(batch.data).producer_epoch > 0
        for offset in range(batch.base_offset, batch.next_offset)
    }
