"""What a log does by itself, from time to time: flush, delete old segments, forget producers, offer to be compacted.

Deadlines are times of the monotonic clock, what is compared with records' timestamps is wall time: a correction of that
clock must neither put off a flush nor stop retention. What waits for a wall time looks again once an hour.
"""

from typing import TYPE_CHECKING

from barnabas.protocol.errors import OffsetOutOfRange
from barnabas.storage import retention
from barnabas.storage.log_deadlines import NEVER_MS, NO_FLUSH_MS, LogDeadlines

if TYPE_CHECKING:
    from barnabas.storage.log import Log

_LOOK_AGAIN_MS = 3_600_000


class LogMaintenance:
    __slots__ = ("_log", "deadlines")

    def __init__(self, log: "Log") -> None:
        self._log = log
        self.deadlines = LogDeadlines()

    def start(self) -> None:
        log = self._log
        if log.log_end_offset > log.log_start_offset:
            first_ms = self._in(log.log_dir.limits.initial_task_delay_ms)
            self.deadlines.retention_ms = first_ms
            if log.config.compact and len(log.segments) > 1:
                self.deadlines.compaction_ms = first_ms
            self.reschedule()

    def configured(self) -> None:
        self.deadlines.flush_ms = NEVER_MS  # it is set again by the new flush.ms
        self.deadlines.retention_ms = NEVER_MS
        self.deadlines.compaction_ms = self._in(0) if self._log.config.compact else NEVER_MS
        self.reschedule()

    # ---- what changes the deadlines

    def first_producer_seen(self) -> None:
        self.deadlines.are_settled = False

    def everything_flushed(self) -> None:
        deadlines = self.deadlines
        deadlines.flush_ms = NEVER_MS
        deadlines.are_settled = deadlines.are_settled and self._log.config.flush_ms == NO_FLUSH_MS

    def rolled(self) -> None:
        log = self._log
        if retention.has_surplus(log.segments, log.config):
            not_before_ms = self._in(log.log_dir.config.log_retention_check_interval_ms)
            self.deadlines.retention_ms = min(self.deadlines.retention_ms, not_before_ms)
            self.deadlines.are_settled = False

    def check_cleanable_at(self, time_ms: int) -> None:
        """Takes a wall time."""
        self.deadlines.compaction_ms = min(self.deadlines.compaction_ms, self._at(time_ms))
        self.reschedule()

    # ---- deadlines

    def _in(self, delay_ms: int) -> int:
        return self._log.log_dir.clock.monotonic_ms() + delay_ms

    def _at(self, time_ms: int) -> int:
        """Returns the deadline for a wall time, or for the next look at what waits for it."""
        return self._in(min(max(time_ms - self._log.log_dir.clock.now_ms(), 0), _LOOK_AGAIN_MS))

    @property
    def deadline_ms(self) -> int:
        return self.deadlines.scheduled_ms

    def reschedule(self) -> None:
        log, deadlines = self._log, self.deadlines
        deadlines.update(
            log.config,
            log.log_dir.config,
            log.log_dir.clock.monotonic_ms(),
            is_empty=log.log_end_offset == log.log_start_offset,
            is_flushed=log.log_end_offset <= log.recovery_point,
            has_producers=bool(log.producers.by_id or log.producers.guards),
        )
        deadline_ms = deadlines.to_schedule()
        if deadline_ms is not None:
            log.log_dir.deadlines.schedule(log.topic_partition, deadline_ms)

    def run_deadlines(self, now_ms: int) -> None:
        """Does what is due at this monotonic time."""
        log, deadlines = self._log, self.deadlines
        deadlines.scheduled_ms = NEVER_MS
        if log.is_closed or log.is_offline:
            return
        try:
            self._do_what_is_due(now_ms)
        finally:
            if not log.is_offline:
                self.reschedule()

    def _do_what_is_due(self, now_ms: int) -> None:
        log, deadlines = self._log, self.deadlines
        wall_ms = log.log_dir.clock.now_ms()
        if deadlines.flush_ms <= now_ms:
            deadlines.flush_ms = NEVER_MS
            log.flusher.flush_soon()
        if deadlines.expiration_ms <= now_ms:
            deadlines.expiration_ms = NEVER_MS
            log.producers.remove_expired(wall_ms, log.log_dir.config.producer_id_expiration_ms)
            log.transactions.report_late(wall_ms)
        if deadlines.retention_ms <= now_ms:
            deadlines.retention_ms = now_ms + log.log_dir.config.log_retention_check_interval_ms  # if it fails
            self.enforce_retention(wall_ms)
        if deadlines.compaction_ms <= now_ms:
            deadlines.compaction_ms = NEVER_MS
            log.compaction.check_cleanable(wall_ms)

    # ---- removal

    def delete_records(self, offset: int) -> int:
        """Moves the log start offset up to `offset`; deletes segments wholly below it. Returns the log start offset."""
        log = self._log
        log.check_available()
        if not 0 <= offset <= log.high_watermark:
            raise OffsetOutOfRange(f"offset {offset} is not in [0, {log.high_watermark}]")
        if offset > log.log_start_offset:
            log.start_at(offset)
            self.delete_segments(log.segments.count_below(offset))
        return log.log_start_offset

    def enforce_retention(self, now_ms: int) -> int | None:
        """Deletes every segment that is due. Returns when to look again, None for never."""
        log = self._log
        log.check_available()
        try:
            count = retention.count_deletable(log.view(), now_ms)
            if count == len(log.segments):
                log.roll(now_ms)
            if count:
                log.start_at(log.segments[count].base_offset)
                self.delete_segments(count)
            expiry_ms = retention.next_expiry_ms(log.view())
        except OSError as error:
            raise log.append_failed(error) from error
        if expiry_ms is not None:
            expiry_ms = max(expiry_ms, now_ms + log.log_dir.config.log_retention_check_interval_ms)
        self.deadlines.retention_ms = NEVER_MS if expiry_ms is None else self._at(expiry_ms)
        self.deadlines.are_settled = False
        return expiry_ms

    def delete_segments(self, count: int) -> None:
        log = self._log
        if count == 0 or log.compaction.is_swapping:
            return
        for segment in log.segments.remove_first(count):
            log.flusher.segment_deleted(segment)
            log.aborted.remove_segment(segment.base_offset)
            for path in segment.paths:
                log.log_dir.cache.forget(path)
        log.inform(f"deleted {count} segments, the log starts at offset {log.log_start_offset}", segments=count)
        log.flusher.start_soon()
