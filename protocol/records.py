"""The records of a RecordBatch v2, for code that needs more than its header. `batch_builder.py` writes them.

Rules:
- Bytes come from strangers. Those that are no batch raise `ProtocolError` (they cannot even be cut out of the stream);
  a batch of nonsense raises `CorruptMessage`. Nothing else escapes; memory is bounded by what the caller allows.
- `batch` is a buffer that starts at a batch; functions that take one need it whole.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum

from barnabas.protocol.batch_header import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    header_at,
)
from barnabas.protocol.errors import CorruptMessage, MessageTooLarge, ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import Buffer

CONTROL_KEY = struct.Struct(">hh")
"""The key of a control record: version, type."""
END_TRANSACTION_VALUE = struct.Struct(">hi")
"""The value of an end-transaction marker: version, coordinator epoch."""

_INT64_MAX = 2**63 - 1
_HEADERS_MAX = 2**31 - 1
_tuple_new = tuple.__new__


class Header(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    """A header's key that is no UTF-8 carries its bytes as surrogate escapes: writing it again loses nothing."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class NewRecord(NamedTuple):
    """The input of `build_batch`; any tuple of these four will do."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = NO_TIMESTAMP


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def iter_records(batch: Buffer, *, max_decompressed_bytes: int, max_headers: int = _HEADERS_MAX) -> Iterator[Record]:
    """Yields the records in order. Nonsense may show only at the end: to refuse a bad batch, read it whole first. The
    records of a batch have no more than `max_headers` together: a few compressed kilobytes can claim millions."""
    header = header_at(batch)
    data = records_data(batch, header, max_decompressed_bytes)
    position, headers_left = 0, max_headers
    delta_min = 0
    try:
        for _ in range(header.records_count):
            offset_delta, record, position = _record_at(data, position, header, headers_left)
            headers_left -= len(record.headers)
            if offset_delta < delta_min:
                raise CorruptMessage(f"offset delta {offset_delta} where at least {delta_min} must stand")
            delta_min = offset_delta + 1
            yield record
    except IndexError:
        raise CorruptMessage("the batch ends inside a record") from None
    if delta_min > header.last_offset_delta + 1:
        raise CorruptMessage(f"offset delta {delta_min - 1} above the last one, {header.last_offset_delta}")
    if position != len(data):
        raise CorruptMessage(f"{len(data) - position} bytes follow the last of {header.records_count} records")


def has_null_key(batch: Buffer, max_decompressed_bytes: int) -> bool:
    """Returns whether any record lacks a key, which compacted topics refuse. Reads no further than the key's length.

    Varints of one byte, and offset deltas of two, are skipped here: a call for each would take most of the time.
    """
    header = header_at(batch)
    data = records_data(batch, header, max_decompressed_bytes)
    position, size = 0, len(data)
    try:
        for _ in range(header.records_count):
            if (length := data[position]) < 0x80 and not length & 1 and position + (length >> 1) < size:
                position += 1
                end = position + (length >> 1)
            else:
                end, position = record_extent(data, position)
            position = position + 2 if data[position + 1] < 0x80 else unsigned_varint(data, position + 1, 64)[1]
            if data[position] < 0x80:
                position += 1
            elif data[position + 1] < 0x80:
                position += 2
            else:
                position = unsigned_varint(data, position, 32)[1]
            if (length := data[position]) >= 0x80:
                length = unsigned_varint(data, position, 32)[0]
            if length & 1:
                return True
            position = end
    except IndexError:
        raise CorruptMessage("the batch ends inside a record") from None
    return False


def records_data(batch: Buffer, header: BatchHeader, max_decompressed_bytes: int) -> bytes:
    """Returns the records' bytes, decompressed. Bytes that are not compressed are in memory and need no bound."""
    if header.magic != MAGIC:
        raise CorruptMessage(f"magic {header.magic} instead of {MAGIC}")
    if not HEADER_BYTES <= header.size_bytes <= len(batch):
        raise ProtocolError(f"a batch of length {header.batch_length} in {len(batch)} bytes")
    if not 0 <= header.records_count <= header.last_offset_delta + 1:
        raise CorruptMessage(f"{header.records_count} records but a last offset delta of {header.last_offset_delta}")
    if header.base_offset + header.last_offset_delta > _INT64_MAX:
        raise CorruptMessage(f"base offset {header.base_offset} leaves no room for {header.last_offset_delta} more")
    view = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    codec = header.attributes & COMPRESSION_MASK
    if not codec:
        return bytes(view)
    from barnabas.protocol.compression import decompress

    return decompress(codec, view, max_bytes=max_decompressed_bytes)


def record_extent(data: bytes, position: int) -> tuple[int, int]:
    """Returns where the record at `position` ends, and where it begins after its length."""
    length, position = unsigned_varint(data, position, 32)
    end = position + (length >> 1)
    if length & 1 or end > len(data):
        raise CorruptMessage(f"a record of {_signed(length)} bytes where {len(data) - position} are left")
    return end, position


def _record_at(data: bytes, position: int, header: BatchHeader, max_headers: int) -> tuple[int, Record, int]:
    """Returns offset delta, record and the position after it. Raises IndexError if the data ends first.

    A slice beyond the data is cut short, but the position after it is not, and then differs from the record's end.
    Varints of one byte, the most frequent ones, are read here: a call for each would double the time.
    """
    end, position = record_extent(data, position)
    delta, position = unsigned_varint(data, position + 1, 64)  # after the attributes, none of which is in use
    timestamp = header[8] if header[5] & LOG_APPEND_TIME_FLAG else _timestamp(header, delta)
    delta, position = unsigned_varint(data, position, 32)
    offset_delta = delta >> 1 ^ -(delta & 1)
    if (length := data[position]) < 0x80 and not length & 1:
        key: bytes | None = data[position + 1 : (position := position + 1 + (length >> 1))]
    else:
        key, position = _nullable_bytes(data, position)
    if (length := data[position]) < 0x80 and not length & 1:
        value: bytes | None = data[position + 1 : (position := position + 1 + (length >> 1))]
    else:
        value, position = _nullable_bytes(data, position)
    headers: tuple[Header, ...] = ()
    if data[position]:
        headers, position = _headers(data, position, max_headers)
    else:
        position += 1
    if position != end:
        raise CorruptMessage(f"a record's contents end {position - end} bytes after its end")
    return offset_delta, _tuple_new(Record, (header[0] + offset_delta, timestamp, key, value, headers)), position


def _timestamp(header: BatchHeader, delta: int) -> int:
    timestamp = header[7] + (delta >> 1 ^ -(delta & 1))
    if not -_INT64_MAX <= timestamp + 1 <= _INT64_MAX + 1:
        raise CorruptMessage(f"timestamp delta {_signed(delta)} on {header.base_timestamp} leaves 64 bits")
    return timestamp


def _nullable_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = unsigned_varint(data, position, 32)
    if length & 1:
        if length != 1:
            raise CorruptMessage(f"a field of {_signed(length)} bytes")
        return None, position
    end = position + (length >> 1)
    return data[position:end], end


def _headers(data: bytes, position: int, most: int) -> tuple[tuple[Header, ...], int]:
    count, position = unsigned_varint(data, position, 32)
    if count & 1 or count >> 1 > len(data) - position:
        raise CorruptMessage(f"{_signed(count)} headers where {len(data) - position} bytes are left")
    if count >> 1 > most:
        raise MessageTooLarge("the records of a batch have too many headers to be read")
    headers = []
    for _ in range(count >> 1):
        key, position = _nullable_bytes(data, position)
        if key is None:
            raise CorruptMessage("a header without a key")
        value, position = _nullable_bytes(data, position)
        headers.append(Header(key.decode(errors="surrogateescape"), value))
    return tuple(headers), position


def unsigned_varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """Returns the varint at `position`, with zigzag: odd means negative. Raises IndexError if the data ends first."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    byte = data[position + 1]
    if byte < 0x80:
        return value & 0x7F | byte << 7, position + 2
    value = value & 0x7F | (byte & 0x7F) << 7
    for shift in range(14, bits, 7):
        byte = data[position + shift // 7]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> bits:
                break
            return value, position + shift // 7 + 1
    raise CorruptMessage(f"a varint of more than {bits} bits")


def _signed(unsigned: int) -> int:
    return unsigned >> 1 ^ -(unsigned & 1)


# ---- control records


def control_type_of(record: Record) -> int:
    """Returns the type in a control record's key, a `ControlType` or a later one. Later versions only add fields."""
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise CorruptMessage("a control record without a type")
    version, control_type = CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptMessage(f"a control record of version {version}")
    return int(control_type)


def coordinator_epoch_of(record: Record) -> int:
    """Returns the transaction coordinator's epoch in the value of an end-transaction marker."""
    if record.value is None or len(record.value) < END_TRANSACTION_VALUE.size:
        raise CorruptMessage("an end-transaction marker without a coordinator epoch")
    version, coordinator_epoch = END_TRANSACTION_VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptMessage(f"an end-transaction marker of version {version}")
    return int(coordinator_epoch)
