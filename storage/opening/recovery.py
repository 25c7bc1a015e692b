"""Opening a log: after a clean stop by trusting what was written then, otherwise by finding out what survived.

Rules of recovery, Kafka's unless said otherwise:
- Below the recovery point everything is durable and trusted. From the segment that holds it onward every batch is
  walked over, the indexes, leader epochs and producer state are rebuilt, and every batch not below it has its CRC
  checked.
- At the first batch that is torn, rotten or out of order the segment is cut, and the segments after it are removed.
- Unlike Kafka, a segment that ends before the next one begins counts as torn too: offsets must not skip. Where
  everything was durable, below the recovery point and where compaction has been, a gap is from compaction and no loss.
- What was removed stays removed: names are synced before anything is appended, or a second crash could bring back a
  segment or a snapshot of a past that the log no longer contains. It may also have been removed just before the crash.
- A segment that reaches beyond the start of the next one is cut there: the log was truncated, a new segment was begun,
  and the power cut brought the old tail back. The later segment wins.
- Producer state begins at the latest good snapshot at or below the first segment that is walked over. Aborted
  transactions of the segments that are walked over are found again, and their index files written.
"""

from barnabas.base.files import write_file
from barnabas.protocol.batch_header import crc_of
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition
from barnabas.storage.checkpoints import CorruptCheckpoint
from barnabas.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochs
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir
from barnabas.storage.opening.producer_loading import ProducerLoader
from barnabas.storage.opening.unfinished_files import clear_unfinished
from barnabas.storage.producer_state import ProducerState, replay_batch
from barnabas.storage.segments.batches import scan_batches
from barnabas.storage.segments.offset_index import OffsetIndex
from barnabas.storage.segments.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    file_name,
)
from barnabas.storage.segments.time_index import TimeIndex
from barnabas.storage.segments.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    decode_aborted,
    encode_aborted,
)


class LoadedLog(NamedTuple):
    """A log as it was found on disk, or as it begins."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    producers: ProducerState
    leader_epochs: LeaderEpochs
    has_durable_names: bool
    """It was stopped cleanly and held something then: a stop writes nothing for a log that is empty."""
    aborted: AbortedTransactions


def empty_log(segment: Segment) -> LoadedLog:
    return LoadedLog(
        [segment], 0, 0, 0, ProducerState(), LeaderEpochs(), has_durable_names=False, aborted=AbortedTransactions()
    )


class LogLoader:
    """Opens one log. Blocks; runs before anybody waits for the log, or within a first use after a clean stop."""

    def __init__(self, log_dir: LogDir, topic_partition: TopicPartition, config: LogConfig, now_ms: int) -> None:
        self._log_dir = log_dir
        self._files = log_dir.files
        self._topic_partition = topic_partition
        self._config = config
        self._now_ms = now_ms
        self._path = f"{log_dir.path}/{topic_partition}"
        self._recovery_point = log_dir.recovery_points.get(topic_partition, 0)
        self._log_start_offset = log_dir.log_start_offsets.get(topic_partition, 0)
        self._gaps_end = max(self._recovery_point, log_dir.cleaner_offsets.get(topic_partition, 0))
        self._leader_epochs = LeaderEpochs()
        self._producers = ProducerState()
        self._load_producers = ProducerLoader(log_dir, self._path, now_ms).load
        self._without_index: set[int] = set()
        """Base offsets of segments whose index files are missing or damaged."""
        self._removed_any = False
        self._aborted = AbortedTransactions()

    def load(self, *, is_clean: bool) -> LoadedLog:
        names = clear_unfinished(self._files, self._path, self._log_dir.report)
        snapshots = offsets_of(names, SNAPSHOT_SUFFIX)
        segments = [self._segment(offset, names) for offset in offsets_of(names, LOG_SUFFIX)]
        for offset in offsets_of(names, TXN_INDEX_SUFFIX):
            self._read_aborted(offset)
        if LEADER_EPOCH_CHECKPOINT in names:
            self._read_leader_epochs()
        end_offset = self._trusted_end(segments) if is_clean else None
        if end_offset is not None:
            self._producers = self._load_producers(segments, snapshots, end_offset, is_clean=is_clean)
        else:
            is_clean = False
            end_offset = self._recover(segments, snapshots)
        return self._loaded(segments, end_offset, snapshots, is_clean)

    def _loaded(self, segments: list[Segment], end_offset: int, snapshots: list[int], is_clean: bool) -> LoadedLog:
        if segments and end_offset < self._log_start_offset:
            start_offset = self._log_start_offset
            self._warn(f"the log ends at {end_offset}, before its start {start_offset}: it goes on there, empty")
            self._remove_segments(segments, 0)
        if not segments:
            end_offset = self._begin(segments)
        self._remove_snapshots(segments, snapshots, end_offset)
        if self._removed_any or not is_clean:
            self._files.sync_dir(self._path)
        log_start_offset = max(self._log_start_offset, segments[0].base_offset)
        self._leader_epochs.truncate_from_end(end_offset)
        self._leader_epochs.truncate_from_start(log_start_offset)
        recovery_point = end_offset if is_clean else min(self._recovery_point, end_offset)
        self._producers.end_offset = end_offset
        return LoadedLog(
            segments,
            log_start_offset,
            end_offset,
            recovery_point,
            self._producers,
            self._leader_epochs,
            has_durable_names=is_clean and end_offset > 0,
            aborted=self._aborted,
        )

    def _segment(self, base_offset: int, names: set[str]) -> Segment:
        segment = Segment(self._path, base_offset, self._log_dir.cache, self._now_ms)
        size = self._files.file_size(segment.path)
        if not size:
            segment.load_closed(0, 0, 0)  # whatever its indexes hold is of another past
            return segment
        index_bytes = self._index_bytes(base_offset, INDEX_SUFFIX, names)
        time_index_bytes = self._index_bytes(base_offset, TIME_INDEX_SUFFIX, names)
        segment.load_closed(size, max(index_bytes, 0), max(time_index_bytes, 0))
        if index_bytes < 0 or index_bytes % OffsetIndex.row_bytes or time_index_bytes % TimeIndex.row_bytes:
            self._without_index.add(base_offset)
        return segment

    def _index_bytes(self, base_offset: int, suffix: str, names: set[str]) -> int:
        name = file_name(base_offset, suffix)
        return self._files.file_size(f"{self._path}/{name}") if name in names else -1

    def _begin(self, segments: list[Segment]) -> int:
        """Begins an empty log at the log start offset: its records are gone, their offsets are not assigned again."""
        segment = Segment(self._path, self._log_start_offset, self._log_dir.cache, self._now_ms)
        if self._log_start_offset > 0:
            segment.create()
        segments.append(segment)
        self._producers = ProducerState(self._log_start_offset)
        return self._log_start_offset

    # ---- after a clean stop

    def _trusted_end(self, segments: list[Segment]) -> int | None:
        """Returns the log end offset; None if the files contradict the mark of a clean stop."""
        for segment in segments:
            if segment.base_offset in self._without_index and segment.size:
                self._warn(f"the index files of segment {segment.base_offset} are missing or damaged: rebuilding them")
                if not self._rebuild_indexes(segment):
                    return None
        end_offset = segments[-1].next_offset() if segments else self._log_start_offset
        if end_offset is None:
            self._warn("the last segment does not end with a batch though the broker stopped cleanly")
        return end_offset

    def _rebuild_indexes(self, segment: Segment) -> bool:
        segment.is_sealed, segment.is_trusted = False, True
        return segment.rebuild_indexes(self._config.index_interval_bytes)

    # ---- after any other stop

    def _recover(self, segments: list[Segment], snapshots: list[int]) -> int:
        first = max((slot for slot, s in enumerate(segments) if s.base_offset <= self._recovery_point), default=0)
        for segment in segments[:first]:
            if segment.base_offset in self._without_index:
                self._rebuild_indexes(segment)
        if not segments:
            return 0
        self._producers = self._load_producers(segments, snapshots, segments[first].base_offset, is_clean=False)
        end_offset = segments[first].base_offset
        self._leader_epochs.truncate_from_end(end_offset)  # the batches are right; the file may be of another past
        for slot in range(first, len(segments)):
            if segments[slot].base_offset != end_offset and segments[slot].base_offset > self._gaps_end:
                self._warn(f"offsets from {end_offset} to {segments[slot].base_offset - 1} are missing")
                self._remove_segments(segments, slot)
                segments[slot - 1].file().sync()  # a truncation may have cut it and been interrupted
                break
            limit = segments[slot + 1].base_offset if slot + 1 < len(segments) else None
            if self._log_dir.distrusts_cache:
                segments[slot].file().drop_cache()
            end_offset, is_whole = self._recover_segment(segments[slot], limit)
            if not is_whole:
                self._remove_segments(segments, slot + 1)
                break
        return end_offset

    def _recover_segment(self, segment: Segment, limit: int | None) -> tuple[int, bool]:
        """Walks over the segment and cuts it after its last good batch, or where the next segment begins. Returns its
        end offset, and whether what comes after it is good."""
        size = segment.size
        segment.reset()
        segment.is_sealed = False
        segment.synced_bytes = -1
        end_offset = segment.base_offset
        last_offset_max = segment.base_offset + RELATIVE_OFFSET_MAX
        interval_bytes = self._config.index_interval_bytes
        leader_epochs = self._leader_epochs
        aborted: list[AbortedTransaction] = []
        why = "torn batch"
        for position, header, batch in scan_batches(segment.file(), 0, size):
            base_offset, _, leader_epoch, _, crc, _, last_offset_delta, _, _, producer_id, *_ = header
            last_offset = base_offset + last_offset_delta
            if not end_offset <= base_offset <= last_offset <= last_offset_max:
                why = f"offset {base_offset} out of order"
                break
            if limit is not None and last_offset >= limit:
                why = f"segment {limit} was begun in the place of what followed"
                break
            if last_offset >= self._recovery_point and crc_of(batch) != crc:
                why = "the CRC does not match"
                break
            segment.index_batch(position, header, last_offset, interval_bytes)
            segment.size = position + len(batch)
            end_offset = last_offset + 1
            if leader_epoch > leader_epochs.latest:
                leader_epochs.assign(leader_epoch, base_offset)
            if producer_id >= 0:
                completed = replay_batch(self._producers, header, batch, base_offset)
                if completed is not None and completed.is_aborted:
                    aborted.append(self._producers.aborted_row(completed))
        segment.close_indexes()
        self._replace_aborted(segment, aborted)
        if segment.size < size:
            self._cut(segment, size, end_offset, why)
        return end_offset, segment.size == size or end_offset == limit

    def _replace_aborted(self, segment: Segment, rows: list[AbortedTransaction]) -> None:
        """Replaces the rows by what the batches say: compaction, which removes aborted ones, has not been here. The
        file is compared byte by byte: what a power cut has left of it need not be rows."""
        self._aborted.replace(segment.base_offset, rows)
        path = f"{self._path}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}"
        data = encode_aborted(rows)
        if data != (self._files.read_bytes(path) if self._files.exists(path) else b""):
            self._files.remove(path)
            if rows:
                write_file(self._files, path, data, sync=True)
            self._removed_any = True

    def _cut(self, segment: Segment, size: int, end_offset: int, why: str) -> None:
        file = segment.file()
        file.truncate(segment.size)
        file.sync()
        self._warn(f"cut {size - segment.size:,} bytes after offset {end_offset - 1}: {why}")

    # ---- what belongs to the segments

    def _read_leader_epochs(self) -> None:
        try:
            data = self._files.read_bytes(f"{self._path}/{LEADER_EPOCH_CHECKPOINT}")
            self._leader_epochs = LeaderEpochs.from_bytes(data)
        except CorruptCheckpoint as error:
            self._warn(f"{LEADER_EPOCH_CHECKPOINT} cannot be read: {error}")

    # ---- removal

    def _remove_segments(self, segments: list[Segment], first: int) -> None:
        for segment in segments[first:]:
            self._warn(f"removed segment {segment.base_offset} with {segment.size:,} bytes")
            for path in segment.paths:
                self._log_dir.cache.forget(path)
                self._files.remove(path)
            if self._aborted.of_segment(segment.base_offset):
                self._aborted.remove_segment(segment.base_offset)
                self._files.remove(f"{self._path}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}")
            self._removed_any = True
        del segments[first:]

    def _read_aborted(self, base_offset: int) -> None:
        path = f"{self._path}/{file_name(base_offset, TXN_INDEX_SUFFIX)}"
        self._aborted.replace(base_offset, decode_aborted(self._files.read_bytes(path)))

    def _remove_snapshots(self, segments: list[Segment], snapshots: list[int], end_offset: int) -> None:
        """Removes all but those at a segment's start and the last one, which a clean stop wrote at the log's end."""
        bases = {segment.base_offset for segment in segments}
        good = [offset for offset in snapshots if offset <= end_offset]
        for offset in snapshots:
            if offset > end_offset or (offset not in bases and offset != good[-1]):
                self._files.remove(f"{self._path}/{file_name(offset, SNAPSHOT_SUFFIX)}")
                self._removed_any = True

    def _warn(self, text: str) -> None:
        name = str(self._topic_partition)
        self._log_dir.report.warning(f"{name}: {text}", topic_partition=name, log_dir=self._log_dir.path)


def offsets_of(names: set[str], suffix: str) -> list[int]:
    """Returns the offsets that name the files with this suffix, in order."""
    stems = [name[: -len(suffix)] for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if stem.isdecimal())
