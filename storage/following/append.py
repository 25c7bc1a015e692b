"""What a follower's log takes from its leader: batches as they are, with the leader's offsets, epochs and gaps.

They are written at once, or once for every segment that they fill. If the disk is full, the first ones may be stored:
the log end offset shows it.
"""

from typing import TYPE_CHECKING

from barnabas.storage.segments.segment import RELATIVE_OFFSET_MAX, Segment, TornTail
from barnabas.storage.validation import OffsetBatches, check_leaders_batches

if TYPE_CHECKING:
    from barnabas.storage.log import Log


def append(log: "Log", data: memoryview, now_ms: int) -> None:
    assert data, "nothing to append"
    log.check_available()
    batches = check_leaders_batches(data, log.log_end_offset)
    last_offset, max_timestamp = batches[-1][1].last_offset, max([header.max_timestamp for _, header, _ in batches])
    try:
        segment = log.segments.active
        if segment.is_sealed:
            segment.activate()
        if segment.should_roll(log.config, len(data), last_offset, max_timestamp, now_ms):
            _append_to_several(log, segment, data, batches, now_ms)
        else:
            _append_to(log, segment, data, batches)
    except (OSError, TornTail) as error:
        raise log.append_failed(error) from error


def _append_to_several(log: "Log", segment: Segment, data: memoryview, batches: OffsetBatches, now_ms: int) -> None:
    start = position = taken = 0
    for slot, (batch, header, base_offset) in enumerate(batches):
        size = position + len(batch) - start
        if segment.should_roll(log.config, size, header.last_offset, header.max_timestamp, now_ms):
            _append_to(log, segment, data[start:position], batches[taken:slot])
            start, taken = position, slot
            segment = log.next_segment(now_ms)
            if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
                from barnabas.storage.following.offset_gap import begin_segment_at  # hardly any log has such a gap

                segment = begin_segment_at(log, base_offset, now_ms)
        position += len(batch)
    _append_to(log, segment, data[start:], batches[taken:])


def _append_to(log: "Log", segment: Segment, data: memoryview, batches: OffsetBatches) -> None:
    interval_bytes = log.config.index_interval_bytes
    if len(batches) == 1:
        header = batches[0][1]
        segment.append(data, header, header.last_offset, interval_bytes)
    elif batches:
        segment.append_all(data, batches, interval_bytes)
    else:
        return
    log.appended_as_follower(batches)
