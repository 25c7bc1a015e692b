"""Cuts a log back: what a follower does with records that its leader does not have.

Rules:
- No byte is overwritten: a slice of the old bytes may wait in a socket, and `sendfile` sends what the file holds then.
  The file is cut where a batch begins, synced and sealed, and a *new segment* begins there. A slice beyond the cut ends
  short; its connection is closed.
- Everything that follows from the records goes back with them: recovery point, high watermark, producers, indexes,
  aborted transactions, leader epochs (also when no byte is cut), the cursors of readers, a compaction under way.
- Whatever survives a crash in the middle of it is a prefix of the old log. Checkpoints come first: nothing that is
  appended later may be taken for flushed, or for a record of an old epoch. Later segments go next, the newest first,
  then the new one begins, and its name is durable before the cut. A broker that is killed during the cut finds the new
  segment and goes on there; should a power cut then bring the old tail back, the later segment wins on load. Were it
  cut first, records would be appended in the place of the old tail, and a power cut could leave some of each.
- Whatever goes wrong in the middle of it takes the log dir offline, also a shortage of descriptors, which elsewhere
  does not: the log in memory may be half cut, and only a start finds out what it is.
- It blocks. It is rare, and nothing else can be done with this log meanwhile.
"""

from typing import TYPE_CHECKING

from barnabas.base.files import replace_file
from barnabas.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT
from barnabas.storage.opening.producer_loading import ProducerLoader
from barnabas.storage.opening.recovery import offsets_of
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segments.segment import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name

if TYPE_CHECKING:
    from barnabas.storage.log import Log


def truncate_to(log: "Log", offset: int) -> None:
    """Removes every batch that reaches the offset or goes beyond it. The log then ends there, or at the start of the
    batch that holds the offset: no batch is cut in two."""
    log.check_available()
    try:
        if offset >= log.log_end_offset:
            log.leader_epochs.truncate_from_end(log.log_end_offset)
            _write_leader_epochs(log)
        elif offset <= log.log_start_offset:
            _empty(log, offset)
        else:
            _truncate(log, offset)
    except OSError as error:
        raise log.log_dir.go_offline(error) from error


def truncate_fully_and_start_at(log: "Log", offset: int) -> None:
    """Removes everything; the log starts and ends at the offset: the leader has nothing before it, or we do not."""
    log.check_available()
    try:
        _empty(log, offset)
    except OSError as error:
        raise log.log_dir.go_offline(error) from error


def _truncate(log: "Log", offset: int) -> None:
    slot = log.segments.count_below(offset)
    segment = log.segments[slot]
    position = segment.position_of(offset)
    if position < segment.size:
        offset = min(offset, segment.base_offset_at(position))
    if offset < log.log_start_offset:  # which lies within that batch
        _empty(log, log.log_start_offset)
        return
    _finish_what_runs(log)
    is_cut = segment.base_offset < offset
    log.log_dir.truncate(log.topic_partition, offset, min(offset, segment.base_offset), log.log_start_offset)
    log.leader_epochs.truncate_from_end(offset)
    _write_leader_epochs(log)
    kept = list(log.segments)[: slot + is_cut]
    removed = list(log.segments)[slot + is_cut :]
    _remove_segments(log, removed)
    log.log_end_offset = offset
    log.high_watermark = min(log.high_watermark, offset)
    log.recovery_point = min(log.recovery_point, offset)
    _begin_segment(log, removed)
    if is_cut and position < segment.size:
        segment.cut(position, offset)
        _cut_aborted(log, segment, offset)
        log.flusher.segment_closed(segment)
    snapshots = _remove_snapshots(log, above=offset)
    loader = ProducerLoader(log.log_dir, log.path, log.log_dir.clock.now_ms())
    log.producers = loader.load(kept, snapshots, offset, is_clean=False)
    log.hold_back_unknown_markers(log.producers.snapshot_offset)
    _make_durable(log)


def _empty(log: "Log", offset: int) -> None:
    _finish_what_runs(log)
    log.log_dir.truncate(log.topic_partition, offset, min(offset, log.log_start_offset), offset)
    log.leader_epochs.clear()
    _write_leader_epochs(log)
    removed = list(log.segments)
    _remove_segments(log, removed)
    _remove_snapshots(log, above=-1)
    log.log_start_offset = log.log_end_offset = log.high_watermark = log.recovery_point = offset
    log.producers = ProducerState(offset)
    _begin_segment(log, removed)
    _make_durable(log)


def _finish_what_runs(log: "Log") -> None:
    """Ends flushes and compactions: none runs afterwards, and no snapshot waits to be written."""
    log.compaction.finish()
    log.flusher.flush_now()


def _write_leader_epochs(log: "Log") -> None:
    epochs = log.leader_epochs
    if epochs.is_dirty:
        log.flusher.finish()  # the plan at work may hold what the epochs were before
        replace_file(log.log_dir.files, f"{log.path}/{LEADER_EPOCH_CHECKPOINT}", epochs.to_bytes())
        epochs.is_dirty = False


def _remove_segments(log: "Log", segments: list[Segment]) -> None:
    """Removes the newest first: those that a crash leaves must be a prefix."""
    for segment in reversed(segments):
        for path in (*segment.paths, f"{log.path}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}"):
            log.log_dir.cache.forget(path)
            log.log_dir.files.remove(path)
        log.aborted.remove_segment(segment.base_offset)
        log.log_dir.files.sync_dir(log.path)


def _remove_snapshots(log: "Log", *, above: int) -> list[int]:
    """Removes snapshots above this offset. Returns the offsets of those that are left."""
    snapshots = offsets_of(set(log.log_dir.files.listdir(log.path)), SNAPSHOT_SUFFIX)
    for snapshot in snapshots:
        if snapshot > above:
            log.log_dir.files.remove(f"{log.path}/{file_name(snapshot, SNAPSHOT_SUFFIX)}")
    return [snapshot for snapshot in snapshots if snapshot <= above]


def _cut_aborted(log: "Log", segment: Segment, offset: int) -> None:
    """Drops rows from the offset on. The file is written when the segment is sealed, or removed if none is left."""
    kept = [row for row in log.aborted.of_segment(segment.base_offset) if row.last_offset < offset]
    log.aborted.replace(segment.base_offset, kept)
    if not kept:
        log.log_dir.files.remove(f"{log.path}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}")


def _begin_segment(log: "Log", removed: list[Segment]) -> None:
    """Begins a segment where the log ends now, durably. From here on it wins over whatever the old tail holds."""
    log.flusher.truncated(removed)
    log.segments.truncate(len(log.segments) - len(removed), log.new_segment(log.log_dir.clock.now_ms()))
    log.log_dir.files.sync_dir(log.path)


def _make_durable(log: "Log") -> None:
    """Makes all of it durable, so that a start knows: a gap before the last segment is compaction's."""
    log.take_snapshot()
    log.log_dir.files.sync_dir(log.path)
    log.flusher.flush_now()
    log.log_dir.set_recovery_point(log.topic_partition, log.flusher.recovery_point_to_checkpoint())
    log.log_dir.checkpoint_now()
    if log.config.compact:
        log.maintenance.check_cleanable_at(log.log_dir.clock.now_ms())
