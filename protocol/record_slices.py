"""Records as slices of their batch, for compaction, which copies some of them and drops others.

Nothing is built that is not needed: a slice says where a record lies, its key, and whether it has a value. A record
that is kept is copied as it stands; only its timestamp delta is written again, if the base timestamp has changed.
"""

from collections.abc import Iterator, Sequence

from barnabas.protocol.batch_builder import put_varint
from barnabas.protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC,
    CRC_AT,
    CRC_COVERS_FROM,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from barnabas.protocol.compression import compress
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import CorruptMessage
from barnabas.protocol.records import record_extent, records_data, unsigned_varint
from barnabas.protocol.types import Buffer

RecordSlice = tuple[int, int, int, int, int, bytes | None, bool]
"""Start, end, timestamp delta, where the offset delta and all that follows it begins, offset delta, key, and whether
there is a value. A bare tuple: naming the fields would cost as much time as finding them."""


def slices_of(batch: Buffer, header: BatchHeader, max_decompressed_bytes: int) -> tuple[bytes, Iterator[RecordSlice]]:
    """Returns the records' bytes, and the place of each record in them."""
    data = records_data(batch, header, max_decompressed_bytes)
    return data, _slices(data, header)


def _slices(data: bytes, header: BatchHeader) -> Iterator[RecordSlice]:
    """Yields the slices. Varints of one and two bytes are read here: a call for each would take most of the time."""
    position, size, delta_min = 0, len(data), 0
    try:
        for _ in range(header.records_count):
            start = position
            if (length := data[position]) < 0x80 and not length & 1 and position + (length >> 1) < size:
                position += 1
                end = position + (length >> 1)
            else:
                end, position = record_extent(data, position)
            if (delta := data[position + 1]) < 0x80:
                position += 2
            else:
                delta, position = unsigned_varint(data, position + 1, 64)
            body_at = position
            if (offset_delta := data[position]) < 0x80:
                position += 1
            else:
                offset_delta, position = unsigned_varint(data, position, 32)
            if (length := data[position]) < 0x80:
                position += 1
            else:
                length, position = unsigned_varint(data, position, 32)
            if length & 1:
                key = None
            else:
                key = data[position : position + (length >> 1)]
                position += length >> 1
            if position >= end or offset_delta & 1 or offset_delta >> 1 < delta_min:
                raise CorruptMessage(f"record {delta_min} of the batch at offset {header.base_offset} makes no sense")
            delta_min = (offset_delta >> 1) + 1
            yield start, end, delta >> 1 ^ -(delta & 1), body_at, offset_delta >> 1, key, not data[position] & 1
            position = end
    except IndexError:
        raise CorruptMessage("the batch ends inside a record") from None
    if position != size:
        raise CorruptMessage(f"{size - position} bytes follow the last of {header.records_count} records")


def rebuilt(
    header: BatchHeader,
    data: bytes,
    kept: Sequence[tuple[int, int, int, int, int, bytes | None, bool]],
    delete_horizon_ms: int | None,
) -> bytearray:
    """Returns the batch with only these of its records. They keep their offsets, the batch its offset range and
    sequences."""
    is_log_append_time = header.is_log_append_time
    timestamps = [
        header.max_timestamp if is_log_append_time else header.base_timestamp + timestamp_delta
        for _, _, timestamp_delta, _, _, _, _ in kept
    ]
    base_timestamp = timestamps[0] if delete_horizon_ms is None else delete_horizon_ms
    records = bytearray()
    for (start, end, timestamp_delta, body_at, _, _, _), timestamp in zip(kept, timestamps):
        if timestamp - base_timestamp == timestamp_delta:
            records += data[start:end]
        else:
            _put_with_timestamp(records, timestamp - base_timestamp, data[body_at:end])
    attributes = header.attributes & (COMPRESSION_MASK | LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_FLAG
    return _packed(header, attributes, base_timestamp, max(timestamps), len(kept), records)


def _put_with_timestamp(records: bytearray, timestamp_delta: int, body: bytes) -> None:
    record = bytearray(1)
    put_varint(record, timestamp_delta)
    put_varint(records, len(record) + len(body))
    records += record
    records += body


def emptied(header: BatchHeader) -> bytearray:
    """Returns the batch without a record: what is left says where its producer stands, or where the log ends."""
    attributes = header.attributes & (LOG_APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
    return _packed(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, bytearray())


def _packed(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: bytearray
) -> bytearray:
    codec = attributes & COMPRESSION_MASK
    payload = compress(codec, records) if codec else records
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch, 0, header.base_offset, HEADER_BYTES - LOG_OVERHEAD + len(payload), header.partition_leader_epoch,
        header.magic, 0, attributes, header.last_offset_delta, base_timestamp, max_timestamp, header.producer_id,
        header.producer_epoch, header.base_sequence, count,
    )  # fmt: skip
    batch += payload
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_COVERS_FROM:]))
    return batch
