"""Compaction itself: closed segments in, `.cleaned` segments out, in which every key has only its last record.

A function of its job and the files, and the only heavy one of the storage: it runs in a process of its own.

Rules, Kafka's:
- First the keys of the dirty part are mapped to their last offset, up to the offset where the map is full. Then all
  segments from the first to there are copied, except records of which the map knows a later one.
- Segments are copied together into one as long as they fit into segment.bytes and its index into segment.index.bytes.
- A batch keeps its offsets, sequences, epochs, codec and timestamps whatever it loses, and goes when it is empty,
  unless it holds the last sequence of a producer that is still remembered or is the last one below `end_offset`.
- A tombstone stays for delete.retention.ms from the first cleaning that passes it: the batch then gets a delete horizon
  in the place of its base timestamp (KIP-534). So does a transaction's marker once its transaction is empty.
- A record without a key goes.
Unlike Kafka every batch's CRC is checked: a rotten batch would get a good one with its new contents.
"""

from collections.abc import Callable, Iterator

from barnabas.base.files import Files
from barnabas.protocol.batch_header import BatchHeader, crc_of
from barnabas.protocol.errors import CorruptMessage
from barnabas.protocol.record_slices import emptied, rebuilt, slices_of
from barnabas.storage.compaction.cleaned_files import CleanedFiles
from barnabas.storage.compaction.cleaned_transactions import CleanedTransactions
from barnabas.storage.compaction.job import CleanedSegment, CompactionJob, CompactionStats, SegmentToClean
from barnabas.storage.compaction.key_map import KeyMap
from barnabas.storage.segments.batches import scan_batches
from barnabas.storage.segments.segment import LOG_SUFFIX, RELATIVE_OFFSET_MAX, file_name

DECOMPRESSED_BYTES_MAX = 256 << 20


class Compaction:
    def __init__(self, files: Files, job: CompactionJob, *, throttle: Callable[[int], None] | None = None) -> None:
        """Calls `throttle(n)` after n bytes were read or written; it returns when it is time for more."""
        self._files = files
        self._job = job
        self._throttle = throttle or (lambda size: None)
        self._map = KeyMap(job.map_bytes, job.map_load_factor)
        self._segments_before = self._segments_after = 0
        self._records_before = self._records_after = 0
        self._bytes_before = self._bytes_after = 0
        self._keyless_records = 0

    def run(self) -> Iterator[CleanedSegment]:
        """Yields each new segment once it is complete. They must take their places in this order: a tombstone goes only
        after what it deleted."""
        self._build_map()
        end_offset = self._map.latest_offset + 1
        transactions = CleanedTransactions(self._job.aborted)
        for group in self._groups([each for each in self._job.segments if each.base_offset < end_offset]):
            yield self._clean(group, transactions)

    @property
    def stats(self) -> CompactionStats:
        return CompactionStats(
            self._map.latest_offset + 1,
            self._map.entries,
            self._map.entries / self._map.entries_max,
            self._segments_before,
            self._segments_after,
            self._records_before,
            self._records_after,
            self._bytes_before,
            self._bytes_after,
            self._keyless_records,
        )

    # ---- the map

    def _build_map(self) -> None:
        job = self._job
        transactions = CleanedTransactions(each for each in job.aborted if each.last_offset >= job.first_dirty_offset)
        for slot, segment in enumerate(job.segments):
            next_base = job.segments[slot + 1].base_offset if slot + 1 < len(job.segments) else job.end_offset
            if next_base > job.first_dirty_offset:
                if not self._map_segment(segment, transactions):
                    return
                self._map.latest_offset = next_base - 1

    def _map_segment(self, segment: SegmentToClean, transactions: CleanedTransactions) -> bool:
        """Returns False if the map is full."""
        for header, batch in self._batches(segment):
            if header.last_offset >= self._job.first_dirty_offset:
                if header.is_control:
                    transactions.is_obsolete(header, batch)
                elif not transactions.is_aborted(header) and not self._map_batch(header, batch):
                    return False
                self._map.latest_offset = header.last_offset
        return True

    def _map_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        key_map, base_offset, first_dirty_offset = self._map, header.base_offset, self._job.first_dirty_offset
        put, room = key_map.put, key_map.entries_max - key_map.entries
        last_put = key_map.latest_offset
        _, slices = slices_of(batch, header, DECOMPRESSED_BYTES_MAX)
        for _, _, _, _, offset_delta, key, _ in slices:
            offset = base_offset + offset_delta
            if key is not None and offset >= first_dirty_offset:
                if room <= 0 and key_map.is_full:
                    key_map.latest_offset = last_put
                    return False
                put(key, offset)
                last_put = offset
                room -= 1
        return True

    def _batches(self, segment: SegmentToClean) -> Iterator[tuple[BatchHeader, memoryview]]:
        path = f"{self._job.directory}/{file_name(segment.base_offset, LOG_SUFFIX)}"
        end = 0
        for position, header, batch in scan_batches(self._files.open(path), 0, segment.size_bytes):
            if crc_of(batch) != header.crc:
                raise CorruptMessage(f"the batch at offset {header.base_offset}, byte {position} of {path} is corrupt")
            yield header, batch
            end = position + len(batch)
            self._throttle(len(batch))
        if end != segment.size_bytes:
            raise CorruptMessage(f"there is no batch at byte {end} of {path}")

    # ---- groups

    def _groups(self, segments: list[SegmentToClean]) -> Iterator[list[SegmentToClean]]:
        group: list[SegmentToClean] = []
        for slot, segment in enumerate(segments):
            end_offset = segments[slot + 1].base_offset if slot + 1 < len(segments) else self._job.end_offset
            if group and not self._fits(group, segment, end_offset - 1):
                yield group
                group = []
            group.append(segment)
        if group:
            yield group

    def _fits(self, group: list[SegmentToClean], segment: SegmentToClean, last_offset: int) -> bool:
        job = self._job
        return (
            sum(each.size_bytes for each in group) + segment.size_bytes <= job.segment_bytes
            and sum(each.index_bytes for each in group) + segment.index_bytes <= job.segment_index_bytes
            and sum(each.time_index_bytes for each in group) + segment.time_index_bytes <= job.segment_index_bytes
            and (segment.size_bytes == 0 or last_offset - group[0].base_offset <= RELATIVE_OFFSET_MAX)
        )

    # ---- copying

    def _clean(self, group: list[SegmentToClean], transactions: CleanedTransactions) -> CleanedSegment:
        job = self._job
        cleaned = CleanedFiles(self._files, job.directory, group[0].base_offset, job.index_interval_bytes)
        for segment in group:
            for header, batch in self._batches(segment):
                kept = self._kept(header, batch, transactions)
                if kept is not None:
                    cleaned.append(kept)
                    self._throttle(len(kept))
        done = cleaned.finish(tuple(segment.base_offset for segment in group), transactions.retained)
        transactions.retained.clear()
        self._segments_before += len(group)
        self._segments_after += 1
        self._bytes_before += sum(segment.size_bytes for segment in group)
        self._bytes_after += done.size_bytes
        return done

    def _kept(
        self, header: BatchHeader, batch: memoryview, transactions: CleanedTransactions
    ) -> memoryview | bytearray | None:
        """Returns what is kept of the batch: itself, part of it, its header, or None."""
        if header.is_control:
            is_obsolete = transactions.is_obsolete(header, batch)
            horizon_ms = header.delete_horizon_ms
            is_discarded = is_obsolete and horizon_ms is not None and horizon_ms <= self._job.now_ms
        else:
            is_obsolete = False
            is_discarded = transactions.is_aborted(header)
        kept: memoryview | bytearray | None = None
        if not is_discarded:
            kept = self._filtered(header, batch, is_obsolete_marker=is_obsolete)
        elif not header.is_control:
            self._records_before += header.records_count
        if kept is None and (self._is_last_of_producer(header) or header.next_offset == self._job.end_offset):
            return emptied(header)
        return kept

    def _filtered(
        self, header: BatchHeader, batch: memoryview, *, is_obsolete_marker: bool
    ) -> memoryview | bytearray | None:
        data, slices = slices_of(batch, header, DECOMPRESSED_BYTES_MAX)
        kept = list(slices) if header.is_control else self._latest(header, slices)
        self._records_before += header.records_count
        self._records_after += len(kept)
        if not kept:
            return None
        horizon_ms = header.delete_horizon_ms
        needs_horizon = horizon_ms is None and (is_obsolete_marker or not all(has_value for *_, has_value in kept))
        if needs_horizon:
            horizon_ms = self._job.now_ms + self._job.delete_retention_ms
        elif len(kept) == header.records_count:
            return batch
        return rebuilt(header, data, kept, horizon_ms)

    def _latest(
        self, header: BatchHeader, slices: Iterator[tuple[int, int, int, int, int, bytes | None, bool]]
    ) -> list[tuple[int, int, int, int, int, bytes | None, bool]]:
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._job.now_ms < horizon_ms
        get, base_offset, latest_offset = self._map.get, header.base_offset, self._map.latest_offset
        kept = []
        for each in slices:
            _, _, _, _, offset_delta, key, has_value = each
            offset = base_offset + offset_delta
            if offset > latest_offset:
                kept.append(each)
            elif key is None:
                self._keyless_records += 1
            elif (has_value or keeps_tombstones) and offset >= get(key):
                kept.append(each)
        return kept

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._job.producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        last_offset, producer_epoch = last
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == producer_epoch
