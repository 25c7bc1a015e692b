"""How much of a log compaction could clean, and whether it is worth it. Pure, like retention: segments in, a value out.

Rules, Kafka's: whole segments only, never the active one, nothing at or above the last stable offset, and only segments
before the first one with a record younger than min.compaction.lag.ms. It is worth it when the dirty bytes are more than
min.cleanable.dirty.ratio of all that would be copied, or when a dirty segment is older than max.compaction.lag.ms.
Ours: nothing that is not durable, so that no crash can bring back what a cleaned segment no longer holds.
"""

from barnabas.storage.log_config import LONG_MAX
from barnabas.storage.log_view import LogView
from barnabas.storage.segments.segment import Segment


class Cleanable:
    __slots__ = (
        "check_again_ms",
        "clean_bytes",
        "dirty_bytes",
        "end_offset",
        "first_dirty_offset",
        "is_due",
        "segments",
    )

    def __init__(self, first_dirty_offset: int) -> None:
        self.first_dirty_offset = first_dirty_offset
        self.segments: list[Segment] = []
        """From the log's first to the last that may be cleaned."""
        self.end_offset = first_dirty_offset
        self.clean_bytes = 0
        self.dirty_bytes = 0
        self.is_due = False
        self.check_again_ms: int | None = None
        """When time alone will have changed this; None: never."""

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


def find_cleanable(log: LogView, now_ms: int) -> Cleanable:
    segments, config, first_dirty_offset = log.segments, log.config, log.first_dirty_offset
    found = Cleanable(first_dirty_offset)
    dirty_since_ms = LONG_MAX
    is_open_ended = True
    for slot in range(len(segments) - 1):
        segment, next_base = segments[slot], segments[slot + 1].base_offset
        is_dirty = next_base > first_dirty_offset
        if is_dirty and segment.size and config.max_compaction_lag_ms != LONG_MAX:
            timestamp = segment.first_batch_timestamp()
            dirty_since_ms = min(dirty_since_ms, timestamp) if timestamp > 0 else dirty_since_ms
        if is_open_ended and (not segment.is_sealed or next_base > min(log.last_stable_offset, log.recovery_point)):
            is_open_ended = False
        if is_open_ended and is_dirty and config.min_compaction_lag_ms > 0:
            settled_ms = log.largest_timestamp(segment) + config.min_compaction_lag_ms
            if settled_ms > now_ms:
                found.check_again_ms = settled_ms
                is_open_ended = False
        if is_open_ended:
            _add(found, segment, next_base, is_dirty)
    overdue_ms = dirty_since_ms + config.max_compaction_lag_ms + 1
    is_overdue = overdue_ms <= now_ms and found.dirty_bytes > 0
    found.is_due = is_overdue or found.dirty_ratio > config.min_cleanable_dirty_ratio
    if not found.is_due and now_ms < overdue_ms < LONG_MAX:
        found.check_again_ms = min(overdue_ms, found.check_again_ms or LONG_MAX)
    return found


def _add(found: Cleanable, segment: Segment, next_base: int, is_dirty: bool) -> None:
    found.segments.append(segment)
    found.end_offset = max(found.end_offset, next_base)
    if segment.base_offset < found.first_dirty_offset:
        found.clean_bytes += segment.size
    if is_dirty:
        found.dirty_bytes += segment.size
