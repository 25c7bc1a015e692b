"""The job of a compaction and its results: plain values that travel to another process and back."""

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.segments.transaction_index import AbortedTransaction


class SegmentToClean(NamedTuple):
    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


class CompactionJob(NamedTuple):
    directory: str
    segments: tuple[SegmentToClean, ...]
    """Closed ones, from the log's first to the last that may be cleaned."""
    first_dirty_offset: int
    end_offset: int
    """Where the segments end; nothing at or above it is looked at."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    aborted: tuple[AbortedTransaction, ...]
    """Those that reach into the segments."""
    producers: dict[int, tuple[int, int]]
    """The offset of the last record of each active producer, -1 if it is unknown, and its epoch."""
    map_bytes: int
    map_load_factor: float
    io_max_bytes_per_second: float


class CleanedSegment(NamedTuple):
    """A new segment in `.cleaned` files, synced."""

    base_offset: int
    replaced: tuple[int, ...]
    """The base offsets of the segments that it replaces."""
    size_bytes: int
    index_bytes: int
    time_index_bytes: int


class CompactionStats(NamedTuple):
    end_offset: int
    """Everything below it is clean."""
    keys: int
    map_use: float
    """The share of the map that was filled."""
    segments_before: int
    segments_after: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int
    keyless_records: int
    """Records dropped because they have no key: they were written before the topic was compacted."""


class CompactionFailed(Exception):
    """`is_corrupt`: trying again would find the same; otherwise the disk, or the process, failed."""

    def __init__(self, text: str, *, is_corrupt: bool, error_number: int | None = None) -> None:
        super().__init__(text)
        self.is_corrupt = is_corrupt
        self.errno = error_number
