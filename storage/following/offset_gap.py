"""Goes on far behind the end of a log: what a follower does where its leader has compacted two billion offsets away.

Rules:
- Indexes, as Kafka's, hold offsets relative to their segment's base in 32 bits. A batch out of reach of the active
  segment begins one of its own, which is named after the batch: a gap lies between the two.
- A start takes a gap between segments for a loss, but not below the recovery point. So all that comes before it is made
  durable, and the recovery point on the disk is moved behind it, before anything is appended there. It blocks, and is
  rare.
"""

import errno
from typing import TYPE_CHECKING

from barnabas.storage.segments.segment import Segment

if TYPE_CHECKING:
    from barnabas.storage.log import Log


def begin_segment_at(log: "Log", offset: int, now_ms: int) -> Segment:
    """Ends the log at the offset, and begins a segment there. Nothing has changed if it raises OSError."""
    before, active = log.log_end_offset, log.segments.active
    if not active.size:
        active.create()
    log.flusher.segment_closed(active)
    log.flusher.flush_now()
    if log.flusher.has_work:  # the index files found no room: what they belong to is not trusted without them
        raise OSError(errno.ENOSPC, "no room for index files", log.path)
    log.log_end_offset = offset
    try:
        segment = log.new_segment(now_ms)
        log.log_dir.set_recovery_point(log.topic_partition, offset)
        log.log_dir.checkpoint_now()
    except OSError:
        log.log_end_offset = before
        log.log_dir.set_recovery_point(log.topic_partition, before)
        raise
    log.recovery_point = offset
    log.segments.append(segment)
    log.take_snapshot()
    log.maintenance.rolled()
    log.inform(f"goes on at offset {offset}, behind {before}: its leader has nothing between them", offset=offset)
    return segment
