"""Which segments are old enough to go. Pure: segments and a configuration in, a number out.

Rules, Kafka's: whole segments only, oldest first, never beyond the high watermark. A segment goes when
- all of it lies below the log start offset, whatever the cleanup policy;
- under `delete`: its largest timestamp is more than retention.ms ago, or without it the log would still hold at least
  retention.bytes.
Every eligible segment goes in one pass. The active one may be among them; the log then rolls first.
"""

from collections.abc import Callable

from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_view import LogView
from barnabas.storage.segments.segment import Segment
from barnabas.storage.segments.segment_list import SegmentList


def count_deletable(log: LogView, now_ms: int) -> int:
    """Returns how many segments, from the oldest on, may be deleted."""
    segments, config = log.segments, log.config
    excess_bytes = _excess_bytes(segments, config)
    for count, segment in enumerate(segments):
        is_last = count + 1 == len(segments)
        end_offset = log.log_end_offset if is_last else segments[count + 1].base_offset
        is_below_start = not is_last and end_offset <= log.log_start_offset
        is_surplus = config.delete and config.retention_bytes >= 0 and excess_bytes >= segment.size
        if end_offset > log.high_watermark or (is_last and segment.size == 0):
            return count
        if not (is_below_start or is_surplus or _is_expired(segment, config, now_ms, log.largest_timestamp)):
            return count
        excess_bytes -= segment.size
    return len(segments)


def _excess_bytes(segments: SegmentList, config: LogConfig) -> int:
    return segments.size_bytes - config.retention_bytes


def _is_expired(segment: Segment, config: LogConfig, now_ms: int, largest_timestamp: Callable[[Segment], int]) -> bool:
    return config.delete and config.retention_ms >= 0 and now_ms - largest_timestamp(segment) > config.retention_ms


def next_expiry_ms(log: LogView) -> int | None:
    """Returns when the oldest segment's time runs out, if it ever does; the others matter when it is gone."""
    segments, config = log.segments, log.config
    first = segments[0]
    if not config.delete or config.retention_ms < 0 or (len(segments) == 1 and first.size == 0):
        return None
    return log.largest_timestamp(first) + config.retention_ms + 1


def has_surplus(segments: SegmentList, config: LogConfig) -> bool:
    if not config.delete or config.retention_bytes < 0:
        return False
    return len(segments) > 1 and _excess_bytes(segments, config) >= segments[0].size
