"""A log as retention and compaction look at it: its segments and offsets at one moment."""

from collections.abc import Callable

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.log_config import LogConfig
from barnabas.storage.segments.segment import Segment
from barnabas.storage.segments.segment_list import SegmentList


class LogView(NamedTuple):
    segments: SegmentList
    config: LogConfig
    largest_timestamp: Callable[[Segment], int]
    """The largest timestamp of a segment's records or, if they have none, of its file."""
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    recovery_point: int
    first_dirty_offset: int
