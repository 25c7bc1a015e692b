"""Walking over the batches of a segment's file: by headers alone, or with every byte when checksums matter.

Both stop at the first thing that cannot be a batch. They never raise for what the file holds: the caller sees how
far the walk came and decides what to do about a torn or rotten tail.
"""

from collections.abc import Iterator

from barnabas.base.files import File
from barnabas.protocol.batch_header import HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, header_at

_HOP_BYTES = 8192
"""Two index intervals: enough for a lookup in one read."""
_SCAN_BYTES = 1 << 20


def header_in(file: File, position: int) -> BatchHeader | None:
    """Returns the header at a position where a batch should begin; None if there cannot be one."""
    raw = file.pread(HEADER_BYTES, position) if position >= 0 else b""
    return header_at(raw) if len(raw) == HEADER_BYTES else None


def iter_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of every whole batch from a known start to `end`. Reads little but the headers."""
    while position + HEADER_BYTES <= end:
        chunk = file.pread(min(_HOP_BYTES, end - position), position)
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = header_at(chunk, at)
            size_bytes = header.batch_length + LOG_OVERHEAD
            if size_bytes < HEADER_BYTES or header.magic != MAGIC or position + at + size_bytes > end:
                return
            yield position + at, header
            at += size_bytes
        if at == 0:
            return
        position += at


def scan_batches(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yields position, header and bytes of every whole batch; the bytes are good until the next step."""
    chunk, chunk_at = memoryview(b""), position
    while position + HEADER_BYTES <= end:
        at = position - chunk_at
        if at + HEADER_BYTES > len(chunk):
            chunk, chunk_at, at = memoryview(file.pread(min(_SCAN_BYTES, end - position), position)), position, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = header_at(chunk, at)
        size_bytes = header.batch_length + LOG_OVERHEAD
        if size_bytes < HEADER_BYTES or header.magic != MAGIC or position + size_bytes > end:
            return
        if at + size_bytes > len(chunk):
            chunk, chunk_at, at = memoryview(file.pread(max(_SCAN_BYTES, size_bytes), position)), position, 0
            if len(chunk) < size_bytes:
                return
        yield position, header, chunk[at : at + size_bytes]
        position += size_bytes
