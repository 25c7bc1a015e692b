"""Compares the replicas of a partition, as they lie on the disks of brokers that have stopped.

Where nothing is compacted they must be the same bytes up to the high watermark. Each replica is compacted by itself, so
of a compacted partition those records must be the same that both have, and so must the newest record of each key.
"""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from barnabas.protocol.batch_header import crc_of, iter_batches
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.records import iter_records

DECOMPRESSED_BYTES_MAX = 1 << 26


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    data: bytes


class Replica(NamedTuple):
    broker: int
    folder: Path


class Damaged(Exception):
    """A log that cannot be read to the end that it should have."""


def batches(folder: Path, end: int) -> Iterator[Batch]:
    """Yields the batches below an offset."""
    for path in sorted(folder.glob("*.log")):
        data = memoryview(path.read_bytes())
        try:
            for position, header in iter_batches(data):
                if header.base_offset >= end:
                    return
                batch = data[position : position + header.size_bytes]
                if crc_of(batch) != header.crc:
                    raise Damaged(f"{path.name}: the batch at offset {header.base_offset} has a wrong CRC")
                yield Batch(header.base_offset, header.next_offset, bytes(batch))
        except ProtocolError as error:
            raise Damaged(f"{path.name}: {error}") from None


def differences(replicas: list[Replica], end: int, *, is_compacted: bool) -> list[str]:
    """Returns how replicas differ from the first one, a sentence each."""
    compare = _compacted_difference if is_compacted else _difference
    first, *others = replicas
    found = []
    for other in others:
        try:
            said = compare(first, other, end)
        except (Damaged, ProtocolError, OSError) as error:
            said = str(error)
        if said is not None:
            found.append(f"{first.folder.name} on brokers {first.broker} and {other.broker}: {said}")
    return found


def _difference(first: Replica, other: Replica, end: int) -> str | None:
    next_offset = 0
    for mine, theirs in zip_longest(batches(first.folder, end), batches(other.folder, end)):
        if mine is None or theirs is None:
            short, long = (first, theirs) if mine is None else (other, mine)
            return f"that of broker {short.broker} ends before offset {long.base_offset}, and should end at {end}"
        if mine != theirs:
            return f"not the same bytes at offsets {mine.base_offset} and {theirs.base_offset}"
        next_offset = mine.next_offset
    return None if next_offset >= end else f"both end at offset {next_offset}, and should end at {end}"


class Record(NamedTuple):
    timestamp: int
    key: bytes | None
    value: bytes | None


def records_of(folder: Path, end: int) -> dict[int, Record]:
    """Returns the records below an offset."""
    return {
        record.offset: Record(record.timestamp, record.key, record.value)
        for batch in batches(folder, end)
        for record in iter_records(batch.data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX)
        if record.offset < end
    }


def _compacted_difference(first: Replica, other: Replica, end: int) -> str | None:
    mine, theirs = records_of(first.folder, end), records_of(other.folder, end)
    for offset in sorted(set(mine) & set(theirs)):
        if mine[offset] != theirs[offset]:
            return f"not the same record at offset {offset}"
    newest, their_newest = _newest(mine), _newest(theirs)
    for key in newest | their_newest:
        if newest.get(key) != their_newest.get(key):
            return f"not the same newest record of key {key!r}: {newest.get(key)} and {their_newest.get(key)}"
    return None


def _newest(records: Mapping[int, Record]) -> dict[bytes | None, tuple[int, bytes]]:
    """Returns the newest record of each key. A tombstone may have been removed by one replica and not by another."""
    newest = {records[offset].key: (offset, records[offset].value) for offset in sorted(records)}
    return {key: (offset, value) for key, (offset, value) in newest.items() if value is not None}
