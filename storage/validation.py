"""What a batch must be before it is appended. Pure: it reads bytes and a configuration, and raises.

Rules, Kafka's, all decided by the batch header:
- From a client: exactly one batch per append, its base offset 0, as many records as offsets, no control batch, and a
  sequence if there is a producer id. The broker's own appends may hold several batches and control batches.
- Magic 2, the length that was sent, at most max.message.bytes, and a CRC-32C that matches.
- Under CreateTime the timestamps lie within message.timestamp.before/after.max.ms of the broker's clock.

Where the header cannot decide, the records are read: for null keys on a compacted topic, when the header's timestamps
are out of range (the records may not be), and always under barnabas.record.validation=full. Otherwise the header is
trusted: unlike Kafka, a producer whose header hides a timestamp or whose payload is nonsense under a good CRC is not
detected.
"""

from struct import error as StructError
from typing import NoReturn

from barnabas.protocol.batch_header import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    header_at,
    new_header,
    set_max_timestamp,
    unpack_header,
)
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    ProtocolError,
    UnsupportedCompressionType,
)
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.records import has_null_key, iter_records
from barnabas.storage.log_config import LogConfig

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, key, value, headers. A batch that claims more records than fit only grabs offsets."""
RECORDS_READ_MAX = 250_000
"""The limit for one batch, and for the headers in it: reading more would hold up everybody else for a second. A
producer splits its batch when it gets MESSAGE_TOO_LARGE. Batches whose records need not be read have no such limit."""
MAX_DECOMPRESSED_BYTES = 1 << 26
"""What a batch may grow to when its records are read, or ten times max.message.bytes: above any sane batch, and little
enough not to hold up the others."""

_ERRORS_MAX = 1_000
"""How many refused records an answer names: a batch may have 250 times as many."""
_LAST_CODEC = 4
_UNUSUAL_FLAGS = CONTROL_FLAG | LOG_APPEND_TIME_FLAG | _LAST_CODEC

Batches = list[tuple[memoryview, BatchHeader]]
"""Each batch of a buffer and its header."""
OffsetBatches = list[tuple[memoryview, BatchHeader, int]]
"""Each batch of a buffer, its header and its base offset, which the header may not hold."""


class RecordError(NamedTuple):
    """Why one record of the batch was refused; the Produce response tells the client."""

    batch_index: int
    message: str


class InvalidRecords(InvalidRecord):
    def __init__(self, record_errors: list[RecordError]) -> None:
        super().__init__(f"{len(record_errors)} records refused, the first because: {record_errors[0].message}")
        self.record_errors = record_errors


class InvalidTimestamps(InvalidTimestamp):
    def __init__(self, record_errors: list[RecordError]) -> None:
        super().__init__(f"{len(record_errors)} records refused, the first because: {record_errors[0].message}")
        self.record_errors = record_errors


def check_client_batch(data: memoryview, config: LogConfig, now_ms: int) -> BatchHeader:
    """Returns the header of a client's one batch; may correct its timestamp in place. Raises if it is refused."""
    try:
        fields = unpack_header(data)
    except StructError:
        raise CorruptMessage(f"{len(data)} bytes are too few for a batch") from None
    base_offset, length, _, magic, crc, attributes, delta, first_ms, max_ms, producer_id, _, sequence, count = fields
    header, size = new_header(fields), len(data)
    if magic != MAGIC or length + LOG_OVERHEAD != size:
        _refuse_other_than_one_batch(data, header)
    if base_offset != 0:
        raise InvalidRecord(f"the base offset must be 0 but is {base_offset}")
    if size > config.max_message_bytes:
        raise MessageTooLarge(f"a batch of {size} bytes where max.message.bytes is {config.max_message_bytes}")
    if crc32c(data[CRC_COVERS_FROM:]) != crc:
        raise CorruptMessage(f"the CRC {crc:#010x} does not match the batch")
    if count <= 0 or count != delta + 1:
        raise InvalidRecord(f"{count} records with a last offset delta of {delta}")
    if count * RECORD_BYTES_MIN > size - HEADER_BYTES and not attributes & COMPRESSION_MASK:
        raise InvalidRecord(f"{count} records in {size - HEADER_BYTES} bytes")
    if attributes & _UNUSUAL_FLAGS:
        _check_attributes(attributes, config)
    if sequence < 0 <= producer_id:
        raise InvalidRecord(f"sequence {sequence} from producer {producer_id}")
    if config.trusts_headers:
        oldest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        if oldest <= first_ms <= latest and oldest <= max_ms <= latest and not attributes & LOG_APPEND_TIME_FLAG:
            return header
    if _needs_records(data, header, config, now_ms):
        return _check_records(data, header, config, now_ms)
    return header


def check_batches(data: memoryview) -> Batches:
    """Returns every batch of a buffer that the broker itself, or the leader of the partition, has built.

    A follower does this with every batch of its leaders, so that it is one loop without calls of our own.
    """
    batches, position, size = [], 0, len(data)
    while position < size:
        try:
            fields = unpack_header(data, position)
        except StructError:
            raise CorruptMessage(f"{size - position} bytes are too few for a batch") from None
        _, length, _, magic, crc, _, last_offset_delta, *_ = fields
        end = position + length + LOG_OVERHEAD
        if magic != MAGIC or end - position < HEADER_BYTES:
            _check_shape(new_header(fields))
        if end > size:
            raise CorruptMessage(f"a batch of {end - position} bytes in {size - position}")
        if crc32c(data[position + CRC_COVERS_FROM : end]) != crc:
            raise CorruptMessage(f"the CRC {crc:#010x} does not match the batch")
        if last_offset_delta < 0:
            raise InvalidRecord(f"a last offset delta of {last_offset_delta}")
        batches.append((data[position:end], new_header(fields)))
        position = end
    return batches


def check_leaders_batches(data: memoryview, log_end_offset: int) -> OffsetBatches:
    """Returns every batch of a buffer that came from the leader. Offsets ascend; gaps are compaction's."""
    batches, next_offset = [], log_end_offset
    for batch, header in check_batches(data):
        base_offset = header.base_offset
        if base_offset < next_offset:
            raise CorruptMessage(f"a batch at offset {base_offset} where {next_offset} is the first that can be")
        next_offset = base_offset + header.last_offset_delta + 1
        batches.append((batch, header, base_offset))
    return batches


def _refuse_other_than_one_batch(data: memoryview, first: BatchHeader) -> NoReturn:
    if first.magic in (0, 1):
        raise InvalidRecord(f"a batch of magic {first.magic}: only magic {MAGIC} is taken")
    _check_shape(first)
    if first.size_bytes > len(data):
        raise CorruptMessage(f"a batch of {first.size_bytes} bytes in {len(data)}")
    raise InvalidRecord(f"{len(data) - first.size_bytes} bytes follow the batch: a partition takes one batch a request")


def _check_shape(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise CorruptMessage(f"a batch of magic {header.magic}")
    if header.size_bytes < HEADER_BYTES:
        raise CorruptMessage(f"a batch of length {header.batch_length}")


def _check_attributes(attributes: int, config: LogConfig) -> None:
    if attributes & CONTROL_FLAG:
        raise InvalidRecord("clients may not write control batches")
    if attributes & LOG_APPEND_TIME_FLAG and config.is_log_append_time:
        raise InvalidTimestamp("a producer may not set the timestamp type to LogAppendTime")
    if attributes & COMPRESSION_MASK > _LAST_CODEC:
        raise UnsupportedCompressionType(f"compression {attributes & COMPRESSION_MASK}")


def _needs_records(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    if config.barnabas_record_validation == "full" or (config.compact and _has_null_key(batch, header, config)):
        return True
    if config.is_log_append_time:
        return False
    return not _timestamps_fit(header, config, now_ms) or bool(header.attributes & LOG_APPEND_TIME_FLAG)


def _has_null_key(batch: memoryview, header: BatchHeader, config: LogConfig) -> bool:
    """Takes a first look, several times quicker than reading every record."""
    _check_readable(header)
    try:
        return has_null_key(batch, _max_decompressed_bytes(config))
    except (ProtocolError, CorruptMessage) as error:
        raise InvalidRecord(str(error)) from None


def _timestamps_fit(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    oldest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    return header.max_timestamp <= latest and (
        (oldest <= header.base_timestamp <= latest and oldest <= header.max_timestamp)
        or header.base_timestamp == header.max_timestamp == NO_TIMESTAMP
    )


def _check_records(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> BatchHeader:
    """Checks every record. Raises if one is bad: then all are refused."""
    _check_readable(header)
    errors: list[RecordError] = []
    max_timestamp, out_of_range = NO_TIMESTAMP, False
    needs_key, is_create_time = config.compact, not config.is_log_append_time
    oldest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    try:
        records = iter_records(
            batch, max_decompressed_bytes=_max_decompressed_bytes(config), max_headers=RECORDS_READ_MAX
        )
        for index, record in enumerate(records):
            if len(errors) >= _ERRORS_MAX:
                break
            timestamp = record.timestamp
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            if needs_key and record.key is None:
                errors.append(RecordError(index, "a compacted topic takes no record without a key"))
            elif is_create_time and not oldest <= timestamp <= latest and timestamp != NO_TIMESTAMP:
                message = f"timestamp {timestamp} is out of range: it should be within [{oldest}, {latest}]"
                errors.append(RecordError(index, message))
                out_of_range = True
    except (ProtocolError, CorruptMessage) as error:
        raise InvalidRecord(str(error)) from None  # its CRC is right: sending it again would not help
    if errors:
        raise InvalidTimestamps(errors) if out_of_range else InvalidRecords(errors)
    return header if config.is_log_append_time else _with_true_timestamp(batch, header, max_timestamp)


def _check_readable(header: BatchHeader) -> None:
    if header.records_count > RECORDS_READ_MAX:
        raise MessageTooLarge(f"{header.records_count} records in a batch, where {RECORDS_READ_MAX} can be checked")


def _max_decompressed_bytes(config: LogConfig) -> int:
    return max(MAX_DECOMPRESSED_BYTES, 10 * config.max_message_bytes)


def _with_true_timestamp(batch: memoryview, header: BatchHeader, max_timestamp: int) -> BatchHeader:
    """Corrects a header with a wrong timestamp type or a largest timestamp unlike its records', as Kafka does."""
    if max_timestamp == header.max_timestamp and not header.attributes & LOG_APPEND_TIME_FLAG:
        return header
    set_max_timestamp(batch, False, max_timestamp)
    return header_at(batch)


def stamp_log_append_time(batch: memoryview, now_ms: int) -> BatchHeader:
    """Puts the broker's time on the batch, in place. Only its header and its CRC change."""
    set_max_timestamp(batch, True, now_ms)
    return header_at(batch)
