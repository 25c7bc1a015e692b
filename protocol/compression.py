"""The four codecs of record batches behind two functions.

Rules:
- A codec's library loads when the codec is first used; a broker that never decompresses loads none.
- Output is bounded before memory is taken: a size that the data declares is checked first, everything else is
  produced in chunks and counted. A compression bomb costs at most `max_bytes`, one chunk and the codec's own window,
  which is 8 MiB at most in lz4 and no larger than the output in zstd.
- A stream that its codec cannot read raises `CorruptMessage`, whatever the library raises. A stream that would grow
  above `max_bytes` raises it too, with the code MESSAGE_TOO_LARGE: the data may be sound, and a Java producer then
  splits its batch, where CORRUPT_MESSAGE would make it send the same bytes again.
- Output has the form that Java's readers take: snappy in xerial's framing, lz4 frames with independent blocks.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from io import SEEK_END, BytesIO
from typing import Any

from barnabas.protocol.errors import CorruptMessage, ErrorCode, UnsupportedCompressionType
from barnabas.protocol.types import Buffer


class CompressionType(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CHUNK_BYTES = 1 << 20

_GZIP_WBITS = 31
_GZIP_INPUT_BYTES_MIN = 1 << 10
_GZIP_INPUT_BYTES_MAX = 1 << 16
_LZ4_INPUT_BYTES = 1 << 18

# xerial's framing, which Java's snappy streams write and read: magic, version, oldest compatible version, then blocks.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 1 << 15
_INT32 = struct.Struct(">i")

_ZSTD_BLOCK_BYTES_MAX = 1 << 17
_ZSTD_BLOCK_RLE = 1
_ZSTD_BLOCK_COMPRESSED = 2
_ZSTD_BLOCK_RESERVED = 3


def compress(codec: int, data: Buffer) -> bytes:
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise UnsupportedCompressionType(f"compression type {codec} is unknown")
    return compressor(data)


def decompress(codec: int, data: Buffer, *, max_bytes: int) -> bytes:
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise UnsupportedCompressionType(f"compression type {codec} is unknown")
    return decompressor(memoryview(data), max_bytes)


def _too_large(max_bytes: int) -> CorruptMessage:
    return CorruptMessage(f"decompressed records exceed {max_bytes} bytes", ErrorCode.MESSAGE_TOO_LARGE)


class _Output:
    """Chunks of output, counted and kept in one growing buffer that becomes the result without a copy."""

    __slots__ = ("_buffer", "_max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._buffer = BytesIO()
        self._max_bytes = max_bytes

    def expect(self, size: int) -> None:
        """Refuses output that is announced before it is there."""
        if self._buffer.tell() + size > self._max_bytes:
            raise _too_large(self._max_bytes)

    def add(self, chunk: bytes) -> None:
        self.expect(len(chunk))
        if self._buffer.tell():
            self._buffer.write(chunk)
        else:
            self._buffer = BytesIO(chunk)  # shares the bytes: most batches are one chunk
            self._buffer.seek(0, SEEK_END)

    def result(self) -> bytes:
        return self._buffer.getvalue()


def _compress_none(data: Buffer) -> bytes:
    return bytes(data)


def _decompress_none(data: memoryview, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    return bytes(data)


# ---- gzip


def _compress_gzip(data: Buffer) -> bytes:
    compressor = zlib.compressobj(wbits=_GZIP_WBITS)
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: memoryview, max_bytes: int) -> bytes:
    output = _Output(max_bytes)
    position = 0
    try:
        while True:
            position = _gzip_member(data, position, output)
            if position == len(data):
                return output.result()
    except zlib.error as error:
        raise CorruptMessage(f"gzip: {error}") from None


def _gzip_member(data: memoryview, position: int, output: _Output) -> int:
    """Decompresses the member at `position`; returns where it ends.

    Input is fed in pieces that start small, because zlib copies what is left of a piece when a member ends inside it:
    each of many tiny members would cost a copy of everything after it.
    """
    member = zlib.decompressobj(wbits=_GZIP_WBITS)
    piece_bytes = _GZIP_INPUT_BYTES_MIN
    while not member.eof:
        piece = member.unconsumed_tail or data[position : position + piece_bytes]
        if not piece:
            raise CorruptMessage("gzip: the stream ends inside a member")
        if not member.unconsumed_tail:
            position += len(piece)
            piece_bytes = min(piece_bytes * 2, _GZIP_INPUT_BYTES_MAX)
        output.add(member.decompress(piece, CHUNK_BYTES))
    return position - len(member.unused_data)


# ---- snappy


def _compress_snappy(data: Buffer) -> bytes:
    import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = snappy.compress(view[position : position + _XERIAL_BLOCK_BYTES])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    output = _Output(max_bytes)
    if data[:8] != _XERIAL_MAGIC:
        output.add(_snappy_block(data, output))
        return output.result()
    for block in _xerial_blocks(data):
        output.add(_snappy_block(block, output))
    return output.result()


def _xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yields the blocks of one or more concatenated streams: a header may stand wherever a block may."""
    position = 0
    while position < len(data):
        if data[position : position + 8] == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(data):
                raise CorruptMessage("snappy: the stream ends inside a header")
            continue
        if len(data) - position < 4:
            raise CorruptMessage("snappy: the stream ends inside a block's length")
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 < size <= len(data) - position:
            raise CorruptMessage(f"snappy: a block of {size} bytes where {len(data) - position} are left")
        yield data[position : position + size]
        position += size


def _snappy_block(block: memoryview, output: _Output) -> bytes:
    import snappy

    size = _snappy_declared_bytes(block)
    output.expect(size)
    if size * 3 > len(block) * 64:  # three bytes make sixty-four at best: a larger promise only serves to take memory
        raise CorruptMessage(f"snappy: {len(block)} bytes cannot hold {size}")
    try:
        return bytes(snappy.uncompress(block))
    except snappy.UncompressError as error:
        raise CorruptMessage(f"snappy: {error.__cause__ or error}") from None


def _snappy_declared_bytes(block: memoryview) -> int:
    """Returns the decompressed size, an unsigned varint of 32 bits with which a raw snappy block begins."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return size
    raise CorruptMessage("snappy: a block without its decompressed size")


# ---- lz4


def _compress_lz4(data: Buffer) -> bytes:
    from lz4 import frame

    # Kafka's Java reader refuses blocks that depend on one another.
    compressed: bytes = frame.compress(data, block_linked=False, store_size=False)
    return compressed


def _decompress_lz4(data: memoryview, max_bytes: int) -> bytes:
    """Decompresses one frame with nothing after it: Java's reader does not read a second one either."""
    from lz4 import frame

    output = _Output(max_bytes)
    try:
        output.expect(frame.get_frame_info(data)["content_size"])
        end = _lz4_frame(frame.LZ4FrameDecompressor(), data, output)
    except RuntimeError as error:
        raise CorruptMessage(f"lz4: {error}") from None
    if end != len(data):
        raise CorruptMessage(f"lz4: {len(data) - end} bytes follow the frame")
    return output.result()


def _lz4_frame(frame: Any, data: memoryview, output: _Output) -> int:
    """Decompresses the frame that opens `data`; returns where it ends. Input is fed in pieces, as for gzip."""
    position = 0
    while not frame.eof:
        piece = data[position : position + _LZ4_INPUT_BYTES] if frame.needs_input else b""
        if frame.needs_input and not piece:
            raise CorruptMessage("lz4: the stream ends inside the frame")
        position += len(piece)
        output.add(frame.decompress(piece, max_length=CHUNK_BYTES))
    return position - len(frame.unused_data or b"")


# ---- zstd


def _compress_zstd(data: Buffer) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def _decompress_zstd(data: memoryview, max_bytes: int) -> bytes:
    import zstandard

    output = _Output(max_bytes)
    decompressor = zstandard.ZstdDecompressor()
    position = 0
    try:
        while True:
            position = _zstd_frame(zstandard, decompressor, data, position, output)
            if position == len(data):
                return output.result()
    except zstandard.ZstdError as error:
        raise CorruptMessage(f"zstd: {error}") from None


def _zstd_frame(zstandard: Any, decompressor: Any, data: memoryview, position: int, output: _Output) -> int:
    """Decompresses the frame at `position`; returns where it ends.

    The library does not bound its output, so it is fed groups of blocks whose output is bounded by the format.
    """
    header = data[position : position + 18]
    parameters = zstandard.get_frame_parameters(header)
    if parameters.content_size != zstandard.CONTENTSIZE_UNKNOWN:
        output.expect(parameters.content_size)
    frame = decompressor.decompressobj()
    fed = position
    for end in _zstd_groups(data, position + zstandard.frame_header_size(header)):
        output.add(frame.decompress(data[fed:end]))
        fed = end
    if parameters.has_checksum:
        output.add(frame.decompress(data[fed : fed + 4]))
        fed += 4
    if not frame.eof:
        raise CorruptMessage("zstd: the stream ends inside a frame")
    return fed


def _zstd_groups(data: memoryview, position: int) -> Iterator[int]:
    """Yields where each group of blocks ends: a group's output is at most a chunk and a block."""
    bound = 0
    last = 0
    while not last:
        if len(data) - position < 3:
            raise CorruptMessage("zstd: the stream ends inside a block's header")
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == _ZSTD_BLOCK_RLE else size)
        if position > len(data) or kind == _ZSTD_BLOCK_RESERVED:
            raise CorruptMessage("zstd: a block that cannot be")
        bound += _ZSTD_BLOCK_BYTES_MAX if kind == _ZSTD_BLOCK_COMPRESSED else size
        if last or bound >= CHUNK_BYTES:
            yield position
            bound = 0


_COMPRESSORS: dict[int, Callable[[Buffer], bytes]] = {
    CompressionType.NONE: _compress_none,
    CompressionType.GZIP: _compress_gzip,
    CompressionType.SNAPPY: _compress_snappy,
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: dict[int, Callable[[memoryview, int], bytes]] = {
    CompressionType.NONE: _decompress_none,
    CompressionType.GZIP: _decompress_gzip,
    CompressionType.SNAPPY: _decompress_snappy,
    CompressionType.LZ4: _decompress_lz4,
    CompressionType.ZSTD: _decompress_zstd,
}
