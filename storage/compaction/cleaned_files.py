"""The files of a segment that a compaction writes, under names that cannot be taken for a segment's."""

from barnabas.base.files import Buffer, Files, write_file
from barnabas.protocol.batch_header import header_at
from barnabas.storage.compaction.job import CleanedSegment
from barnabas.storage.opening.unfinished_files import CLEANED_SUFFIX
from barnabas.storage.segments.file_cache import FileCache
from barnabas.storage.segments.segment import TXN_INDEX_SUFFIX, Segment, file_name
from barnabas.storage.segments.transaction_index import AbortedTransaction, encode_aborted

_WRITE_BYTES = 1 << 20


class CleanedFiles:
    def __init__(self, files: Files, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._segment = Segment(directory, base_offset, FileCache(files, 1), 0)
        self._index_interval_bytes = index_interval_bytes
        self._pending = bytearray()
        self._written = 0
        path = self._segment.path + CLEANED_SUFFIX
        files.remove(path)
        self._file = files.open(path, create=True)

    def append(self, batch: Buffer) -> None:
        header = header_at(batch)
        position = self._written + len(self._pending)
        self._segment.index_batch(position, header, header.last_offset, self._index_interval_bytes)
        self._pending += batch
        if len(self._pending) >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._pending:
            self._written += self._file.writev([self._pending])
            self._pending = bytearray()

    def finish(self, replaced: tuple[int, ...], aborted: list[AbortedTransaction]) -> CleanedSegment:
        """Completes the segment: everything is on disk, names too, when this returns."""
        self._write()
        self._file.sync()
        last = f"{self._directory}/{file_name(replaced[-1], '.log')}"
        self._files.set_modified_ms(self._segment.path + CLEANED_SUFFIX, self._files.modified_ms(last))
        segment = self._segment
        segment.close_indexes()
        for path, data in segment.index_files():
            write_file(self._files, path + CLEANED_SUFFIX, data, sync=True)
        if aborted:
            path = f"{self._directory}/{file_name(segment.base_offset, TXN_INDEX_SUFFIX)}{CLEANED_SUFFIX}"
            write_file(self._files, path, encode_aborted(aborted), sync=True)
        self._files.sync_dir(self._directory)
        return CleanedSegment(
            segment.base_offset,
            replaced,
            self._written,
            len(segment.offset_index) * segment.offset_index.row_bytes,
            len(segment.time_index) * segment.time_index.row_bytes,
        )
