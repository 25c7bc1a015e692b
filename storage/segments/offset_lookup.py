"""From a timestamp to an offset: the one place of storage that opens batches to look at records.

The time index leads to the first batch that may hold the timestamp; only that batch is decompressed. If it cannot
be opened, or takes too much time or memory, the answer is the whole batch: a reader that starts there misses nothing.
"""

from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import CorruptMessage, MessageTooLarge, ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.records import iter_records
from barnabas.storage.segments.batches import iter_headers
from barnabas.storage.segments.segment import Segment
from barnabas.storage.segments.segment_list import SegmentList
from barnabas.storage.validation import MAX_DECOMPRESSED_BYTES, RECORDS_READ_MAX


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int
    """-1 if the batch has none."""


def find_timestamp(segments: SegmentList, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
    """Returns the first record at or after both the timestamp and the log start offset."""
    for segment in segments:
        if segment.largest_indexed_timestamp() >= timestamp:
            found = _find_in_segment(segment, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _find_in_segment(segment: Segment, timestamp: int, log_start_offset: int) -> TimestampOffset | None:
    from_offset = segment.base_offset + segment.time_index.relative_offset_before(timestamp)
    start = segment.position_of(max(from_offset, log_start_offset))
    for position, header in iter_headers(segment.file(), start, segment.size):
        if header.max_timestamp >= timestamp:
            found = _find_in_batch(segment, position, header, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _find_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start_offset: int
) -> TimestampOffset | None:
    whole = TimestampOffset(
        header.max_timestamp, max(header.base_offset, log_start_offset), header.partition_leader_epoch
    )
    if header.records_count > RECORDS_READ_MAX:
        return whole
    batch = segment.file().pread(header.size_bytes, position)
    try:
        for record in iter_records(batch, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES, max_headers=RECORDS_READ_MAX):
            if record.timestamp >= timestamp and record.offset >= log_start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    except (ProtocolError, CorruptMessage, MessageTooLarge):
        return whole
    # A header that claims a later record than there is must not send the search on through the whole log.
    return whole if header.records_count and header.base_offset >= log_start_offset else None


def find_max_timestamp(segments: SegmentList) -> TimestampOffset | None:
    """Returns the first record with the log's largest timestamp, which all records share if none has any."""
    segment = max(segments, key=Segment.largest_indexed_timestamp)
    if not segment.size:
        return None  # it may not even have a file
    timestamp = segment.largest_indexed_timestamp()
    start = segment.position_of(segment.offset_of_max_timestamp)
    for position, header in iter_headers(segment.file(), start, segment.size):
        if header.max_timestamp == timestamp:
            return _find_in_batch(segment, position, header, timestamp, 0)
    return None
