"""The codecs against kafka-python's, against their own libraries' other ways of writing, and against bad input."""

import gzip
import os
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as kafka_codec

from barnabas.protocol.compression import CompressionType, compress, decompress
from barnabas.protocol.errors import CorruptMessage, ErrorCode, UnsupportedCompressionType

NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
FUZZ_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "4000"))
MAX_BYTES = 1 << 22

TEXT = b"".join(b"%d bottles of beer on the wall\n" % number for number in range(20_000))
NOISE = random.Random(1).randbytes(200_000)
PAYLOADS = {"nothing": b"", "one byte": b"x", "text": TEXT, "zeros": bytes(3_000_000), "noise": NOISE}


def gzip_named(compressed: bytes) -> bytes:
    return compressed[:3] + b"\x08" + compressed[4:10] + b"name\0" + compressed[10:]


def zstd_stream(data: bytes, **options: object) -> bytes:
    """As streaming producers write it: no content size, and a flush in the middle."""
    stream = zstandard.ZstdCompressor(**options).compressobj()  # type: ignore[arg-type]
    half = len(data) // 2
    return (
        stream.compress(data[:half])
        + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        + stream.compress(data[half:])
        + stream.flush()
    )


def lz4_stream(data: bytes, **options: object) -> bytes:
    stream = lz4.frame.LZ4FrameCompressor(**options)
    half = len(data) // 2
    return bytes(stream.begin() + stream.compress(data[:half]) + stream.compress(data[half:]) + stream.flush())


def xerial(data: bytes, block_bytes: int, versions: bytes = b"\0\0\0\1\0\0\0\1") -> bytes:
    blocks = [snappy.compress(data[at : at + block_bytes]) for at in range(0, len(data), block_bytes)]
    return b"\x82SNAPPY\0" + versions + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


Writer = Callable[[bytes], bytes]
WRITERS: dict[str, tuple[CompressionType, Writer]] = {
    "gzip of the standard library": (GZIP, gzip.compress),
    "gzip of kafka-python": (GZIP, kafka_codec.gzip_encode),
    "gzip in members": (GZIP, lambda data: b"".join(map(gzip.compress, (data[:1000], b"", data[1000:])))),
    "gzip with a name in its header": (GZIP, lambda data: gzip_named(gzip.compress(data))),
    "gzip stored": (GZIP, lambda data: gzip.compress(data, 0)),
    "snappy raw, as librdkafka writes it": (SNAPPY, snappy.compress),
    "snappy of kafka-python": (SNAPPY, kafka_codec.snappy_encode),
    "snappy in small blocks": (SNAPPY, lambda data: xerial(data, 4096)),
    "snappy in concatenated streams": (SNAPPY, lambda data: xerial(data[:5000], 1000) + xerial(data[5000:], 1 << 16)),
    "snappy with little-endian versions": (SNAPPY, lambda data: xerial(data, 1 << 15, b"\1\0\0\0\1\0\0\0")),
    "lz4 of kafka-python": (LZ4, kafka_codec.lz4_encode),
    "lz4 with everything": (LZ4, lambda data: lz4.frame.compress(data, content_checksum=True, block_checksum=True)),
    "lz4 linked, 4 MB blocks": (LZ4, lambda data: lz4_stream(data, block_linked=True, block_size=7)),
    "lz4 streamed": (LZ4, lambda data: lz4_stream(data, block_linked=False, content_checksum=True)),
    "zstd of kafka-python": (ZSTD, kafka_codec.zstd_encode),
    "zstd streamed": (ZSTD, zstd_stream),
    "zstd streamed at level 12, checksum": (ZSTD, lambda data: zstd_stream(data, level=12, write_checksum=True)),
    "zstd in frames": (ZSTD, lambda data: zstandard.compress(data[:1000]) + zstd_stream(data[1000:])),
}

KAFKA_PYTHON_DECODERS: dict[CompressionType, Writer] = {
    GZIP: kafka_codec.gzip_decode,
    SNAPPY: kafka_codec.snappy_decode,
    LZ4: kafka_codec.lz4_decode,
    ZSTD: kafka_codec.zstd_decode,
}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("writer", WRITERS)
def test_reads_what_others_write(writer: str, payload: str) -> None:
    codec, write = WRITERS[writer]
    assert decompress(codec, write(PAYLOADS[payload]), max_bytes=MAX_BYTES) == PAYLOADS[payload]


@pytest.mark.parametrize("payload", [name for name in PAYLOADS if name != "nothing"])
@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_reads_what_we_write(codec: CompressionType, payload: str) -> None:
    assert KAFKA_PYTHON_DECODERS[codec](compress(codec, PAYLOADS[payload])) == PAYLOADS[payload]


@pytest.mark.parametrize("codec", CompressionType)
@given(data=st.binary(max_size=2000) | st.binary(max_size=20).map(lambda data: data * 5000))
@settings(max_examples=30, deadline=None)
def test_round_trip(codec: CompressionType, data: bytes) -> None:
    compressed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(bytearray(compressed)), max_bytes=len(data)) == data


def test_snappy_is_written_in_the_framing_of_java() -> None:
    assert compress(SNAPPY, TEXT)[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"


def test_lz4_blocks_are_independent_because_java_refuses_linked_ones() -> None:
    assert lz4.frame.get_frame_info(compress(LZ4, TEXT))["block_linked"] is False


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        decompress(codec, b"", max_bytes=1)
    with pytest.raises(UnsupportedCompressionType):
        compress(codec, b"")


# ---- bounds


@pytest.mark.parametrize("payload", ["one byte", "text", "zeros", "noise"])
@pytest.mark.parametrize("writer", WRITERS)
def test_output_may_be_as_large_as_the_bound_and_not_a_byte_larger(writer: str, payload: str) -> None:
    codec, write = WRITERS[writer]
    data = PAYLOADS[payload]
    compressed = write(data)
    assert decompress(codec, compressed, max_bytes=len(data)) == data
    with pytest.raises(CorruptMessage) as refusal:
        decompress(codec, compressed, max_bytes=len(data) - 1)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE  # a producer then splits; CORRUPT_MESSAGE it would retry


def zstd_run_length_bomb() -> bytes:
    """Blocks of four bytes that say "128 KiB of this byte", in a frame that asks for a window of 2 MiB."""
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"a"
    return struct.pack("<I", 0xFD2FB528) + b"\x00\x58" + block * 50_000 + b"\1\0\0"


def gzip_bomb() -> bytes:
    stream = zlib.compressobj(wbits=31)
    return b"".join(stream.compress(bytes(1 << 20)) for _ in range(200)) + stream.flush()


BOMBS: dict[str, tuple[CompressionType, Callable[[], bytes]]] = {
    "gzip": (GZIP, gzip_bomb),
    "snappy": (SNAPPY, lambda: xerial(bytes(1 << 27), 1 << 27)),
    "snappy raw that lies": (SNAPPY, lambda: b"\xff\xff\xff\x03" + bytes(20)),
    "lz4": (LZ4, lambda: lz4_stream(bytes(1 << 27), block_size=7)),
    "lz4 with its size": (LZ4, lambda: lz4.frame.compress(bytes(1 << 27))),
    "zstd": (ZSTD, lambda: zstd_stream(bytes(1 << 27))),
    "zstd with its size": (ZSTD, lambda: zstandard.compress(bytes(1 << 27))),
    "zstd in runs": (ZSTD, zstd_run_length_bomb),
}

MEASURE = """
import sys
from barnabas.protocol.compression import compress, decompress
from barnabas.protocol.errors import KafkaError
peak_kb = lambda: next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
codec, bomb = int(sys.argv[1]), sys.stdin.buffer.read()
decompress(codec, compress(codec, b"the library is loaded"), max_bytes=100)
before = peak_kb()
try:
    decompress(codec, bomb, max_bytes=8 << 20)
except KafkaError as error:
    print(peak_kb() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_no_more_memory_than_it_is_allowed(name: str) -> None:
    codec, make = BOMBS[name]
    command = [sys.executable, "-c", MEASURE, str(int(codec))]
    growth_kb = int(subprocess.run(command, input=make(), capture_output=True, check=True).stdout)
    assert growth_kb < 18 << 10  # 8 MiB are allowed, a chunk is one, lz4's largest blocks take another 8


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [
        (GZIP, gzip.compress(b"") * 20_000),
        (ZSTD, zstandard.compress(b"") * 20_000),
        (ZSTD, struct.pack("<I", 0xFD2FB528) + b"\x00\x58" + bytes(3) * 100_000 + b"\1\0\0"),
        (SNAPPY, xerial(b"", 1) * 20_000),
    ],
    ids=["gzip members", "zstd frames", "zstd blocks", "snappy headers"],
)
def test_very_many_empty_parts_are_nothing(codec: CompressionType, compressed: bytes) -> None:
    assert decompress(codec, compressed, max_bytes=0) == b""


# ---- bad input


def damaged(compressed: bytes, chance: random.Random) -> bytes:
    """One to three bytes changed, removed or put in, mostly near the front, where the headers are."""
    data = bytearray(compressed)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(min(len(data), chance.choice((24, 1 << 30))) or 1)
        data[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
    return bytes(data)


@pytest.mark.fuzz
@pytest.mark.parametrize("writer", WRITERS)
def test_damage_raises_corrupt_message_or_nothing(writer: str) -> None:
    codec, write = WRITERS[writer]
    chance = random.Random(writer)
    sources = [write(data) for data in (b"", b"a", TEXT[:5000], NOISE[:3000], bytes(100_000))]
    for _ in range(FUZZ_EXAMPLES // len(WRITERS)):
        compressed = damaged(chance.choice(sources), chance)
        try:
            assert len(decompress(codec, compressed, max_bytes=100_000)) <= 100_000
        except CorruptMessage:
            pass


@pytest.mark.parametrize("writer", WRITERS)
def test_a_stream_cut_short_is_corrupt_or_a_shorter_stream(writer: str) -> None:
    """Framed snappy and concatenated streams have no end mark, so that a cut between two parts cannot be seen here."""
    codec, write = WRITERS[writer]
    data = TEXT[:6000]
    compressed = write(data)
    for size in range(len(compressed)):
        try:
            result = decompress(codec, compressed[:size], max_bytes=len(data))
        except CorruptMessage:
            continue
        assert len(result) < len(data)
        assert data.startswith(result)


@pytest.mark.parametrize(
    "writer", ["gzip of kafka-python", "snappy raw, as librdkafka writes it", "lz4 with everything", "zstd streamed"]
)
def test_a_single_stream_cut_anywhere_is_corrupt(writer: str) -> None:
    codec, write = WRITERS[writer]
    compressed = write(TEXT[:3000])
    for size in range(len(compressed)):
        with pytest.raises(CorruptMessage):
            decompress(codec, compressed[:size], max_bytes=3000)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("garbage", [b"\0", b"garbage", b"\xff" * 40])
def test_garbage_behind_the_stream_is_corrupt(codec: CompressionType, garbage: bytes) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, compress(codec, TEXT) + garbage, max_bytes=MAX_BYTES)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (GZIP, zlib.compress(TEXT)),  # zlib's own wrapping
        (GZIP, gzip.compress(TEXT)[:-8] + bytes(8)),  # wrong checksum and size
        (SNAPPY, b"\x82SNAPPY\0\0\0\0\1"),  # half a header
        (SNAPPY, xerial(b"", 1) + b"\0\0\0"),  # half a length
        (SNAPPY, xerial(b"", 1) + b"\xff\xff\xff\xff"),  # a negative length
        (SNAPPY, xerial(b"", 1) + b"\0\0\0\0"),  # an empty block, which cannot even say that it is empty
        (SNAPPY, b"\xff\xff\xff\xff\xff\x01"),  # a size of more than five bytes
        (LZ4, b"\x02\x21\x4c\x18" + bytes(20)),  # the legacy frame
        (LZ4, lz4.frame.compress(TEXT, content_checksum=True)[:-1] + b"\0"),  # wrong checksum
        (LZ4, lz4.frame.compress(b"a") * 2),  # Java reads the first frame only
        (ZSTD, b"\x50\x2a\x4d\x18\x04\0\0\0abcd"),  # a skippable frame
        (ZSTD, zstd_stream(TEXT, write_checksum=True)[:-4] + bytes(4)),  # wrong checksum
        (ZSTD, struct.pack("<I", 0xFD2FB528) + b"\x03\x58" + b"\x07\1\0\0"),  # needs a dictionary
        (ZSTD, struct.pack("<I", 0xFD2FB528) + b"\x00\xff" + b"\1\0\0"),  # a window of terabytes
    ],
)
def test_what_only_looks_like_a_stream_is_corrupt(codec: CompressionType, data: bytes) -> None:
    with pytest.raises(CorruptMessage):
        decompress(codec, data, max_bytes=MAX_BYTES)


def test_no_library_loads_before_its_codec_is_used() -> None:
    code = (
        "import sys, barnabas.protocol.compression as c;"
        "print(*{'lz4', 'snappy', 'cramjam', 'zstandard'} & set(sys.modules));"
        "c.compress(4, b''); print('lz4' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "\nFalse\n"
