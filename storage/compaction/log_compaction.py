"""Compaction as one log sees it: how much of it is cleanable, and how a cleaned segment takes its place."""

import errno
from typing import TYPE_CHECKING

from barnabas.base.promise import Promise
from barnabas.storage.flush_plan import FULL_DISK
from barnabas.storage.opening.unfinished_files import CLEANED_SUFFIX, remove_unfinished
from barnabas.storage.segments.file_cache import OUT_OF_DESCRIPTORS
from barnabas.storage.segments.segment import TXN_INDEX_SUFFIX, Segment, file_name
from barnabas.storage.segments.transaction_index import AbortedTransaction, decode_aborted

if TYPE_CHECKING:
    from barnabas.storage.compaction.cleanable import Cleanable
    from barnabas.storage.compaction.job import CleanedSegment
    from barnabas.storage.compaction.segment_swap import SegmentSwap
    from barnabas.storage.log import Log

NOT_THE_DISK = (errno.ENOENT, *FULL_DISK, *OUT_OF_DESCRIPTORS)
"""Failures that are no fault of the disk: files that were deleted meanwhile, no room for new ones, no descriptor."""


class SegmentsChanged(Exception):
    """The compacted segments are no longer in the log as they were: the result is of no use."""


class LogCompaction:
    __slots__ = ("_log", "_swap")

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._swap: SegmentSwap | None = None

    @property
    def is_swapping(self) -> bool:
        """Returns whether a cleaned segment is taking its place: until it has, no segment's files are deleted."""
        return self._swap is not None

    # ---- cleanable

    @property
    def first_dirty_offset(self) -> int:
        """Returns the offset below which every key has one record, as far as closed segments go."""
        log = self._log
        offset = log.log_dir.cleaner_offsets.get(log.topic_partition, log.log_start_offset)
        return offset if log.log_start_offset <= offset <= log.log_end_offset else log.log_start_offset

    def cleanable(self, now_ms: int) -> "Cleanable":
        from barnabas.storage.compaction.cleanable import find_cleanable  # most logs are never compacted

        return find_cleanable(self._log.view(), now_ms)

    def check_cleanable(self, now_ms: int) -> None:
        """Offers the log to the cleaner if that is worth it; if not, schedules the next check for when it will be."""
        log = self._log
        if not log.config.compact:
            return
        try:
            found = self.cleanable(now_ms)
        except OSError as error:
            raise log.log_dir.failed(error) from error
        if found.is_due:
            log.log_dir.cleaner.offer(log.topic_partition, found.dirty_ratio)
        elif found.check_again_ms is not None:
            log.maintenance.check_cleanable_at(found.check_again_ms)

    # ---- swap

    def swap(self, cleaned: "CleanedSegment") -> Promise[None]:
        """Puts a cleaned segment in its place. Raises SegmentsChanged if those it replaces are not there."""
        from barnabas.storage.compaction.segment_swap import SegmentSwap

        log = self._log
        log.check_available()
        slots = log.segments.slots_of(cleaned.replaced)
        if slots is None:
            raise SegmentsChanged(f"{log.topic_partition}: segments were deleted while they were compacted")
        old = log.segments.in_slots(slots)
        new = Segment(log.path, cleaned.base_offset, log.log_dir.cache, old[-1].created_ms)
        new.load_closed(cleaned.size_bytes, cleaned.index_bytes, cleaned.time_index_bytes)
        end_offset = log.segments[slots.stop].base_offset
        aborted = self._aborted_of_cleaned(new) if log.aborted else []
        checkpoint = log.log_dir.checkpoint_with(log.topic_partition, end_offset)
        swap = self._swap = SegmentSwap(log.log_dir, old, new, checkpoint)
        outcome: Promise[None] = Promise()
        swap.run(lambda: self._install(swap, aborted)).when_done(lambda done: self._swapped(swap, done.error, outcome))
        return outcome

    def _aborted_of_cleaned(self, segment: Segment) -> list[AbortedTransaction]:
        """Reads the rows before any name changes: meanwhile fetches are answered from memory."""
        log_dir = self._log.log_dir
        path = f"{self._log.path}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}{CLEANED_SUFFIX}"
        try:
            return decode_aborted(log_dir.files.read_bytes(path)) if log_dir.files.exists(path) else []
        except OSError as error:
            raise log_dir.failed(error) from error

    def _install(self, swap: "SegmentSwap", aborted: list[AbortedTransaction]) -> None:
        log = self._log
        slots = log.segments.slots_of([segment.base_offset for segment in swap.old])
        assert slots is not None, "nothing is deleted meanwhile"
        log.segments.replace(slots, swap.new)
        for segment in swap.old:
            log.aborted.remove_segment(segment.base_offset)
            for path in segment.paths:
                log.log_dir.cache.forget(path)
        log.aborted.replace(swap.new.base_offset, aborted)

    def _swapped(self, swap: "SegmentSwap", error: Exception | None, outcome: Promise[None]) -> None:
        assert self._swap is swap, "a swap that is cancelled is never done"
        self._swap = None
        log = self._log
        if error is None:
            files, delay_ms = swap.retired_files(), log.config.file_delete_delay_ms
            log.log_dir.clock.call_later(delay_ms, log.log_dir.remove_in_worker, files)
        elif swap.is_installed or not (isinstance(error, OSError) and error.errno in NOT_THE_DISK):
            error = log.log_dir.go_offline(error)
        log.maintenance.delete_segments(log.segments.count_below(log.log_start_offset))
        if error is None:
            outcome.resolve(None)
        else:
            outcome.fail(error)

    def cancel(self) -> None:
        """Stops compacting a log that closes or is deleted: none runs when this returns. The next start finishes it."""
        swap, self._swap = self._swap, None
        if swap is not None:
            swap.cancel()
        self._log.log_dir.cleaner.forget(self._log.topic_partition)

    def finish(self) -> None:
        """Ends compaction before the log is cut: none runs when this returns, and no file of one is left. Blocks."""
        log = self._log
        log.log_dir.cleaner.forget(log.topic_partition)
        swap, self._swap = self._swap, None
        if swap is None:
            remove_unfinished(log.log_dir.files, log.path)
            return
        swap.finish()
        if swap.is_installed:
            log.log_dir.clock.call_later(
                log.config.file_delete_delay_ms, log.log_dir.remove_in_worker, swap.retired_files()
            )
