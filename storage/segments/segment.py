"""One segment: a `.log` of batches, its two indexes, and the way from an offset to a position.

Rules:
- Batches are appended whole. If the disk takes only part of them the torn tail is cut off again at once: a reader,
  and the scan after a crash, must never find good batches after a bad one.
- Only the active segment, the last of its log, grows. Its indexes live in memory; a closed segment's are read from
  files.
- Indexes are hints. The log is the truth from which they are rebuilt when a row does not fit the batch it names.
"""

from barnabas.base.files import File
from barnabas.protocol.batch_header import LOG_OVERHEAD, NO_TIMESTAMP, BatchHeader
from barnabas.storage.log_config import LogConfig
from barnabas.storage.segments.batches import header_in, iter_headers
from barnabas.storage.segments.file_cache import FileCache
from barnabas.storage.segments.index_table import FIRST, SECOND
from barnabas.storage.segments.offset_index import OffsetIndex
from barnabas.storage.segments.time_index import TimeIndex
from barnabas.storage.validation import OffsetBatches

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
TXN_INDEX_SUFFIX = ".txnindex"
DELETED_SUFFIX = ".deleted"

RELATIVE_OFFSET_MAX = 2**31 - 1
_REBUILT_INTERVAL_BYTES = 4096


class TornTail(Exception):
    """A failed append left bytes that could not be cut off again: nothing may be appended after them."""


def file_name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


class Segment:
    __slots__ = (
        "_cache",
        "_knows_timestamps",
        "base_offset",
        "bytes_since_index_row",
        "created_ms",
        "first_timestamp",
        "index_rows",
        "is_sealed",
        "is_trusted",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "path",
        "size",
        "synced_bytes",
        "time_index",
    )

    def __init__(self, directory: str, base_offset: int, cache: FileCache, created_ms: int) -> None:
        """Creates an empty segment with its indexes in memory, but no file."""
        stem = f"{directory}/{base_offset:020d}"
        self._cache = cache
        self.path = stem + LOG_SUFFIX
        self.base_offset = base_offset
        self.size = 0
        self.synced_bytes = -1
        """How much of the file an fsync has covered; -1: not even its name is durable."""
        self.created_ms = created_ms
        self.is_sealed = False
        """The index files are complete and durable."""
        self.is_trusted = False
        """It lies below the recovery point, though its index files were lost and are written again."""
        self.offset_index = OffsetIndex(stem + INDEX_SUFFIX, cache)
        self.time_index = TimeIndex(stem + TIME_INDEX_SUFFIX, cache)
        self.reset()

    def reset(self) -> None:
        """Forgets what was indexed; `index_batch` follows for every batch."""
        self.size = 0
        self.bytes_since_index_row = 0
        self.index_rows = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        self._knows_timestamps = True
        self.first_timestamp: int | None = None
        self.offset_index.clear()
        self.time_index.clear()

    def load_closed(self, size: int, index_bytes: int, time_index_bytes: int) -> None:
        """Takes over a segment that is complete on disk; its indexes are read from their files when they are needed."""
        self.size = self.synced_bytes = size
        self.is_sealed = True
        self._knows_timestamps = False
        self.offset_index.leave_memory(index_bytes // OffsetIndex.row_bytes)
        self.time_index.leave_memory(time_index_bytes // TimeIndex.row_bytes)

    @property
    def paths(self) -> tuple[str, str, str]:
        return self.path, self.offset_index.path, self.time_index.path

    def set_suffix(self, suffix: str) -> None:
        """Sets the suffix that its files have while compaction puts it in its place; "" when that is done."""
        stem = self.path[: self.path.rindex(LOG_SUFFIX)]
        self.path = stem + LOG_SUFFIX + suffix
        self.offset_index.path = stem + INDEX_SUFFIX + suffix
        self.time_index.path = stem + TIME_INDEX_SUFFIX + suffix

    def file(self) -> File:
        return self._cache.open(self.path)

    # ---- writing

    def create(self) -> None:
        """Creates the file, whose name shows the log end offset. A log's first segment waits for its first append."""
        self._cache.open(self.path, True)

    def append(self, batch: memoryview, header: BatchHeader, last_offset: int, index_interval_bytes: int) -> None:
        self._write(batch)
        self.index_batch(self.size, header, last_offset, index_interval_bytes)
        self.size += len(batch)

    def append_all(self, data: memoryview, batches: OffsetBatches, index_interval_bytes: int) -> None:
        """Appends several batches, which lie one after the other in `data`, in one write."""
        self._write(data)
        for batch, header, base_offset in batches:
            self.index_batch(self.size, header, base_offset + header.last_offset_delta, index_interval_bytes)
            self.size += len(batch)

    def cut(self, position: int, offset: int) -> None:
        """Cuts the file where a batch begins, durably, and forgets what was indexed at or above its offset.

        Nothing may be appended afterwards: a slice that waits in a socket would send it for what was cut off.
        """
        if self.is_sealed:
            self.activate()
        file = self.file()
        file.truncate(position)
        file.sync()
        self.size = self.synced_bytes = position
        self.offset_index.cut(FIRST, offset - self.base_offset)
        self.time_index.cut(SECOND, offset - self.base_offset)
        self._find_max_timestamp()

    def _find_max_timestamp(self) -> None:
        """Takes the last row of the time index, which covers the batches before it, and looks at those after it."""
        self.max_timestamp, relative_offset = self.time_index.last() or (NO_TIMESTAMP, 0)
        self.offset_of_max_timestamp = self.base_offset + relative_offset
        last = self.offset_index.last()
        for _, header in iter_headers(self.file(), last[1] if last else 0, self.size):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset

    def _write(self, data: memoryview) -> None:
        file = self._cache.open(self.path, True)
        try:
            file.writev((data,))
        except OSError:
            self._cut_torn_tail(file)
            raise

    def _cut_torn_tail(self, file: File) -> None:
        try:
            file.truncate(self.size)
        except OSError as error:
            raise TornTail(f"{self.path} could not be cut back to {self.size} bytes: {error}") from error

    def index_batch(self, position: int, header: BatchHeader, last_offset: int, index_interval_bytes: int) -> None:
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_index_row > index_interval_bytes:
            self.offset_index.append(last_offset - self.base_offset, position)
            self._append_time_row()
            self.bytes_since_index_row = 0
            self.index_rows += 1
        elif position == 0:
            self.first_timestamp = header.max_timestamp
        self.bytes_since_index_row += header.batch_length + LOG_OVERHEAD

    def _append_time_row(self) -> None:
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)

    def should_roll(self, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        if self.size > 0:
            first_timestamp = self.first_timestamp
            if first_timestamp is None:
                first_timestamp = self.first_batch_timestamp()
            # By the records' own time where they have one, else by the clock since the segment was begun.
            waited_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - self.created_ms
            if waited_ms > config.max_segment_ms:
                return True
        return (
            self.size > config.segment_bytes - size
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or (self.index_rows + 1 >= config.segment_index_bytes // TimeIndex.row_bytes and self._is_full(config))
        )

    def _is_full(self, config: LogConfig) -> bool:
        size = config.segment_index_bytes
        return self.offset_index.is_full(size) or self.time_index.is_full(size)

    def first_batch_timestamp(self) -> int:
        """Returns the largest timestamp of the first batch, -1 if it has none. The segment must not be empty."""
        if self.first_timestamp is None:
            header = header_in(self.file(), 0)
            self.first_timestamp = header.max_timestamp if header else NO_TIMESTAMP
        return self.first_timestamp

    def close_indexes(self) -> None:
        """Adds the last row of the time index, the largest timestamp: the segment is closed, or the broker stops."""
        self._append_time_row()

    def index_files(self) -> list[tuple[str, bytes]]:
        """Returns what the index files must hold. A worker may ask: a closed segment changes no more."""
        return [
            (self.offset_index.path, self.offset_index.to_bytes()),
            (self.time_index.path, self.time_index.to_bytes()),
        ]

    def seal(self) -> None:
        """Drops the indexes from memory: their files are written, perhaps in the place of older ones."""
        self.is_sealed = True
        self._cache.forget(self.offset_index.path)
        self._cache.forget(self.time_index.path)
        self.offset_index.leave_memory(len(self.offset_index))
        self.time_index.leave_memory(len(self.time_index))

    def activate(self) -> None:
        """Brings the indexes of a segment that was loaded into memory, for the first append since."""
        self.largest_indexed_timestamp()
        self.offset_index.load()
        self.time_index.load()
        last = self.offset_index.last()
        self.bytes_since_index_row = self.size - (last[1] if last else 0)
        self.index_rows = len(self.offset_index)
        self.is_sealed = False

    def rebuild_indexes(self, index_interval_bytes: int) -> bool:
        """Builds the indexes of a segment that is good otherwise, in memory.

        Returns False if its file is not a row of whole batches."""
        size, end = self.size, 0
        self.reset()
        for position, header in iter_headers(self.file(), 0, size):
            self.index_batch(position, header, header.last_offset, index_interval_bytes)
            end = position + header.size_bytes
        self.close_indexes()
        self.size = size
        return end == size

    # ---- timestamps

    def largest_indexed_timestamp(self) -> int:
        """Returns the largest timestamp, -1 if no record has one."""
        if not self._knows_timestamps:
            last = self.time_index.last()
            self.max_timestamp, relative_offset = last or (NO_TIMESTAMP, 0)
            self.offset_of_max_timestamp = self.base_offset + relative_offset
            self._knows_timestamps = True
        return self.max_timestamp

    # ---- reading

    def position_of(self, offset: int) -> int:
        """Returns where the first batch that ends at or after the offset begins; the segment's size if none does."""
        if offset <= self.base_offset or self.size == 0:
            return 0
        slot = self.offset_index.slot_of_offset(offset - self.base_offset)
        start = self._row_position(slot)
        if start and self.offset_index.row(slot)[0] == offset - self.base_offset:
            return start
        file = self.file()
        if slot + 1 < len(self.offset_index):
            # Slices are cut at index rows: the next read asks for the very batch that the next row names.
            position = self.offset_index.row(slot + 1)[1]
            header = header_in(file, position)
            if header is not None and header.base_offset == offset:
                return position
        for position, header in iter_headers(file, start, self.size):
            if header.base_offset + header.last_offset_delta >= offset:
                return position
        return self.size

    def end_of_batches(self, start: int, max_bytes: int, limit: int) -> int:
        """Returns the end of as many whole batches from `start` as fit; `start` itself if not even one does.

        It is at an index row where there is one: up to an index interval less than would fit, but found without a walk.
        """
        if limit - start <= max_bytes:
            return limit
        position = self._row_position(self.offset_index.slot_of_position(start + max_bytes))
        if start < position <= limit:
            return position
        end = start
        for position, header in iter_headers(self.file(), start, limit):
            if position + header.size_bytes > start + max_bytes:
                break
            end = position + header.size_bytes
        return end

    def base_offset_at(self, position: int) -> int:
        header = header_in(self.file(), position)
        assert header is not None, f"no batch at {position} of {self.path}"
        return header.base_offset

    def end_of_batch(self, start: int) -> int:
        header = header_in(self.file(), start)
        assert header is not None, f"no batch at {start} of {self.path}"
        return start + header.size_bytes

    def _row_position(self, slot: int) -> int:
        """Returns the position that the row names, checked if it comes from a file; 0 for slot -1."""
        if slot < 0:
            return 0
        relative_offset, position = self.offset_index.row(slot)
        if not self.offset_index.is_in_memory:
            header = header_in(self.file(), position)
            if header is None or header.last_offset != self.base_offset + relative_offset:
                self.rebuild_indexes(_REBUILT_INTERVAL_BYTES)
                return 0
        return position

    def next_offset(self) -> int | None:
        """Returns the offset after the last batch, found from the last index row; None if the file ends in no batch."""
        next_offset, end = self.base_offset, 0
        start = self._row_position(len(self.offset_index) - 1)
        for position, header in iter_headers(self.file(), start, self.size):
            next_offset, end = header.next_offset, position + header.size_bytes
        return next_offset if end == self.size else None
