"""One partition replica on disk: an ordered list of segments and what is known about them.

Rules:
- One thread, the loop's, calls it. What blocks runs in a worker and reports back to that thread.
- An append is all or nothing: every batch is checked before the first byte is written, and they are written at once.
- Record bytes are neither parsed nor copied: the header is read, base offset and leader epoch are patched in place.
- A read returns a slice of the file: whole batches, at least one, never beyond `max_offset`.
- `recovery_point`: everything below it is durable. Only a flush moves it.
- A full disk refuses the append and cuts off what it left; reads go on. Any other I/O error takes the log dir
  offline.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from barnabas.protocol.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from barnabas.protocol.records import NO_TIMESTAMP, BatchHeader, set_header, set_offsets
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage import retention
from barnabas.storage.cleanable import Cleanable, find_cleanable
from barnabas.storage.files import FileSlice
from barnabas.storage.flush import FULL_DISK, FlushPlan, GroupCommit, Then
from barnabas.storage.leftovers import CLEANED_SUFFIX
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_deadlines import NEVER_MS, NO_FLUSH_MS, LogDeadlines
from barnabas.storage.log_dir import LogDir
from barnabas.storage.offset_lookup import TimestampOffset, find_max_timestamp, find_timestamp
from barnabas.storage.producer_state import BatchMetadata, ProducerEntry, end_transaction
from barnabas.storage.recovery import LoadedLog
from barnabas.storage.segment import DELETED_SUFFIX, TXN_INDEX_SUFFIX, Segment, TornTail, file_name
from barnabas.storage.segment_list import SegmentList
from barnabas.storage.segment_swap import SegmentSwap
from barnabas.storage.unflushed import Unflushed
from barnabas.storage.validation import Batches, check_client_batch, check_own_batches, stamp_log_append_time

if TYPE_CHECKING:
    from barnabas.storage.compaction_job import CleanedSegment
    from barnabas.storage.transaction_index import AbortedTransaction


_new_info = tuple.__new__  # a third of the time that the class takes


class AppendInfo(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time: int
    """-1 under CreateTime."""
    log_start_offset: int
    duplicate: bool
    """The batch was stored before; these are the offsets it got then."""


class SegmentsChanged(Exception):
    """What was compacted is no longer part of the log as it was: the result is of no use."""


class Log:
    __slots__ = (
        "_aborted",
        "_deadlines",
        "_group_commit",
        "_leader_epochs",
        "_log_dir",
        "_segments",
        "_swap",
        "_unflushed",
        "config",
        "high_watermark",
        "is_closed",
        "log_end_offset",
        "log_start_offset",
        "path",
        "producers",
        "recovery_point",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        log_dir: LogDir,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self._log_dir = log_dir
        self.config = config
        self.path = f"{log_dir.path}/{topic_partition}"
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_closed = False
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark: int | None = None
        """Bounds retention. None: there is no other replica, every record is committed."""
        self.producers = loaded.producers
        self._leader_epochs = loaded.leader_epochs
        self._aborted = loaded.aborted
        self._segments = SegmentList(loaded.segments)
        self._unflushed = Unflushed(self.path, loaded.segments, has_durable_names=loaded.has_durable_names)
        self._group_commit = GroupCommit(self, log_dir.clock, log_dir.workers)
        self._deadlines = LogDeadlines()
        self._swap: SegmentSwap | None = None
        """A cleaned segment is taking its place: until it has, no segment's files are deleted."""
        self._start()

    def _start(self) -> None:
        if self.log_end_offset > self.log_start_offset:
            initial_delay_ms = self._log_dir.config.log_initial_task_delay_ms
            self._deadlines.retention_ms = self._log_dir.clock.now_ms() + initial_delay_ms
            if self.config.compact and len(self._segments) > 1:
                self._deadlines.compaction_ms = self._deadlines.retention_ms
            self._reschedule()
        if self._unflushed:
            self._group_commit.start_soon()

    def configure(self, config: LogConfig) -> None:
        if config != self.config:
            self.config = config
            self._deadlines.retention_ms = NEVER_MS
            self._deadlines.compaction_ms = self._log_dir.clock.now_ms() if config.compact else NEVER_MS
            self._reschedule()

    @property
    def log_dir(self) -> LogDir:
        return self._log_dir

    @property
    def segments(self) -> SegmentList:
        return self._segments

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def is_offline(self) -> bool:
        return self._log_dir.error is not None

    def _check_available(self) -> None:
        if self._log_dir.error is not None:
            raise self._log_dir.offline_error()
        if self.is_closed:
            raise KafkaStorageError(f"the log of {self.topic_partition} is closed")

    # ---- append

    def append(self, batch: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Stores a client's batch behind the last one. Patches it in place: the buffer then holds what the file holds.

        Every request goes through here, so what can be said in one function is not said in five.
        """
        if self._log_dir.error is not None or self.is_closed:
            self._check_available()
        config = self.config
        header = sent = check_client_batch(batch, config, now_ms)
        size, producer_id = len(batch), header.producer_id
        if size > config.segment_bytes:
            self._refuse_size(size)
        if producer_id >= 0 and self.producers.by_id:
            duplicate = self.producers.check(header, sequences=True)
            if duplicate is not None:
                return self._info_of_duplicate(duplicate)
        self._log_dir.reserve(size, now_ms)  # a floor of free space keeps room for what the broker itself must write
        log_append_time = NO_TIMESTAMP
        if config.is_log_append_time:
            header = stamp_log_append_time(batch, now_ms)
            log_append_time = now_ms
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self._segments.active
        try:
            if segment.is_sealed or segment.should_roll(config, size, last_offset, header.max_timestamp, now_ms):
                segment = self._segment_for(size, last_offset, header.max_timestamp, now_ms)
            set_offsets(batch, base_offset, leader_epoch)
            segment.append(batch, header, last_offset, config.index_interval_bytes)
        except (OSError, TornTail) as error:
            set_header(batch, sent)
            raise self._append_failed(error) from error
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self._remember_producer(batch, header, base_offset)
        self._appended(base_offset, leader_epoch)
        return _new_info(AppendInfo, (base_offset, last_offset, log_append_time, self.log_start_offset, False))

    def append_own(self, data: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Stores what the broker itself has made: one batch or several, control batches too, all of them or none."""
        assert data, "nothing to append"
        self._check_available()
        batches = check_own_batches(data)
        if len(data) > self.config.segment_bytes:
            self._refuse_size(len(data))
        for _, header in batches:
            if header.producer_id >= 0 and self.producers.by_id:
                self.producers.check(header, sequences=False)
        log_append_time = NO_TIMESTAMP
        if self.config.is_log_append_time:
            batches = [(batch, stamp_log_append_time(batch, now_ms)) for batch, _ in batches]
            log_append_time = now_ms
        base_offset = next_offset = self.log_end_offset
        for batch, header in batches:
            set_offsets(batch, next_offset, leader_epoch)
            next_offset += header.last_offset_delta + 1
        max_timestamp = max(header.max_timestamp for _, header in batches)
        try:
            segment = self._segment_for(len(data), next_offset - 1, max_timestamp, now_ms)
            segment.append_all(data, batches, base_offset, self.config.index_interval_bytes)
        except (OSError, TornTail) as error:
            raise self._append_failed(error) from error
        self.log_end_offset = next_offset
        self._remember_producers(batches, base_offset)
        self._appended(base_offset, leader_epoch)
        return AppendInfo(base_offset, next_offset - 1, log_append_time, self.log_start_offset, False)

    def _refuse_size(self, size: int) -> NoReturn:
        raise RecordListTooLarge(f"{size} bytes of batches where segment.bytes is {self.config.segment_bytes}")

    def _info_of_duplicate(self, batch: BatchMetadata) -> AppendInfo:
        log_append_time = batch.timestamp if self.config.is_log_append_time else NO_TIMESTAMP
        return AppendInfo(batch.first_offset, batch.last_offset, log_append_time, self.log_start_offset, True)

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, or the next if that one should be closed first."""
        segment = self._segments.active
        if segment.is_sealed:
            segment.activate()
        if segment.should_roll(self.config, size, last_offset, max_timestamp, now_ms):
            return self._roll(now_ms)
        return segment

    def _remember_producers(self, batches: Batches, base_offset: int) -> None:
        for batch, header in batches:
            if header.producer_id >= 0:
                self._remember_producer(batch, header, base_offset)
            base_offset += header.last_offset_delta + 1

    def _remember_producer(self, batch: memoryview, header: BatchHeader, base_offset: int) -> None:
        if not self.producers.by_id:
            self._deadlines.are_settled = False
        if header.is_control:
            end_transaction(self.producers, header, batch)
        else:
            self.producers.update(header, base_offset)

    def _appended(self, base_offset: int, leader_epoch: int) -> None:
        if leader_epoch != self._leader_epochs.latest:
            self._leader_epochs.assign(leader_epoch, base_offset)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self._group_commit.flush_soon()
        if not self._deadlines.are_settled:
            self._reschedule()

    def _append_failed(self, error: Exception) -> KafkaStorageError:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            text = f"{self.topic_partition}: the disk of {self._log_dir.path} is full, the append was refused"
            self._log_dir.warn(text, topic_partition=str(self.topic_partition))
            return KafkaStorageError(text)
        return self._log_dir.failed(error)

    # ---- segments

    def roll(self, now_ms: int) -> None:
        """Closes the active segment and begins the next, if there is anything in it."""
        self._check_available()
        try:
            self._roll(now_ms)
        except OSError as error:
            raise self._append_failed(error) from error

    def _roll(self, now_ms: int) -> Segment:
        active = self._segments.active
        if active.base_offset == self.log_end_offset:
            return active
        if active.is_sealed:
            active.activate()
        segment = Segment(self.path, self.log_end_offset, self._log_dir.cache, now_ms)
        self._log_dir.files.remove(segment.path)
        segment.create()
        self._segments.append(segment)
        self._unflushed.closed(active)
        self._take_snapshot()
        if retention.has_surplus(self._segments, self.config):
            not_before_ms = now_ms + self._log_dir.config.log_retention_check_interval_ms
            self._deadlines.retention_ms = min(self._deadlines.retention_ms, not_before_ms)
            self._deadlines.are_settled = False
        self._tell(f"rolled a new segment at offset {self.log_end_offset}", offset=self.log_end_offset)
        self._group_commit.start_soon()
        return segment

    def _take_snapshot(self) -> None:
        self.producers.end_offset = self.log_end_offset
        self._unflushed.snapshot(self.producers)

    def _tell(self, text: str, **fields: object) -> None:
        name = str(self.topic_partition)
        self._log_dir.report.info(f"{name}: {text}", topic_partition=name, **fields)

    # ---- read

    def read(self, offset: int, max_bytes: int, *, max_offset: int, at_least_one: bool = True) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, up to `max_offset` (exclusive); None: there are none."""
        if self._log_dir.error is not None or self.is_closed:
            self._check_available()
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self.log_start_offset}, {end_offset}]")
        if max_offset > end_offset:
            max_offset = end_offset
        if offset >= max_offset:
            if offset == end_offset:
                self._segments.remember(offset, self._segments.active.size)
            return None
        try:
            return self._segments.read(
                offset, max_bytes, max_offset=max_offset, end_offset=end_offset, at_least_one=at_least_one
            )
        except OSError as error:
            raise self._log_dir.failed(error) from error

    def unread_bytes(self, offset: int, *, max_offset: int) -> int | None:
        """What could be read of the segment that holds `offset`; None if that is all there will ever be of it."""
        try:
            return self._segments.unread_bytes(offset, max_offset)
        except OSError as error:
            raise self._log_dir.failed(error) from error

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list["AbortedTransaction"]:
        """Those that reach into this range, by their first offsets. Nobody aborts one here: all came with the files."""
        if not self._aborted:
            return []
        rows = [row for rows in self._aborted.values() for row in rows]
        return sorted(row for row in rows if row.first_offset < end_offset and row.last_offset >= start_offset)

    # ---- offsets

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record at or after the timestamp."""
        self._check_available()
        try:
            return find_timestamp(self._segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise self._log_dir.failed(error) from error

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        self._check_available()
        try:
            return find_max_timestamp(self._segments)
        except OSError as error:
            raise self._log_dir.failed(error) from error

    @property
    def latest_epoch(self) -> int:
        """-1 if no record has one."""
        return self._leader_epochs.latest

    def epoch_of_offset(self, offset: int) -> int:
        return self._leader_epochs.epoch_of_offset(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above this one and where it ended; (-1, -1) if that is not known."""
        return self._leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def active_producers(self) -> Iterator[tuple[int, ProducerEntry]]:
        return self.producers.entries()

    @property
    def last_stable_offset(self) -> int:
        undecided = self.producers.first_undecided_offset
        committed = self._committed_offset()
        return committed if undecided is None else min(undecided, committed)

    def _committed_offset(self) -> int:
        return self.log_end_offset if self.high_watermark is None else self.high_watermark

    # ---- flush

    def flush(self, then: Then) -> None:
        """Calls back with None once everything appended so far is durable, or with why it is not. Never raises."""
        self._group_commit.flush(then)

    def flush_now(self) -> None:
        """Makes everything durable before it returns. For a log that was recovered, before anybody reads it."""
        self._group_commit.finish()
        if self.recovery_point < self.log_end_offset and (plan := self.flush_plan(with_active=True)) is not None:
            try:
                plan.run()
            except OSError as error:
                self._unflushed.failed(self._leader_epochs)
                raise self._log_dir.failed(error) from error
            self.flush_done(plan, None)

    def flush_plan(self, *, with_active: bool) -> FlushPlan | None:
        self._check_available()
        if not (with_active or self._unflushed):
            return None
        active = self._segments.active
        offset = self.log_end_offset if with_active else active.base_offset
        try:
            return self._unflushed.plan(
                self._log_dir.files, offset, active if with_active else None, self._leader_epochs
            )
        except OSError as error:
            raise self._log_dir.failed(error) from error

    def flush_postponed(self, error: OSError) -> None:
        """Descriptors were short: no fsync has failed, and the next plan takes all of this one again."""
        self._unflushed.failed(self._leader_epochs)
        self._log_dir.failed(error)

    def flush_done(self, plan: FlushPlan, error: BaseException | None) -> BaseException | None:
        if self.is_closed:
            return KafkaStorageError(f"the log of {self.topic_partition} was closed")
        if error is not None:
            return self._log_dir.go_offline(error)
        self.recovery_point = max(self.recovery_point, plan.offset)
        if self.recovery_point == self.log_end_offset:
            self._deadlines.flush_ms = NEVER_MS
            self._deadlines.are_settled = self._deadlines.are_settled and self.config.flush_ms == NO_FLUSH_MS
        self._unflushed.done(plan, self._leader_epochs)
        if plan.postponed is None:
            point = self._unflushed.recovery_point_to_checkpoint(self.recovery_point, self._segments.active)
            self._log_dir.set_recovery_point(self.topic_partition, point)
        if self._unflushed and plan.postponed is None:
            self._group_commit.start_soon()  # for a segment that was closed meanwhile
        if plan.sealed and plan.postponed is None and self.config.compact:
            self.look_at_dirt_at(self._log_dir.clock.now_ms())
        if plan.deleted:
            # Under their new names the files wait for those who may still want to look at them.
            paths = [path + DELETED_SUFFIX for paths in plan.deleted for path in paths]
            self._log_dir.clock.call_later(self.config.file_delete_delay_ms, self._log_dir.remove_in_worker, paths)
        return None

    # ---- removal

    def delete_records(self, offset: int) -> int:
        """Moves the log start offset up to `offset`; what lies wholly below goes. The new log start offset."""
        self._check_available()
        bound = self._committed_offset()
        if not 0 <= offset <= bound:
            raise OffsetOutOfRange(f"offset {offset} is not in [0, {bound}]")
        if offset > self.log_start_offset:
            self._start_at(offset)
            self._delete_segments(self._segments.count_below(offset))
        return self.log_start_offset

    def enforce_retention(self, now_ms: int) -> int | None:
        """Deletes every segment that is due and says when to look again, None for never."""
        self._check_available()
        try:
            count = self._count_deletable(now_ms)
            if count == len(self._segments):
                self._roll(now_ms)
            if count:
                self._start_at(self._segments[count].base_offset)
                self._delete_segments(count)
            expiry_ms = retention.next_expiry_ms(self._segments, self.config, self._largest_timestamp)
        except OSError as error:
            raise self._append_failed(error) from error
        if expiry_ms is not None:
            expiry_ms = max(expiry_ms, now_ms + self._log_dir.config.log_retention_check_interval_ms)
        self._deadlines.retention_ms = NEVER_MS if expiry_ms is None else expiry_ms
        self._deadlines.are_settled = False
        return expiry_ms

    def _count_deletable(self, now_ms: int) -> int:
        return retention.count_deletable(
            self._segments,
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self._committed_offset(),
            largest_timestamp=self._largest_timestamp,
        )

    def _largest_timestamp(self, segment: Segment) -> int:
        """A segment without any timestamp is as old as its file."""
        timestamp = segment.largest_indexed_timestamp()
        return timestamp if timestamp >= 0 else self._log_dir.files.modified_ms(segment.path)

    def _start_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._leader_epochs.truncate_from_start(offset)
            self._log_dir.set_log_start_offset(self.topic_partition, offset)

    def _delete_segments(self, count: int) -> None:
        if count == 0 or self._swap is not None:
            return
        for segment in self._segments.remove_first(count):
            self._unflushed.deleted(segment)
            self._aborted.pop(segment.base_offset, None)
            for path in segment.paths:
                self._log_dir.cache.forget(path)
        self._tell(f"deleted {count} segments, the log starts at offset {self.log_start_offset}", segments=count)
        self._group_commit.start_soon()

    # ---- compaction

    @property
    def first_dirty_offset(self) -> int:
        """Below it every key has one record, as far as closed segments go."""
        offset = self._log_dir.cleaner_offsets.get(self.topic_partition, self.log_start_offset)
        return offset if self.log_start_offset <= offset <= self.log_end_offset else self.log_start_offset

    def cleanable(self, now_ms: int) -> Cleanable:
        return find_cleanable(
            self._segments,
            self.config,
            first_dirty_offset=self.first_dirty_offset,
            last_stable_offset=self.last_stable_offset,
            recovery_point=self.recovery_point,
            now_ms=now_ms,
            largest_timestamp=self._largest_timestamp,
        )

    def look_at_dirt_at(self, time_ms: int) -> None:
        self._deadlines.compaction_ms = min(self._deadlines.compaction_ms, time_ms)
        self._reschedule()

    def look_at_dirt(self, now_ms: int) -> None:
        """Offers itself to the cleaner if that is worth it; if not, it says when it will be."""
        self._deadlines.compaction_ms = NEVER_MS
        if not self.config.compact:
            return
        try:
            found = self.cleanable(now_ms)
        except OSError as error:
            raise self._log_dir.failed(error) from error
        if found.is_due:
            self._log_dir.cleaner.offer(self.topic_partition, found.dirty_ratio)
        elif found.look_again_ms is not None:
            self.look_at_dirt_at(found.look_again_ms)

    def swap(self, cleaned: "CleanedSegment", then: Then) -> None:
        """Puts a cleaned segment in its place and calls back. SegmentsChanged if those it replaces are not there."""
        self._check_available()
        slots = self._segments.slots_of(cleaned.replaced)
        if slots is None:
            raise SegmentsChanged(f"{self.topic_partition}: segments were deleted while they were compacted")
        old = self._segments.in_slots(slots)
        new = Segment(self.path, cleaned.base_offset, self._log_dir.cache, old[-1].created_ms)
        new.load_closed(cleaned.size_bytes, cleaned.index_bytes, cleaned.time_index_bytes)
        end_offset = self._segments[slots.stop].base_offset
        aborted = self._aborted_of_cleaned(new) if self._aborted else []
        self._swap = SegmentSwap(
            self._log_dir,
            old,
            new,
            checkpoint=self._log_dir.checkpoint_with(self.topic_partition, end_offset),
            install=lambda swap: self._install(swap, aborted),
            then=lambda error: self._swapped(then, error),
        )
        self._swap.start()

    def _aborted_of_cleaned(self, segment: Segment) -> list["AbortedTransaction"]:
        """Read before any name changes: those who fetch meanwhile are told what is in memory."""
        from barnabas.storage.transaction_index import decode_aborted

        path = f"{self.path}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}{CLEANED_SUFFIX}"
        files = self._log_dir.files
        try:
            return decode_aborted(files.read_bytes(path)) if files.exists(path) else []
        except OSError as error:
            raise self._log_dir.failed(error) from error

    def _install(self, swap: SegmentSwap, aborted: list["AbortedTransaction"]) -> None:
        slots = self._segments.slots_of([segment.base_offset for segment in swap.old])
        assert slots is not None, "nothing is deleted meanwhile"
        self._segments.replace(slots, swap.new)
        for segment in swap.old:
            self._aborted.pop(segment.base_offset, None)
            for path in segment.paths:
                self._log_dir.cache.forget(path)
        if aborted:
            self._aborted[swap.new.base_offset] = aborted

    def _swapped(self, then: Then, error: BaseException | None) -> None:
        swap, self._swap = self._swap, None
        assert swap is not None, "whoever cancels it is not called back"
        if error is None:
            files, delay_ms = swap.retired_files(), self.config.file_delete_delay_ms
            self._log_dir.clock.call_later(delay_ms, self._log_dir.remove_in_worker, files)
        elif swap.is_installed or not (isinstance(error, OSError) and error.errno in FULL_DISK):
            error = self._log_dir.go_offline(error)
        self._delete_segments(self._segments.count_below(self.log_start_offset))
        then(error)

    def _cancel_swap(self) -> None:
        if self._swap is not None:
            self._swap.cancel()
            self._swap = None
        self._log_dir.cleaner.forget(self.topic_partition)

    # ---- deadlines

    @property
    def deadline_ms(self) -> int:
        return self._deadlines.scheduled_ms

    def _reschedule(self) -> None:
        deadlines = self._deadlines
        deadlines.update(
            self.config,
            self._log_dir.config,
            self._log_dir.clock.now_ms(),
            is_empty=self.log_end_offset == self.log_start_offset,
            is_flushed=self.log_end_offset <= self.recovery_point,
            has_producers=bool(self.producers.by_id),
        )
        deadline_ms = deadlines.to_schedule()
        if deadline_ms is not None:
            self._log_dir.deadlines.schedule(self.topic_partition, deadline_ms)

    def run_deadlines(self, now_ms: int) -> None:
        """Does what is due."""
        deadlines = self._deadlines
        deadlines.scheduled_ms = NEVER_MS
        if self.is_closed or self.is_offline:
            return
        if deadlines.flush_ms <= now_ms:
            deadlines.flush_ms = NEVER_MS
            self._group_commit.flush_soon()
        if deadlines.expiration_ms <= now_ms:
            deadlines.expiration_ms = NEVER_MS
            self.producers.remove_expired(now_ms, self._log_dir.config.producer_id_expiration_ms)
        if deadlines.retention_ms <= now_ms:
            self.enforce_retention(now_ms)
        if deadlines.compaction_ms <= now_ms:
            self.look_at_dirt(now_ms)
        self._reschedule()

    # ---- the end

    def close(self) -> None:
        """Makes everything durable and gives up handles. For a stop, where blocking is right."""
        plan = self.plan_of_close()
        try:
            if plan is not None:
                plan.run()
        except OSError as error:
            self.closed(plan, error)
        else:
            self.closed(plan, None)

    def plan_of_close(self) -> FlushPlan | None:
        """What is left to be written, once what is at work is done. Nothing may be appended after it."""
        if self.is_closed:
            return None
        self._cancel_swap()
        self._group_commit.finish()
        active = self._segments.active
        has_nothing_new = active.is_sealed and self.log_end_offset == self.recovery_point and not self._unflushed
        if self.is_offline or has_nothing_new or self.log_end_offset == 0:
            return None
        if not active.is_sealed:
            self._unflushed.closed(active)
        if self.producers.by_id or self.producers.has_snapshot:  # none at all is as good as one of nobody
            self._take_snapshot()
        return self.flush_plan(with_active=True)

    def closed(self, plan: FlushPlan | None, error: OSError | None) -> None:
        if plan is not None and (error := error or plan.postponed) is None:
            self.recovery_point = self.log_end_offset
            self._log_dir.set_recovery_point(self.topic_partition, self.recovery_point)
        if error is not None:
            self._log_dir.go_offline(error)
        self._let_go()

    def abandon(self) -> None:
        """Its directory is about to be renamed and deleted: nothing of it is worth writing any more."""
        if not self.is_closed:
            self._cancel_swap()
            self._group_commit.cancel()
            self._let_go()

    def _let_go(self) -> None:
        self.is_closed = True
        for segment in self._segments:
            for path in segment.paths:
                self._log_dir.cache.forget(path)
