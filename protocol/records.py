"""RecordBatch v2: the header, and the records behind it when somebody asks for them.

Rules:
- The hot path touches headers only: `header_at`, `iter_batches`, `crc_of` and `set_offsets` read or write in place and
  never look at a record. The rest (`iter_records`, `has_null_key`, the builders) is for those who need the records.
- The CRC-32C covers a batch from its attributes to its end: base offset and partition leader epoch are patched freely.
- Bytes come from strangers: what is no batch raises `ProtocolError` (it cannot even be cut out of the stream), what is
  a batch but holds nonsense raises `CorruptMessage`. Nothing else escapes; memory is bounded by what the caller allows.
- `batch` is a buffer that starts at a batch; functions that take one need it whole.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from barnabas.protocol.compression import Buffer, CompressionType, compress, decompress
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import CorruptMessage, ProtocolError

MAGIC = 2
HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""Base offset and batch length, which batch_length does not count."""
CRC_COVERS_FROM = 21
"""The attributes, and all behind them."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1
NO_TIMESTAMP = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BATCH_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_INT64 = struct.Struct(">q")
_CONTROL_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")

_BATCH_LENGTH_AT = 8
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
_ATTRIBUTES_AT = CRC_COVERS_FROM
_MAX_TIMESTAMP_AT = 35

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

_offset_pack_into = _INT64.pack_into
_leader_epoch_pack_into = _BATCH_LENGTH.pack_into
_tuple_new = tuple.__new__


class BatchHeader(NamedTuple):
    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones and markers (KIP-534), in the base timestamp's place."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


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
    """What `build_batch` takes; any tuple of these four does."""

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


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequences run from 0 to 2**31 - 1 and then from 0 again."""
    return (sequence + increment) & _INT32_MAX


# ---- headers


unpack_header = _HEADER.unpack_from
"""The fields of the header, as a plain tuple, for those who look at most of them."""


def new_header(fields: tuple[Any, ...]) -> BatchHeader:
    return _tuple_new(BatchHeader, fields)


def header_at(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header as it stands there: only its presence is checked, not its sense."""
    try:
        return _tuple_new(BatchHeader, unpack_header(buffer, position))
    except struct.error:
        raise ProtocolError(f"{len(buffer) - position} bytes are too few for a batch header") from None


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; stops before a tail that is not whole."""
    end = len(buffer)
    header_end_max = end - HEADER_BYTES
    while position <= header_end_max:
        header = _tuple_new(BatchHeader, unpack_header(buffer, position))
        next_position = position + header[1] + LOG_OVERHEAD
        if next_position - position < HEADER_BYTES:
            raise ProtocolError(f"a batch of length {header[1]} at byte {position}")
        if next_position > end:
            return
        yield position, header
        position = next_position


def crc_of(batch: memoryview) -> int:
    """The CRC-32C that the batch, and nothing behind it in the view, should carry."""
    return crc32c(batch[CRC_COVERS_FROM:])


def set_offsets(batch: memoryview | bytearray, base_offset: int, partition_leader_epoch: int) -> None:
    _offset_pack_into(batch, 0, base_offset)
    _leader_epoch_pack_into(batch, _LEADER_EPOCH_AT, partition_leader_epoch)


def set_header(batch: memoryview | bytearray, header: BatchHeader) -> None:
    _HEADER.pack_into(batch, 0, *header)


def set_max_timestamp(batch: memoryview, timestamp_type_log_append_time: bool, max_timestamp: int) -> None:
    """Sets the timestamp type too, and the CRC over both; the view holds the batch and nothing behind it."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    attributes &= ~LOG_APPEND_TIME_FLAG
    if timestamp_type_log_append_time:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes)
    _INT64.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    _CRC.pack_into(batch, _CRC_AT, crc_of(batch))


# ---- records


def iter_records(batch: Buffer, *, max_decompressed_bytes: int) -> Iterator[Record]:
    """The records in order. Nonsense may show only at the end: who must refuse a bad batch reads it whole first."""
    header = header_at(batch)
    data = records_data(batch, header, max_decompressed_bytes)
    position = 0
    delta_min = 0
    try:
        for _ in range(header.records_count):
            offset_delta, record, position = _record_at(data, position, header)
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
    """Whether any record lacks a key, which compacted topics refuse. Reads no further than the key's length.

    Varints of one byte, and offset deltas of two, are passed here: a call for each would take most of the time.
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
    """The records' bytes, decompressed. Those that are not compressed are in memory already and need no bound."""
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
    return decompress(codec, view, max_bytes=max_decompressed_bytes) if codec else bytes(view)


def record_extent(data: bytes, position: int) -> tuple[int, int]:
    """Where the record at `position` ends, and where it begins behind its length."""
    length, position = unsigned_varint(data, position, 32)
    end = position + (length >> 1)
    if length & 1 or end > len(data):
        raise CorruptMessage(f"a record of {_signed(length)} bytes where {len(data) - position} are left")
    return end, position


def _record_at(data: bytes, position: int, header: BatchHeader) -> tuple[int, Record, int]:
    """Offset delta, record and the position behind it; IndexError if the data ends first.

    A slice beyond the data is cut short, but the position behind it is not, and then differs from the record's end.
    Varints of one byte, the most frequent ones, are read here: a call for each would double the time.
    """
    end, position = record_extent(data, position)
    delta, position = unsigned_varint(data, position + 1, 64)  # behind the attributes, of which none is in use
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
        headers, position = _headers(data, position)
    else:
        position += 1
    if position != end:
        raise CorruptMessage(f"a record's contents end {position - end} bytes behind the record")
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


def _headers(data: bytes, position: int) -> tuple[tuple[Header, ...], int]:
    count, position = unsigned_varint(data, position, 32)
    if count & 1 or count >> 1 > len(data) - position:
        raise CorruptMessage(f"{_signed(count)} headers where {len(data) - position} bytes are left")
    headers = []
    for _ in range(count >> 1):
        key, position = _nullable_bytes(data, position)
        if key is None:
            raise CorruptMessage("a header without a key")
        value, position = _nullable_bytes(data, position)
        headers.append(Header(key.decode(errors="surrogateescape"), value))
    return tuple(headers), position


def unsigned_varint(data: bytes, position: int, bits: int) -> tuple[int, int]:
    """The varint at `position`, zigzag not undone: odd means negative. IndexError if the data ends first."""
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


# ---- building


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]],
    *,
    base_offset: int = 0,
    compression: int = CompressionType.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    log_append_time: int | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch of (key, value, headers, timestamp) with consecutive offsets.

    With `log_append_time` the batch is of that timestamp type and readers see this time on every record.
    """
    data, timestamps = _encode_records(records)
    assert timestamps, "a batch holds at least one record"
    attributes = compression | TRANSACTIONAL_FLAG * transactional | CONTROL_FLAG * control
    max_timestamp = max(timestamps)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time
    payload = compress(compression, data) if compression else data
    batch = bytearray(HEADER_BYTES)
    _HEADER.pack_into(
        batch, 0, base_offset, HEADER_BYTES - LOG_OVERHEAD + len(payload), partition_leader_epoch, MAGIC, 0, attributes,
        len(timestamps) - 1, timestamps[0], max_timestamp, producer_id, producer_epoch, base_sequence, len(timestamps),
    )  # fmt: skip
    batch += payload
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
    return batch


def _encode_records(
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]],
) -> tuple[bytearray, list[int]]:
    data = bytearray()
    body = bytearray()
    timestamps: list[int] = []
    for offset_delta, (key, value, headers, timestamp) in enumerate(records):
        timestamps.append(timestamp)
        body.clear()
        body.append(0)
        put_varint(body, timestamp - timestamps[0])
        put_varint(body, offset_delta)
        _put_nullable_bytes(body, key)
        _put_nullable_bytes(body, value)
        put_varint(body, len(headers))
        for header_key, header_value in headers:
            _put_nullable_bytes(body, header_key.encode(errors="surrogateescape"))
            _put_nullable_bytes(body, header_value)
        put_varint(data, len(body))
        data += body
    return data, timestamps


def _put_nullable_bytes(body: bytearray, value: bytes | None) -> None:
    if value is None:
        body.append(1)
    else:
        put_varint(body, len(value))
        body += value


def put_varint(body: bytearray, value: int) -> None:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    while zigzag > 0x7F:
        body.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    body.append(zigzag)


# ---- control batches


def build_control_batch(
    controls: Iterable[tuple[ControlType, bytes]],
    *,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """One control batch of (type, value); what the value means is its type's affair."""
    records = [NewRecord(_CONTROL_KEY.pack(0, control_type), value, (), timestamp) for control_type, value in controls]
    return build_batch(
        records,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def build_end_transaction_marker(
    control_type: ControlType,
    *,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    assert control_type in (ControlType.COMMIT, ControlType.ABORT), "only these end a transaction"
    return build_control_batch(
        [(control_type, _END_TRANSACTION_VALUE.pack(0, coordinator_epoch))],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def control_type_of(record: Record) -> int:
    """The type in a control record's key, a `ControlType` or one of the future. Later key versions only add to it."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptMessage("a control record without a type")
    version, control_type = _CONTROL_KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptMessage(f"a control record of version {version}")
    return int(control_type)


def coordinator_epoch_of(record: Record) -> int:
    """The transaction coordinator's epoch in the value of an end-transaction marker."""
    if record.value is None or len(record.value) < _END_TRANSACTION_VALUE.size:
        raise CorruptMessage("an end-transaction marker without a coordinator epoch")
    version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptMessage(f"an end-transaction marker of version {version}")
    return int(coordinator_epoch)
