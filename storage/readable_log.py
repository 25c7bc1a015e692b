"""What can be asked of a log without changing it: slices of its batches, offsets, epochs, producers."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.base.files import FileSlice
from barnabas.protocol.errors import KafkaStorageError, OffsetOutOfRange
from barnabas.protocol.types import TopicPartition
from barnabas.storage.leader_epochs import LeaderEpochs
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_dir import LogDir
from barnabas.storage.log_view import LogView
from barnabas.storage.producer_state import ProducerEntry, ProducerState
from barnabas.storage.segments.offset_lookup import TimestampOffset, find_max_timestamp, find_timestamp
from barnabas.storage.segments.segment import Segment
from barnabas.storage.segments.segment_list import SegmentList
from barnabas.storage.segments.transaction_index import AbortedTransaction, AbortedTransactions

if TYPE_CHECKING:
    from barnabas.storage.compaction.log_compaction import LogCompaction


class ReadableLog:
    __slots__ = (
        "aborted",
        "compaction",
        "config",
        "high_watermark",
        "is_closed",
        "leader_epochs",
        "log_dir",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
        "topic_partition",
    )

    aborted: AbortedTransactions
    compaction: "LogCompaction"
    config: LogConfig
    high_watermark: int
    is_closed: bool
    leader_epochs: LeaderEpochs
    log_dir: LogDir
    log_end_offset: int
    log_start_offset: int
    producers: ProducerState
    recovery_point: int
    segments: SegmentList
    topic_partition: TopicPartition

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        return self.log_dir.error is not None

    def check_available(self) -> None:
        if self.log_dir.error is not None:
            raise self.log_dir.offline_error()
        if self.is_closed:
            raise KafkaStorageError(f"the log of {self.topic_partition} is closed")

    def read(self, offset: int, max_bytes: int, *, max_offset: int, at_least_one: bool = True) -> FileSlice | None:
        """Returns whole batches from the one that holds `offset`, up to `max_offset` (exclusive); None if there are
        none."""
        if self.log_dir.error is not None or self.is_closed:
            self.check_available()
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not in [{self.log_start_offset}, {end_offset}]")
        if max_offset > end_offset:
            max_offset = end_offset
        if offset >= max_offset:
            if offset == end_offset:
                self.segments.remember(offset, self.segments.active.size)
            return None
        try:
            return self.segments.read(
                offset, max_bytes, max_offset=max_offset, end_offset=end_offset, at_least_one=at_least_one
            )
        except OSError as error:
            raise self.log_dir.failed(error) from error

    def unread_bytes(self, offset: int, *, max_offset: int) -> int | None:
        """Returns how much of the segment that holds `offset` can be read; None if it will never be more than that."""
        try:
            return self.segments.unread_bytes(offset, max_offset)
        except OSError as error:
            raise self.log_dir.failed(error) from error

    def aborted_in(self, start_offset: int, found: FileSlice) -> list[AbortedTransaction]:
        """Returns the aborted transactions of what was read from this offset just now."""
        if not self.aborted:
            return []
        try:
            end_offset = self.segments.end_offset_of(found)
        except OSError as error:
            raise self.log_dir.failed(error) from error
        return self.aborted.between(start_offset, self.log_end_offset if end_offset is None else end_offset)

    # ---- offsets

    def advance_high_watermark(self, offset: int) -> bool:
        """Marks everything below the offset as committed. Returns whether that is more than before."""
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.transactions.undecided_markers:
            self.producers.transactions.on_high_watermark(offset)
        return True

    def found_high_watermark(self) -> int:
        """Returns how far the log was committed as far as the disk knows. All of a log without any note of it counts as
        committed, until the partition, which knows other replicas, says otherwise."""
        noted = self.log_dir.high_watermarks.get(self.topic_partition, self.log_end_offset)
        return max(self.log_start_offset, min(noted, self.log_end_offset))

    def note_high_watermark(self) -> None:
        """Takes note of what is committed, because others are about to be replicas, too."""
        self.log_dir.high_watermarks[self.topic_partition] = self.high_watermark

    def note_replicas(self) -> None:
        """Takes note that there are other replicas. If the disk does not know how far they have committed, nothing
        counts as committed until the leader knows."""
        noted = self.log_dir.high_watermarks
        if self.topic_partition not in noted:
            self.high_watermark = noted[self.topic_partition] = self.log_start_offset
            self.hold_back_unknown_markers(self.log_end_offset)

    def hold_back_unknown_markers(self, end_offset: int) -> None:
        """Lets nothing be stable while there may be markers below this offset that are not committed, and are not
        known: a snapshot, or what was taken for committed, does not say where the latest transactions ended."""
        self.producers.transactions.on_high_watermark(self.high_watermark)
        if self.high_watermark < end_offset and self.producers.had_transactions:
            self.producers.transactions.hold_back(self.log_start_offset, end_offset)

    @property
    def last_stable_offset(self) -> int:
        """Returns where the reading of committed transactions ends: at the first whose outcome is not committed so far,
        or where the log begins if retention has gone beyond that."""
        unstable = self.producers.transactions.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return min(max(unstable, self.log_start_offset), self.high_watermark)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """Returns the first record at or after the timestamp."""
        self.check_available()
        try:
            return find_timestamp(self.segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise self.log_dir.failed(error) from error

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        self.check_available()
        try:
            return find_max_timestamp(self.segments)
        except OSError as error:
            raise self.log_dir.failed(error) from error

    @property
    def latest_epoch(self) -> int:
        """Returns the latest leader epoch, -1 if no record has one."""
        return self.leader_epochs.latest

    def epoch_of_offset(self, offset: int) -> int:
        return self.leader_epochs.epoch_of_offset(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Returns the largest epoch not above this one and where it ended; (-1, -1) if that is not known."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def active_producers(self) -> Iterator[tuple[int, ProducerEntry]]:
        return self.producers.entries()

    def view(self) -> LogView:
        return LogView(
            self.segments,
            self.config,
            self._largest_timestamp,
            self.log_start_offset,
            self.log_end_offset,
            self.high_watermark,
            self.last_stable_offset,
            self.recovery_point,
            self.compaction.first_dirty_offset,
        )

    def _largest_timestamp(self, segment: Segment) -> int:
        """Returns the segment's largest timestamp. A segment without any is as old as its file."""
        timestamp = segment.largest_indexed_timestamp()
        return timestamp if timestamp >= 0 else self.log_dir.files.modified_ms(segment.path)
