"""One directory of `log.dirs`: what its logs share, and what fails together with it.

Rules:
- An I/O error that casts doubt on the disk takes the whole dir offline: its logs answer KAFKA_STORAGE_ERROR, those of
  other dirs go on. It comes back only with a restart, which recovers it.
- Recovery points, log start offsets and how far each log is compacted are kept in dicts as they change and written out
  together, at most once an interval, only what changed, in a worker. Compaction does not wait for the interval.
- Below the floor of free bytes nothing of clients is appended, by leaders or followers; reading goes on, and so does
  what the broker writes itself. The free space is asked for seldom: between two questions the dir lives on its credit.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from barnabas.base.environment import Environment, Timer
from barnabas.base.files import replace_file
from barnabas.base.promise import Promise
from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    Checkpoint,
    encode_offsets,
)
from barnabas.storage.log_manager_config import LogManagerConfig, LogManagerLimits
from barnabas.storage.metadata_files import FAILED_DIR_FILE, MetaProperties
from barnabas.storage.segments.file_cache import OUT_OF_DESCRIPTORS, FileCache

FREE_BYTES_MIN_BY_SIZE = -1
_FREE_BYTES_MIN_MAX = 64 << 20
_FREE_PART_MIN = 8
_SPACE_CHECK_BYTES = 64 << 20
_SPACE_CHECK_MS = 1_000
_WARNING_MS = 1_000


class LogSchedule(Protocol):
    """The deadlines as a log sees them: it says when it wants to be looked at again."""

    def schedule(self, topic_partition: TopicPartition, deadline_ms: int) -> None: ...


class CleanableLogs(Protocol):
    """The cleaner as a log sees it: the log offers itself for compaction, or says that nothing is left to compact."""

    def offer(self, topic_partition: TopicPartition, dirty_ratio: float) -> None: ...

    def forget(self, topic_partition: TopicPartition) -> None: ...


class SharedParts(NamedTuple):
    """The parts that all dirs of a broker share."""

    environment: Environment
    config: LogManagerConfig
    limits: LogManagerLimits
    cache: FileCache
    deadlines: LogSchedule
    cleaner: CleanableLogs


class LogDir:
    __slots__ = (
        "_checkpoint_is_dirty",
        "_checkpoint_lock",
        "_checkpoint_timer",
        "_checkpoints",
        "_credit_bytes",
        "_forgotten",
        "_is_behind_checkpoints",
        "_is_short_of_space",
        "_next_space_check_ms",
        "_next_warning_ms",
        "_written",
        "cache",
        "clean_shutdown_epoch",
        "cleaner",
        "cleaner_offsets",
        "clock",
        "config",
        "deadlines",
        "distrusts_cache",
        "error",
        "files",
        "had_clean_shutdown",
        "high_watermarks",
        "limits",
        "log_start_offsets",
        "meta_properties",
        "on_offline",
        "path",
        "recovery_points",
        "report",
        "workers",
    )

    def __init__(self, path: str, shared: SharedParts) -> None:
        environment, self.config, self.limits, self.cache, self.deadlines, self.cleaner = shared
        self.path = path
        self.files = environment.files
        self.clock = environment.clock
        self.workers = environment.workers
        self.report = environment.report
        self.error: Exception | None = None
        """Why the dir is offline."""
        self.distrusts_cache = False
        """The dir failed in its last run: the page cache may hold what was never written, and call it so."""
        self.on_offline: Callable[[LogDir], None] | None = None
        self.had_clean_shutdown = False
        self.clean_shutdown_epoch = -1
        """The broker epoch of the run that ended cleanly; -1 if the mark does not say."""
        self.meta_properties: MetaProperties | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """How far each log was compacted."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """How far each replicated log was committed, as of the last checkpoint. A log without an entry has no other
        replica: all of it is committed."""
        self._written = Checkpoint(0, {}, {}, {}, {})
        self._checkpoint_is_dirty = False
        self._checkpoint_timer: Timer | None = None
        self._checkpoint_lock = threading.Lock()
        self._checkpoints = 0
        self._forgotten: dict[TopicPartition, int] = {}
        """Logs that are gone, and the number of the last checkpoint that may still know them."""
        self._is_behind_checkpoints = False
        self._credit_bytes = 0
        self._is_short_of_space = False
        self._next_space_check_ms = 0
        self._next_warning_ms = 0

    @property
    def directory_id(self) -> Uuid | None:
        """Returns the id by which the cluster knows the dir; None before it has one."""
        return None if self.meta_properties is None else self.meta_properties.directory_id

    # ---- failure

    def failed(self, error: Exception) -> KafkaStorageError:
        """Returns the error for a failed read or write. Running out of descriptors is not a disk failure."""
        if not (isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS):
            return self.go_offline(error)
        text = f"log dir {self.path}: {error}: raise `ulimit -n`, or lower max.connections"
        self.warn(text, error=str(error))
        return KafkaStorageError(text)

    def warn(self, text: str, **fields: object) -> None:
        """Reports at most once a second: clients try again, and a full disk is no place for a flood of lines."""
        now_ms = self.clock.monotonic_ms()
        if now_ms >= self._next_warning_ms:
            self._next_warning_ms = now_ms + _WARNING_MS
            self.report.warning(text, log_dir=self.path, **fields)

    def go_offline(self, error: Exception) -> KafkaStorageError:
        if self.error is None:
            self.error = error
            with suppress(OSError):
                self.files.open(f"{self.path}/{FAILED_DIR_FILE}", create=True)
            self.report.error(f"log dir {self.path} goes offline: {error}", log_dir=self.path, error=str(error))
            if self.on_offline is not None:
                self.on_offline(self)
        return self.offline_error()

    def offline_error(self) -> KafkaStorageError:
        return KafkaStorageError(f"log dir {self.path} is offline: {self.error}")

    def remove_in_worker(self, paths: Sequence[str]) -> None:
        self.workers.run(lambda: self._remove(paths))

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.files.remove(path)

    # ---- space

    @property
    def free_bytes_min(self) -> int:
        """Returns the configured floor, or one that suits the file system: a disk of 64 MB cannot keep 64 MB free."""
        if self.limits.free_bytes_min != FREE_BYTES_MIN_BY_SIZE:
            return self.limits.free_bytes_min
        return min(_FREE_BYTES_MIN_MAX, self.files.total_bytes(self.path) // _FREE_PART_MIN)

    def report_free_bytes_min(self) -> None:
        """Reports how much stays free, unless the dir is offline."""
        if self.error is not None:
            return
        try:
            floor, total = self.free_bytes_min, self.files.total_bytes(self.path)
        except OSError as error:
            self.go_offline(error)
            return
        text = f"log dir {self.path} keeps {floor:,} of {total:,} bytes free"
        self.report.info(text, log_dir=self.path, free_bytes_min=floor, total_bytes=total)

    def reserve(self, size: int, now_ms: int) -> None:
        """Raises if the append would leave less than the floor."""
        self._credit_bytes -= size
        if self._credit_bytes < 0 or now_ms >= self._next_space_check_ms:
            self._check_space(size, now_ms)

    def _check_space(self, size: int, now_ms: int) -> None:
        is_recent = 0 < self._next_space_check_ms - now_ms <= _SPACE_CHECK_MS  # not if the clock was set back
        if not (self._is_short_of_space and is_recent):
            try:
                spare = self._spare_bytes()
            except OSError as error:
                raise self.failed(error) from error
            self._tell_of_space(spare is not None and spare < size)
            self._next_space_check_ms = now_ms + _SPACE_CHECK_MS
            self._credit_bytes = min(_SPACE_CHECK_BYTES if spare is None else spare, _SPACE_CHECK_BYTES) - size
        if self._is_short_of_space:
            raise KafkaStorageError(self._short_of_space())

    def _spare_bytes(self) -> int | None:
        """Returns how much may be appended before the floor is reached; None if there is no floor."""
        floor = self.free_bytes_min
        return self.files.free_bytes(self.path) - floor if floor > 0 else None

    def _tell_of_space(self, is_short: bool) -> None:
        if is_short and not self._is_short_of_space:
            self.report.warning(self._short_of_space(), log_dir=self.path)
        elif self._is_short_of_space and not is_short:
            self.report.info(f"log dir {self.path} has room again", log_dir=self.path)
        self._is_short_of_space = is_short

    def _short_of_space(self) -> str:
        return f"log dir {self.path} has less than {self.free_bytes_min:,} bytes free: nothing is appended"

    # ---- checkpoints

    def set_recovery_point(self, topic_partition: TopicPartition, offset: int) -> None:
        if self.recovery_points.get(topic_partition) != offset:
            self.recovery_points[topic_partition] = offset
            self._checkpoint_later()

    def set_log_start_offset(self, topic_partition: TopicPartition, offset: int) -> None:
        if self.log_start_offsets.get(topic_partition, 0) != offset:
            self.log_start_offsets[topic_partition] = offset
            self._checkpoint_later()

    def set_cleaner_offset(self, topic_partition: TopicPartition, offset: int) -> Promise[None]:
        """Returns a promise that the offset is on disk. If that fails the next checkpoint holds it."""
        self.cleaner_offsets[topic_partition] = offset
        checkpoint = self._checkpoint()
        outcome: Promise[None] = Promise()

        def written(job: Promise[None]) -> None:
            if job.error is None:
                return outcome.resolve(None)
            self._checkpoint_later()
            outcome.fail(job.error)

        self.workers.run(lambda: self.write(checkpoint)).when_done(written)
        return outcome

    def checkpoint_with(self, topic_partition: TopicPartition, recovery_point: int) -> Checkpoint | None:
        """Returns the checkpoint by which a start knows that everything below the offset was durable; None if it is
        written already."""
        if self._written.recovery_points.get(topic_partition, 0) >= recovery_point:
            return None
        if self.recovery_points.get(topic_partition, 0) < recovery_point:
            self.set_recovery_point(topic_partition, recovery_point)
        return self._checkpoint()

    def truncate(
        self, topic_partition: TopicPartition, offset: int, recovery_point: int, log_start_offset: int
    ) -> None:
        """Sets a log's checkpoints durably before it is cut at this offset: records appended in the place of the old
        ones must not be taken for committed, flushed or compacted, and a log that lost every segment must not begin at
        0. Blocks."""
        self._lower(topic_partition, offset, recovery_point)
        self.log_start_offsets[topic_partition] = log_start_offset
        self.checkpoint_now()

    def _lower(self, topic_partition: TopicPartition, offset: int, recovery_point: int) -> bool:
        """Returns whether anything was above."""
        is_lower = False
        for offsets, most in (
            (self.recovery_points, recovery_point),
            (self.cleaner_offsets, recovery_point),
            (self.high_watermarks, offset),
        ):
            if offsets.get(topic_partition, 0) > most:
                offsets[topic_partition] = most
                is_lower = True
        return is_lower

    def found_end(self, topic_partition: TopicPartition, offset: int) -> None:
        """Notes where a log ends that was opened. If its checkpoints lie beyond, because something was lost or cut
        off, `write_found_ends` must follow before anything is appended: it would be taken for durable and committed
        after the next crash."""
        self._is_behind_checkpoints |= self._lower(topic_partition, offset, offset)

    def write_found_ends(self) -> None:
        """Writes the checkpoints of logs that were found to end before them. Blocks."""
        if self._is_behind_checkpoints:
            self.checkpoint_now()
            self._is_behind_checkpoints = False

    def checkpoint_now(self) -> None:
        """Writes what changed before it returns."""
        self.write(self._checkpoint())

    def forget(self, topic_partition: TopicPartition) -> None:
        for offsets in (self.recovery_points, self.log_start_offsets, self.cleaner_offsets, self.high_watermarks):
            if offsets.pop(topic_partition, None) is not None:
                self._forgotten[topic_partition] = self._checkpoints
                self._checkpoint_later()

    def begin(self, topic_partition: TopicPartition) -> None:
        """Forgets an earlier log of that name, on the disk too: after a crash its offsets would be taken for those of
        the one that begins, whose records would count as deleted, durable or committed. Blocks if there was one."""
        self.forget(topic_partition)
        if self._written.number <= self._forgotten.get(topic_partition, -1):
            self.checkpoint_now()
        self._forgotten.pop(topic_partition, None)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes how far replicated logs are committed, in a worker. It does not wait for the other checkpoints: what a
        replica has committed should not seem to go back by a minute when it leads after a crash."""
        self.high_watermarks.update(high_watermarks)
        if self.error is None and self.high_watermarks != self._written.high_watermarks:
            checkpoint = self._checkpoint()
            self.workers.run(lambda: self.write(checkpoint)).when_done(self._high_watermarks_written)

    def _high_watermarks_written(self, written: Promise[None]) -> None:
        if written.error is not None:
            self._tell_not_written(written.error)

    def _checkpoint_later(self) -> None:
        self._checkpoint_is_dirty = True
        if self._checkpoint_timer is None:
            delay_ms = self.config.log_flush_offset_checkpoint_interval_ms
            self._checkpoint_timer = self.clock.call_later(delay_ms, self._checkpoint_in_worker)

    def _checkpoint_in_worker(self) -> None:
        if self.error is None:
            self._checkpoint_is_dirty = False
            checkpoint = self._checkpoint()
            self.workers.run(lambda: self.write(checkpoint)).when_done(self._checkpointed)

    def _checkpointed(self, written: Promise[None]) -> None:
        self._checkpoint_timer = None
        self._forgotten = {name: last for name, last in self._forgotten.items() if self._written.number <= last}
        if written.error is not None:
            self._tell_not_written(written.error)
        if written.error is not None or self._checkpoint_is_dirty:
            self._checkpoint_later()

    def _tell_not_written(self, error: Exception) -> None:
        self.report.warning(f"{self.path}: checkpoints could not be written: {error}", log_dir=self.path)

    def write_checkpoints(self) -> None:
        """Writes the checkpoints at once when the broker stops, and cancels their timer."""
        if self._checkpoint_timer is not None:
            self._checkpoint_timer.cancel()
        self.write(self._checkpoint())

    def read(self, checkpoint: Checkpoint) -> None:
        """Takes what a start finds on the disk."""
        self._written = checkpoint
        _, *found = checkpoint
        copies = (dict(offsets) for offsets in found)
        self.recovery_points, self.log_start_offsets, self.cleaner_offsets, self.high_watermarks = copies

    def _checkpoint(self) -> Checkpoint:
        self._checkpoints += 1
        return Checkpoint(
            self._checkpoints,
            dict(self.recovery_points),
            dict(self.log_start_offsets),
            dict(self.cleaner_offsets),
            dict(self.high_watermarks),
        )

    def write(self, checkpoint: Checkpoint) -> None:
        """Writes what changed. A worker that comes late, when the broker has stopped meanwhile, changes nothing."""
        with self._checkpoint_lock:
            if checkpoint.number > self._written.number:
                written = self._written
                if checkpoint.log_start_offsets != written.log_start_offsets or not written.number:
                    self._replace(LOG_START_OFFSET_CHECKPOINT, checkpoint.log_start_offsets)
                if checkpoint.recovery_points != written.recovery_points or not written.number:
                    self._replace(RECOVERY_POINT_CHECKPOINT, checkpoint.recovery_points)
                if checkpoint.cleaner_offsets != written.cleaner_offsets:
                    self._replace(CLEANER_OFFSET_CHECKPOINT, checkpoint.cleaner_offsets)
                if checkpoint.high_watermarks != written.high_watermarks:
                    self._replace(HIGH_WATERMARK_CHECKPOINT, checkpoint.high_watermarks)
                self._written = checkpoint

    def _replace(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        replace_file(self.files, f"{self.path}/{name}", encode_offsets(offsets))
