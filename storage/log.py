"""One partition replica on disk: an ordered list of segments and what is known about them.

Rules:
- One thread, the loop's, calls it. What blocks runs in a worker and reports back to that thread.
- An append is all or nothing: every batch is checked before the first byte is written, and they are written at once.
- Record bytes are neither parsed nor copied: the header is read, base offset and leader epoch are patched in place.
- A read returns a slice of the file: whole batches, at least one, never beyond `max_offset`.
- `recovery_point`: everything below it is durable. `high_watermark`: everything below it is committed, it is on every
  in-sync replica; the partition knows these and moves it. `last_stable_offset`: below it, every transaction is decided.
- A full disk refuses the append and cuts off what it left; reads go on. Any other I/O error takes the log dir
  offline.

Jobs of their own: `flusher` makes it durable, `compaction` and `maintenance` shrink it, `transactions` begins and
ends them. What only a follower does with it is in `following/`.
"""

from typing import NoReturn, Protocol

from barnabas.base.promise import Promise
from barnabas.protocol.batch_header import NO_TIMESTAMP, BatchHeader, set_header, set_offsets
from barnabas.protocol.errors import KafkaStorageError, RecordListTooLarge
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.compaction.log_compaction import LogCompaction
from barnabas.storage.flush_plan import FULL_DISK, FlushPlan
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir
from barnabas.storage.log_flusher import LogFlusher
from barnabas.storage.log_maintenance import LogMaintenance
from barnabas.storage.opening.recovery import LoadedLog
from barnabas.storage.producer_state import BatchMetadata, replay_batch
from barnabas.storage.readable_log import ReadableLog
from barnabas.storage.segments.segment import Segment, TornTail
from barnabas.storage.segments.segment_list import SegmentList
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.log_transactions import LogTransactions
from barnabas.storage.validation import (
    OffsetBatches,
    check_batches,
    check_client_batch,
    stamp_log_append_time,
)

_Guard = VerificationGuard | None
_new_info = tuple.__new__  # a third of the time that the class takes


class LogListener(Protocol):
    """The partition that uses a log: it is called when something happens to the log between two calls."""

    def on_flushed(self) -> None:
        """Is called when the recovery point has moved."""
        ...

    def on_flush_failed(self, error: KafkaStorageError) -> None:
        """Is called when appended records may never become durable."""
        ...


class Log(ReadableLog):
    __slots__ = ("flusher", "listener", "maintenance", "path", "topic_id", "transactions")

    def __init__(
        self,
        log_dir: LogDir,
        topic_partition: TopicPartition,
        topic_id: Uuid | None,
        config: LogConfig,
        loaded: LoadedLog,
    ) -> None:
        self.log_dir = log_dir
        self.config = config
        self.path = f"{log_dir.path}/{topic_partition}"
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.is_closed = False
        self.listener: LogListener | None = None
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark = self.found_high_watermark()
        self.producers = loaded.producers
        self.hold_back_unknown_markers(self.producers.snapshot_offset)
        self.leader_epochs = loaded.leader_epochs
        self.aborted = loaded.aborted
        self.segments = SegmentList(loaded.segments)
        self.flusher = LogFlusher(self, has_durable_names=loaded.has_durable_names)
        self.compaction = LogCompaction(self)
        self.transactions = LogTransactions(self)
        self.maintenance = LogMaintenance(self)
        self.maintenance.start()
        if self.flusher.has_work:
            self.flusher.start_soon()

    def configure(self, config: LogConfig) -> None:
        if config != self.config:
            self.config = config
            self.maintenance.configured()

    def inform(self, text: str, **fields: object) -> None:
        name = str(self.topic_partition)
        self.log_dir.report.info(f"{name}: {text}", topic_partition=name, **fields)

    # ---- append

    def append(self, batch: memoryview, leader_epoch: int, now_ms: int, guard: _Guard = None) -> AppendInfo:
        """Stores a client's batch after the last one. Patches it in place: the buffer then holds what the file holds.

        The first of a transaction needs its guard. Every request goes through here: it is one function instead of five.
        """
        if self.log_dir.error is not None or self.is_closed:
            self.check_available()
        config = self.config
        header = sent = check_client_batch(batch, config, now_ms)
        size, producer_id = len(batch), header.producer_id
        if size > config.segment_bytes:
            self.refuse_size(size)
        if producer_id >= 0 and (self.producers.by_id or header.is_transactional):
            duplicate = self.producers.check(header, guard)
            if duplicate is not None:
                return self._info_of_duplicate(duplicate)
        self.log_dir.reserve(size, now_ms)  # a floor of free space keeps room for what the broker itself must write
        log_append_time = NO_TIMESTAMP
        if config.is_log_append_time:
            header = stamp_log_append_time(batch, now_ms)
            log_append_time = now_ms
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self.segments.active
        try:
            if segment.is_sealed or segment.should_roll(config, size, last_offset, header.max_timestamp, now_ms):
                segment = self.segment_for(size, last_offset, header.max_timestamp, now_ms)
            set_offsets(batch, base_offset, leader_epoch)
            segment.append(batch, header, last_offset, config.index_interval_bytes)
        except (OSError, TornTail) as error:
            set_header(batch, sent)
            raise self.append_failed(error) from error
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self._replay(batch, header, base_offset)
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if self.log_end_offset - self.recovery_point >= config.flush_messages:
            self.flusher.flush_soon()
        if not self.maintenance.deadlines.are_settled:
            self.maintenance.reschedule()
        return _new_info(AppendInfo, (base_offset, last_offset, log_append_time, self.log_start_offset, False))

    def append_as_coordinator(
        self, data: memoryview, leader_epoch: int, now_ms: int, guard: _Guard = None
    ) -> AppendInfo:
        """Stores batches that the broker itself built: one or several, control batches too, all of them or none."""
        assert data, "nothing to append"
        self.check_available()
        checked = check_batches(data)
        if len(data) > self.config.segment_bytes:
            self.refuse_size(len(data))
        for _, header in checked:
            if header.producer_id >= 0:
                self.producers.check_own(header, guard)
        log_append_time = NO_TIMESTAMP
        if self.config.is_log_append_time:
            checked = [(batch, stamp_log_append_time(batch, now_ms)) for batch, _ in checked]
            log_append_time = now_ms
        base_offset = next_offset = self.log_end_offset
        batches: OffsetBatches = []
        for batch, header in checked:
            set_offsets(batch, next_offset, leader_epoch)
            batches.append((batch, header, next_offset))
            next_offset += header.last_offset_delta + 1
        max_timestamp = max(header.max_timestamp for _, header in checked)
        try:
            segment = self.segment_for(len(data), next_offset - 1, max_timestamp, now_ms)
            segment.append_all(data, batches, self.config.index_interval_bytes)
        except (OSError, TornTail) as error:
            raise self.append_failed(error) from error
        self.log_end_offset = next_offset
        for batch, header, offset in batches:
            if header.producer_id >= 0:
                self._replay(batch, header, offset)
        self.appended(base_offset, leader_epoch)
        return AppendInfo(base_offset, next_offset - 1, log_append_time, self.log_start_offset, False)

    def append_as_follower(self, data: memoryview, now_ms: int) -> None:
        """Stores batches as the leader has them, with its offsets and epochs: nothing about them is changed."""
        from barnabas.storage.following.append import append  # only followers need it

        append(self, data, now_ms)

    def appended_as_follower(self, batches: OffsetBatches) -> None:
        """Takes note of batches that were written to the active segment as the leader has them."""
        self.log_end_offset = batches[-1][1].next_offset
        epochs = self.leader_epochs
        for batch, header, base_offset in batches:
            if header.producer_id >= 0:
                self._replay(batch, header, base_offset)
            if header.partition_leader_epoch != epochs.latest:
                epochs.assign(header.partition_leader_epoch, base_offset)
        self.appended(batches[0][2], epochs.latest)

    def refuse_size(self, size: int) -> NoReturn:
        raise RecordListTooLarge(f"{size} bytes of batches where segment.bytes is {self.config.segment_bytes}")

    def _info_of_duplicate(self, batch: BatchMetadata) -> AppendInfo:
        log_append_time = batch.timestamp if self.config.is_log_append_time else NO_TIMESTAMP
        return AppendInfo(batch.first_offset, batch.last_offset, log_append_time, self.log_start_offset, True)

    def segment_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """Returns the active segment, or the next if that one should be closed first."""
        segment = self.segments.active
        if segment.is_sealed:
            segment.activate()
        if segment.should_roll(self.config, size, last_offset, max_timestamp, now_ms):
            return self.next_segment(now_ms)
        return segment

    def _replay(self, batch: memoryview, header: BatchHeader, base_offset: int) -> None:
        if not self.producers.by_id:
            self.maintenance.first_producer_seen()
        if header.is_control:
            completed = replay_batch(self.producers, header, batch, base_offset)
            if completed is not None:
                self.transactions.ended(completed)
        else:
            self.producers.update(header, base_offset)

    def appended(self, base_offset: int, leader_epoch: int) -> None:
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flusher.flush_soon()
        if not self.maintenance.deadlines.are_settled:
            self.maintenance.reschedule()

    def append_failed(self, error: Exception) -> KafkaStorageError:
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            text = f"{self.topic_partition}: the disk of {self.log_dir.path} is full, the append was refused"
            self.log_dir.warn(text, topic_partition=str(self.topic_partition))
            return KafkaStorageError(text)
        return self.log_dir.failed(error)

    # ---- segments

    def roll(self, now_ms: int) -> None:
        """Closes the active segment and begins the next, unless the active one is empty."""
        self.check_available()
        try:
            self.next_segment(now_ms)
        except OSError as error:
            raise self.append_failed(error) from error

    def next_segment(self, now_ms: int) -> Segment:
        """Closes the active segment and returns the one that was begun; the active one itself if it is empty."""
        active = self.segments.active
        if active.base_offset == self.log_end_offset:
            return active
        if active.is_sealed:
            active.activate()
        segment = self.new_segment(now_ms)
        self.segments.append(segment)
        self.flusher.segment_closed(active)
        self.take_snapshot()
        self.maintenance.rolled()
        self.inform(f"rolled a new segment at offset {self.log_end_offset}", offset=self.log_end_offset)
        self.flusher.start_soon()
        return segment

    def new_segment(self, now_ms: int) -> Segment:
        """Returns an empty segment that begins where the log ends; its name says so on the disk."""
        segment = Segment(self.path, self.log_end_offset, self.log_dir.cache, now_ms)
        for path in segment.paths:
            self.log_dir.cache.forget(path)  # another segment may have had its name
        self.log_dir.files.remove(segment.path)
        segment.create()
        return segment

    def take_snapshot(self) -> None:
        self.producers.end_offset = self.log_end_offset
        self.flusher.take_snapshot(self.producers)

    def start_at(self, offset: int) -> None:
        """Moves the log start offset up to this one, wherever the first segment begins."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self.log_dir.set_log_start_offset(self.topic_partition, offset)

    # ---- removal

    def delete_records(self, offset: int) -> int:
        """Moves the log start offset up to `offset`; deletes segments wholly below it. Returns the log start offset."""
        return self.maintenance.delete_records(offset)

    def truncate_to(self, offset: int) -> None:
        """Removes every batch that reaches the offset or goes beyond it. All of that is durable when this returns."""
        from barnabas.storage.following.truncation import truncate_to  # only followers need it

        truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes everything; the log starts and ends at the offset from then on."""
        from barnabas.storage.following.truncation import truncate_fully_and_start_at

        truncate_fully_and_start_at(self, offset)

    # ---- flush

    def flush(self) -> Promise[None]:
        """Returns a promise that everything appended so far is durable."""
        return self.flusher.flush()

    def on_flushed(self, plan: FlushPlan) -> None:
        if plan.offset > self.recovery_point:
            self.recovery_point = plan.offset
        if self.recovery_point == self.log_end_offset:
            self.maintenance.everything_flushed()
        if plan.postponed is None:
            point = self.flusher.recovery_point_to_checkpoint()
            self.log_dir.set_recovery_point(self.topic_partition, point)
            if plan.sealed and self.config.compact:
                self.maintenance.check_cleanable_at(self.log_dir.clock.now_ms())
        if self.listener is not None:
            self.listener.on_flushed()

    def on_flush_failed(self, error: KafkaStorageError) -> None:
        if self.listener is not None:
            self.listener.on_flush_failed(error)

    # ---- the end

    def plan_of_close(self) -> FlushPlan | None:
        """Returns the plan of what is left to write, after the work under way. Nothing may be appended after it."""
        if self.is_closed:
            return None
        self.compaction.cancel()
        self.flusher.finish()
        if self.is_offline:
            return None
        return self.flusher.plan_of_close(self.producers)

    def closed(self, plan: FlushPlan | None, error: OSError | None) -> None:
        if plan is not None and (error := error or plan.postponed) is None:
            self.recovery_point = self.log_end_offset
            self.log_dir.set_recovery_point(self.topic_partition, self.recovery_point)
        if error is not None:
            self.log_dir.go_offline(error)
        self._let_go()

    def abandon(self) -> None:
        """Gives the log up: its directory is about to be renamed, and nothing of it is worth writing any more."""
        if not self.is_closed:
            self.compaction.cancel()
            self.flusher.cancel()
            self._let_go()

    def _let_go(self) -> None:
        self.is_closed = True
        for segment in self.segments:
            for path in segment.paths:
                self.log_dir.cache.forget(path)
