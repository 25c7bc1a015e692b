"""Decides which log is compacted next, has it done elsewhere, and puts the result in its place.

Rules:
- Logs report by themselves that they are worth it (`offer`); nothing scans them all. One is compacted at a time,
  the dirtiest first, one after the other while there are any. When there are none left, the next run begins
  log.cleaner.backoff.ms later at the earliest.
- The loop plans and installs; everything that reads or writes records runs in the `Compactor`. Whatever happens to it
  meanwhile, the log is as good as before: the run is thrown away and begins again after the backoff.
- A log with a batch that cannot be read is uncleanable until the next start: reported once, and the others go on.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.base.environment import Environment, Timer
from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.types import TopicPartition
from barnabas.storage.compaction.log_compaction import NOT_THE_DISK, SegmentsChanged
from barnabas.storage.log import Log
from barnabas.storage.log_manager_config import LogManagerConfig
from barnabas.storage.opening.unfinished_files import remove_unfinished

if TYPE_CHECKING:
    from barnabas.storage.compaction.cleanable import Cleanable
    from barnabas.storage.compaction.job import CleanedSegment, CompactionJob, CompactionStats

OnCleaned = Callable[["CleanedSegment"], None]
OnDone = Callable[["CompactionStats | None", Exception | None], None]


class _Run:
    """One log, one pass."""

    __slots__ = ("cleaned", "error", "is_swapping", "log", "started_ms", "stats")

    def __init__(self, log: Log, started_ms: int) -> None:
        self.log = log
        self.started_ms = started_ms
        self.cleaned: deque[CleanedSegment] = deque()
        self.is_swapping = False
        self.stats: CompactionStats | None = None
        """Known when everything is copied; the last segments may still be on the way to their places."""
        self.error: Exception | None = None


class Cleaner:
    def __init__(
        self,
        config: LogManagerConfig,
        environment: Environment,
        log_of: Callable[[TopicPartition], Log | None],
    ) -> None:
        self.config = config
        self._files = environment.files
        self._clock = environment.clock
        self._workers = environment.workers
        self._report = environment.report
        self._compactor = environment.compactor
        self._log_of = log_of
        self._offered: dict[TopicPartition, float] = {}
        self._run: _Run | None = None
        self._timer: Timer | None = None
        self._rests_until_ms = 0
        self._is_tidying = False
        """Files of a failed run are being removed, by their names: another run may give the same names to its own."""
        self._is_closed = False
        self.runs = 0
        self.failures = 0
        self.uncleanable: dict[TopicPartition, str] = {}
        """Why each of them cannot be compacted."""

    @property
    def is_running(self) -> bool:
        return self._run is not None

    def configure(self, config: LogManagerConfig) -> None:
        self.config = config
        self._start_later()

    # ---- which log

    def offer(self, topic_partition: TopicPartition, dirty_ratio: float) -> None:
        if self.config.log_cleaner_enable and topic_partition not in self.uncleanable:
            self._offered[topic_partition] = dirty_ratio
            self._start_later()

    def forget(self, topic_partition: TopicPartition) -> None:
        """Drops a log that is closed or deleted, and cancels its run."""
        self._offered.pop(topic_partition, None)
        self.uncleanable.pop(topic_partition, None)
        if self._run is not None and self._run.log.topic_partition == topic_partition:
            self._compactor.cancel()
            self._run = None
            self._start_later()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._offered.clear()
            if self._timer is not None:
                self._timer.cancel()
            self._compactor.cancel()
            self._run = None

    def _start_later(self) -> None:
        is_busy = self._run is not None or self._is_tidying
        if self._offered and not is_busy and self._timer is None and not self._is_closed:
            delay_ms = max(self._rests_until_ms - self._clock.monotonic_ms(), 0)
            self._timer = self._clock.call_later(delay_ms, self._start_next)

    def _start_next(self) -> None:
        self._timer = None
        while self._offered and self._run is None:
            topic_partition = max(self._offered, key=self._offered.__getitem__)
            del self._offered[topic_partition]
            log = self._log_of(topic_partition)
            if log is not None and not log.is_closed and not log.is_offline and log.config.compact:
                self._start(log)
        self._rest_or_start()

    def _rest_or_start(self) -> None:
        if self._run is None and not self._offered:
            self._rests_until_ms = self._clock.monotonic_ms() + self.config.log_cleaner_backoff_ms
        self._start_later()

    # ---- one run

    def _start(self, log: Log) -> None:
        now_ms = self._clock.now_ms()
        try:
            found = log.compaction.cleanable(now_ms)
        except OSError as error:
            log.log_dir.failed(error)
            return
        if not found.is_due:
            return
        run = self._run = _Run(log, self._clock.monotonic_ms())
        self._compactor.start(
            job_of(log, found, self.config, now_ms),
            lambda cleaned: self._on_cleaned(run, cleaned),
            lambda stats, error: self._on_done(run, stats, error),
        )

    def _on_cleaned(self, run: _Run, cleaned: "CleanedSegment") -> None:
        run.cleaned.append(cleaned)
        self._go_on(run)

    def _on_done(self, run: _Run, stats: "CompactionStats | None", error: Exception | None) -> None:
        run.stats, run.error = stats, error
        self._go_on(run)

    def _go_on(self, run: _Run) -> None:
        """Takes the next step. One segment is swapped at a time, and a failure waits too: a swap must be completed."""
        if run.is_swapping or run is not self._run:
            return
        if run.error is None and run.cleaned:
            self._swap(run, run.cleaned.popleft())
        elif run.error is not None:
            self._fail(run, run.error)
        elif run.stats is not None:
            self._finish(run, run.stats)

    def _swap(self, run: _Run, cleaned: "CleanedSegment") -> None:
        def swapped(error: Exception | None) -> None:
            run.is_swapping = False
            if run is self._run:
                if error is not None:
                    self._compactor.cancel()
                    run.error = error
                self._go_on(run)

        run.is_swapping = True
        try:
            run.log.compaction.swap(cleaned).when_done(lambda done: swapped(done.error))
        except (SegmentsChanged, KafkaStorageError) as error:
            swapped(error)

    def _finish(self, run: _Run, stats: "CompactionStats") -> None:
        log = run.log
        elapsed_ms = self._clock.monotonic_ms() - run.started_ms
        self.runs += 1
        self._tell(log, stats, elapsed_ms)
        written = log.log_dir.set_cleaner_offset(log.topic_partition, stats.end_offset)
        written.when_done(lambda _: self._end(run))

    def _end(self, run: _Run) -> None:
        """Ends the run. Records beyond the map's room, or written meanwhile, may be worth another pass at once."""
        if run is self._run:
            self._run = None
            try:
                run.log.compaction.check_cleanable(self._clock.now_ms())
            except KafkaStorageError:
                pass  # reported where it was found
            self._rest_or_start()

    def _tell(self, log: Log, stats: "CompactionStats", elapsed_ms: int) -> None:
        name = str(log.topic_partition)
        text = (
            f"{name}: compacted up to offset {stats.end_offset} in {elapsed_ms / 1000:.1f} s: "
            f"{stats.records_before:,} records became {stats.records_after:,}, "
            f"{stats.bytes_before:,} bytes {stats.bytes_after:,}, "
            f"{stats.segments_before} segments {stats.segments_after}"
        )
        if stats.keyless_records:
            text += f"; {stats.keyless_records:,} without a key were dropped"
        self._report.info(text, topic_partition=name, elapsed_ms=elapsed_ms, **stats._asdict())

    # ---- failure

    def _fail(self, run: _Run, error: Exception) -> None:
        from barnabas.storage.compaction.job import CompactionFailed

        self.failures += 1
        log, name = run.log, str(run.log.topic_partition)
        if isinstance(error, CompactionFailed) and error.is_corrupt:
            self.uncleanable[log.topic_partition] = str(error)
            text = (
                f"{name}: cannot be compacted and keeps growing: {error}. Its other records can be read; stop the "
                "broker and move the segment away, or delete the topic and create it again"
            )
            self._report.error(text, topic_partition=name)
        elif not isinstance(error, KafkaStorageError):
            self._report.warning(f"{name}: its compaction will be tried again: {error}", topic_partition=name)
            if getattr(error, "errno", None) not in (None, *NOT_THE_DISK):
                log.log_dir.go_offline(error)
            log.maintenance.check_cleanable_at(self._clock.now_ms() + self.config.log_cleaner_backoff_ms)
        self._is_tidying = True
        self._workers.run(lambda: self._remove_unfinished(log)).when_done(lambda _: self._tidied(run))

    def _remove_unfinished(self, log: Log) -> None:
        """Removes the files of a failed run. None is half in place: a swap is over, or has not begun."""
        if not log.is_closed and not log.is_offline:
            remove_unfinished(self._files, log.path)

    def _tidied(self, run: _Run) -> None:
        self._is_tidying = False
        if run is self._run:
            self._run = None
        self._rest_or_start()


def job_of(log: Log, found: "Cleanable", config: LogManagerConfig, now_ms: int) -> "CompactionJob":
    from barnabas.storage.compaction.job import CompactionJob, SegmentToClean

    return CompactionJob(
        log.path,
        tuple(
            SegmentToClean(
                segment.base_offset,
                segment.size,
                len(segment.offset_index) * segment.offset_index.row_bytes,
                len(segment.time_index) * segment.time_index.row_bytes,
            )
            for segment in found.segments
        ),
        found.first_dirty_offset,
        found.end_offset,
        now_ms,
        log.config.delete_retention_ms,
        log.config.segment_bytes,
        log.config.segment_index_bytes,
        log.config.index_interval_bytes,
        tuple(log.aborted.between(found.segments[0].base_offset, found.end_offset)) if found.segments else (),
        {
            producer_id: (entry.batches[-1].last_offset if entry.batches else -1, entry.producer_epoch)
            for producer_id, entry in log.active_producers()
        },
        config.log_cleaner_dedupe_buffer_size,
        config.log_cleaner_io_buffer_load_factor,
        config.log_cleaner_io_max_bytes_per_second,
    )
