"""Record batches of magic 2, built field by field so that any of them can be wrong, and read back the same way."""

import gzip
import struct
from typing import Any, NamedTuple

import crc32c
import lz4.frame
import snappy
import zstandard

HEADER = struct.Struct(">qiibIhiqqqhii")  # base offset to count of records
FIELDS = (
    *("BaseOffset", "Length", "LeaderEpoch", "Magic", "Crc", "Attributes", "LastOffsetDelta"),
    *("BaseTimestamp", "MaxTimestamp", "ProducerId", "ProducerEpoch", "BaseSequence", "Count"),
)
AFTER_LENGTH = 12
AFTER_CRC = 21
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


class Record(NamedTuple):
    key: bytes | None = None
    value: bytes | None = b"value"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_delta: int = 0
    offset_delta: int | None = None  # its place in the batch, unless a test says otherwise


class Batch(NamedTuple):
    """What a producer sends. `producer_id` may be a symbol: each broker gave its own."""

    records: tuple[Record, ...] = (Record(),)
    timestamp: int = 0
    max_timestamp: int | None = None
    codec: int = 0
    attributes: int = 0
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    producer_id: Any = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_offset_delta: int | None = None
    said_count: int | None = None
    body: bytes | None = None  # instead of the records, under a right checksum
    length_error: int = 0
    crc_error: int = 0
    then: bytes = b""

    @property
    def is_wrong_inside(self) -> bool:
        """Says whether it is wrong inside, under a right checksum: only a broker that reads the records sees it."""
        said = (self.said_count, self.last_offset_delta, self.max_timestamp, self.body)
        moved = any(record.offset_delta is not None for record in self.records)
        return self.codec >= len(CODECS) or moved or any(value is not None for value in said)

    def encoded(self, producer_id: int) -> bytes:
        body = self.body
        if body is None:
            body = compressed(
                self.codec, b"".join(_record(number, record) for number, record in enumerate(self.records))
            )
        count = len(self.records)
        last = max((record.timestamp_delta for record in self.records), default=0)
        fields = struct.pack(
            ">hiqqqhii",
            self.attributes | self.codec,
            count - 1 if self.last_offset_delta is None else self.last_offset_delta,
            self.timestamp,
            self.timestamp + last if self.max_timestamp is None else self.max_timestamp,
            producer_id,
            self.producer_epoch,
            self.base_sequence,
            count if self.said_count is None else self.said_count,
        )
        checked = fields + body
        crc = crc32c.crc32c(checked) ^ self.crc_error
        length = AFTER_CRC - AFTER_LENGTH + len(checked) + self.length_error
        return struct.pack(">qiibI", self.base_offset, length, self.leader_epoch, self.magic, crc) + checked + self.then


def compressed(codec: int, data: bytes) -> bytes:
    name = CODECS[codec] if codec < len(CODECS) else "none"
    if name == "gzip":
        return gzip.compress(data, mtime=0)
    if name == "snappy":
        return _xerial(data)
    if name == "lz4":
        frame: bytes = lz4.frame.compress(data, block_linked=False, store_size=False)
        return frame
    return zstandard.compress(data) if name == "zstd" else data


def _xerial(data: bytes) -> bytes:
    """Adds the framing that Java's snappy puts around its blocks."""
    block: bytes = snappy.compress(data)
    return b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(block)) + block


def _record(number: int, record: Record) -> bytes:
    offset_delta = number if record.offset_delta is None else record.offset_delta
    content = b"\0" + zigzag(record.timestamp_delta) + zigzag(offset_delta)
    content += _sized(record.key) + _sized(record.value) + zigzag(len(record.headers))
    for name, value in record.headers:
        content += _sized(name.encode()) + _sized(value)
    return zigzag(len(content)) + content


def _sized(data: bytes | None) -> bytes:
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_batches(data: bytes | None) -> list[dict[str, Any]] | None:
    """Returns the fields of every batch. A checksum is only right or wrong: it may cover the broker's clock."""
    if data is None:
        return None
    found: list[dict[str, Any]] = []
    position = 0
    while position + HEADER.size <= len(data):
        fields = HEADER.unpack_from(data, position)
        end = position + AFTER_LENGTH + fields[1]
        if end > len(data):
            break
        batch = dict(zip(FIELDS, fields))
        batch["Crc"] = "right" if crc32c.crc32c(data[position + AFTER_CRC : end]) == batch["Crc"] else "wrong"
        batch["Body"] = data[position + HEADER.size : end]
        found.append(batch)
        position = end
    if position < len(data):
        found.append({"CutBytes": len(data) - position})
    return found
