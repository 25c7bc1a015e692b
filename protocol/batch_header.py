"""The header of a RecordBatch v2: its layout, declared here and nowhere else, and what is read or written in place.

Rules:
- The hot path touches headers only: nothing here looks at a record.
- The CRC-32C covers a batch from its attributes to its end: base offset and partition leader epoch are patched freely.
- Bytes come from strangers. Those that are no batch raise `ProtocolError`: they cannot even be cut out of the stream.
- `batch` is a buffer that starts at a batch; functions that take one need it whole.
"""

import struct
from collections.abc import Iterator
from typing import Any

from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import Buffer

HEADER = struct.Struct(">qiibIhiqqqhii")
"""The fields of `BatchHeader`."""
INT64 = struct.Struct(">q")
INT32 = struct.Struct(">i")
CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")

BATCH_LENGTH_AT = 8
_LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
ATTRIBUTES_LOW_BYTE_AT = 22
"""The place of all attributes that have a meaning so far."""
_MAX_TIMESTAMP_AT = 35

MAGIC = 2
HEADER_BYTES = 61
LOG_OVERHEAD = 12
"""Base offset and batch length, which batch_length does not count."""
CRC_COVERS_FROM = ATTRIBUTES_AT
"""The attributes, and everything after them."""

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

_INT32_MAX = 2**31 - 1

_offset_pack_into = INT64.pack_into
_leader_epoch_pack_into = INT32.pack_into
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
        """Returns when compaction may drop tombstones and markers (KIP-534). It takes the base timestamp's place."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None


def increment_sequence(sequence: int, increment: int) -> int:
    """Returns the sequence that is `increment` later: after 2**31 - 1 comes 0."""
    return (sequence + increment) & _INT32_MAX


unpack_header = HEADER.unpack_from
"""The fields of the header, as a plain tuple, for callers that need most of them."""


def new_header(fields: tuple[Any, ...]) -> BatchHeader:
    return _tuple_new(BatchHeader, fields)


def header_at(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Returns the header at `position`. Checks only that it is all there, not that it makes sense."""
    try:
        return _tuple_new(BatchHeader, unpack_header(buffer, position))
    except struct.error:
        raise ProtocolError(f"{len(buffer) - position} bytes are too few for a batch header") from None


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of every whole batch; stops before a tail that is not whole."""
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
    """Returns the CRC-32C that the batch should carry; the view holds the batch and nothing after it."""
    return crc32c(batch[CRC_COVERS_FROM:])


def set_offsets(batch: memoryview | bytearray, base_offset: int, partition_leader_epoch: int) -> None:
    _offset_pack_into(batch, 0, base_offset)
    _leader_epoch_pack_into(batch, _LEADER_EPOCH_AT, partition_leader_epoch)


def set_header(batch: memoryview | bytearray, header: BatchHeader) -> None:
    HEADER.pack_into(batch, 0, *header)


def set_max_timestamp(batch: memoryview, timestamp_type_log_append_time: bool, max_timestamp: int) -> None:
    """Sets the timestamp, its type and the CRC over both; the view holds the batch and nothing after it."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)
    attributes &= ~LOG_APPEND_TIME_FLAG
    if timestamp_type_log_append_time:
        attributes |= LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes)
    INT64.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    CRC.pack_into(batch, CRC_AT, crc_of(batch))
