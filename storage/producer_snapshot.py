"""The `.snapshot` files: what is known of the producers of a log at one offset, so that a start reads few batches.

Kafka's files have a row for the last batch of each producer. Ours have one for each batch that is kept, the latest
last, which is the one that Kafka takes. With less, a client that has several batches under way while its broker starts
again would be refused, or some of its records stored twice.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError

from barnabas.protocol.batch_header import NO_SEQUENCE, NO_TIMESTAMP
from barnabas.protocol.crc32c import crc32c
from barnabas.storage.producer_state import (
    BATCHES_RETAINED,
    NO_TRANSACTION,
    BatchMetadata,
    ProducerEntry,
    ProducerState,
)

_VERSION = 1
_HEADER = Struct(">hIi")
_ROW = Struct(">qhiqiqiq")
_CRC_FROM = 6


class CorruptSnapshot(Exception):
    """The file is no producer snapshot; an older one must do."""


def snapshot_of(producers: ProducerState) -> bytes:
    rows = [row for producer_id, entry in producers.entries() for row in _rows_of(producer_id, entry)]
    data = bytearray(_HEADER.size) + b"".join(rows)
    _HEADER.pack_into(data, 0, _VERSION, 0, len(rows))
    crc = crc32c(memoryview(data)[_CRC_FROM:])
    _HEADER.pack_into(data, 0, _VERSION, crc, len(rows))
    return bytes(data)


def read_snapshot(data: bytes) -> list[tuple[int, ProducerEntry]]:
    try:
        version, crc, count = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise CorruptSnapshot(f"version {version} instead of {_VERSION}")
        if crc != crc32c(memoryview(data)[_CRC_FROM:]):
            raise CorruptSnapshot("the CRC does not match")
        rows = list(_ROW.iter_unpack(memoryview(data)[_HEADER.size :]))
    except StructError:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold the entries they announce") from None
    if len(rows) != count:
        raise CorruptSnapshot(f"{len(rows)} entries instead of {count}")
    entries: dict[int, ProducerEntry] = {}
    for row in rows:
        producer_id, entry = _entry_of_row(*row)
        before = entries.get(producer_id)
        if before is not None and before.producer_epoch == entry.producer_epoch:
            entry.batches = (*before.batches, *entry.batches)[-BATCHES_RETAINED:]
        entries[producer_id] = entry
    return list(entries.items())


def _rows_of(producer_id: int, entry: ProducerEntry) -> Iterator[bytes]:
    """Yields a row for each batch. No row is later than the last one, so that the others do not outlive it in Kafka."""
    for batch in entry.batches[:-1]:
        yield _ROW.pack(
            producer_id, entry.producer_epoch, batch.last_sequence, batch.last_offset, batch.offset_delta,
            min(batch.timestamp, entry.last_timestamp), entry.coordinator_epoch, NO_TRANSACTION,
        )  # fmt: skip
    last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, NO_TIMESTAMP)
    yield _ROW.pack(
        producer_id, entry.producer_epoch, last.last_sequence, last.last_offset, last.offset_delta,
        entry.last_timestamp, entry.coordinator_epoch, entry.current_txn_first_offset,
    )  # fmt: skip


def _entry_of_row(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> tuple[int, ProducerEntry]:
    batches = (BatchMetadata(last_sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else ()
    return producer_id, ProducerEntry(producer_epoch, batches, timestamp, coordinator_epoch, current_txn_first_offset)
