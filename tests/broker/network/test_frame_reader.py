"""Frames out of a stream that is fed whole, byte by byte, and with more behind it; no socket anywhere."""

from collections.abc import Sequence
from random import Random
from struct import pack

import pytest

from barnabas.broker.network.buffers import POOLED_BYTES, Buffers
from barnabas.broker.network.frame_reader import SMALL_FRAME_BYTES, FrameReader
from barnabas.protocol.errors import ProtocolError

MAX_FRAME_BYTES = 8 * 1024 * 1024
KEEPS_UP = 1_000_000


def framed(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def content(size: int, seed: int = 0) -> bytes:
    return Random(f"{size}/{seed}").randbytes(size)


def reader_of(buffers: Buffers | None = None) -> FrameReader:
    return FrameReader(buffers or Buffers(), MAX_FRAME_BYTES)


def feed(reader: FrameReader, data: bytes, *, frames_max: int = KEEPS_UP) -> list[bytes]:
    """Feeds the bytes as a socket would, as many at a time as there is space for; returns the frames that came out."""
    found: list[bytes] = []
    rest = memoryview(data)
    while rest:
        space = reader.space()
        assert len(space), "there is always room for the next bytes"
        count = min(len(space), len(rest))
        space[:count] = rest[:count]
        rest = rest[count:]
        reader.fill(count)
        found += drained(reader, frames_max - len(found))
    return found


def drained(reader: FrameReader, frames_max: int = KEEPS_UP) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < frames_max and (frame := reader.next_frame()) is not None:
        found.append(bytes(frame))
    reader.finish()
    return found


PAYLOADS = [
    pytest.param([b""], id="an empty frame"),
    pytest.param([b"x"], id="one byte"),
    pytest.param([b"one", b"", b"three"], id="several"),
    pytest.param([content(300), content(200)], id="small ones"),
]


@pytest.mark.parametrize("payloads", PAYLOADS)
def test_frames_come_out_whole_however_the_stream_is_cut(payloads: Sequence[bytes]) -> None:
    stream = b"".join(map(framed, payloads))
    for cut in range(len(stream) + 1):
        reader = reader_of()
        assert feed(reader, stream[:cut]) + feed(reader, stream[cut:]) == payloads, f"cut at {cut}"
        assert not reader.is_halfway


@pytest.mark.parametrize("payloads", PAYLOADS)
def test_frames_come_out_whole_byte_by_byte(payloads: Sequence[bytes]) -> None:
    reader = reader_of()
    found = [frame for byte in b"".join(map(framed, payloads)) for frame in feed(reader, bytes([byte]))]
    assert found == payloads


@pytest.mark.parametrize("payloads", PAYLOADS)
def test_what_follows_a_frame_waits_for_its_rest(payloads: Sequence[bytes]) -> None:
    for trailing in (b"\0", b"\0\0\0\5", b"\0\0\0\5half"):
        reader = reader_of()
        assert feed(reader, b"".join(map(framed, payloads)) + trailing) == payloads
        assert reader.is_halfway
        assert feed(reader, framed(b"half!")[len(trailing) :]) == [b"half!"]


SIZES = (
    SMALL_FRAME_BYTES - 4, SMALL_FRAME_BYTES, SMALL_FRAME_BYTES + 1, 64 * 1024, 200_000, POOLED_BYTES - 4, POOLED_BYTES,
    3 * POOLED_BYTES + 7,
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("first", [1, 3, 4, 5, 20_000, 70_000])
def test_a_large_frame_comes_out_whole_between_small_ones(size: int, first: int) -> None:
    stream = framed(b"before") + framed(content(size)) + framed(b"after")
    reader = reader_of()
    start = len(framed(b"before")) + min(first, size)
    found = feed(reader, stream[:start]) + feed(reader, stream[start:])
    assert found == [b"before", content(size), b"after"]
    assert not reader.is_halfway


@pytest.mark.parametrize("seed", range(50))
def test_readers_that_share_their_buffers_do_not_mix_their_frames(seed: int) -> None:
    random, buffers = Random(seed), Buffers()
    readers = [reader_of(buffers) for _ in range(4)]
    sent = [[content(random.choice([0, 10, 900, 20_000, 150_000]), number) for number in range(6)] for _ in readers]
    streams = [memoryview(b"".join(map(framed, payloads))) for payloads in sent]
    found: list[list[bytes]] = [[] for _ in readers]
    while any(streams):
        number = random.choice([index for index, stream in enumerate(streams) if stream])
        count = random.choice([1, 3, 500, 70_000, 400_000])
        found[number] += feed(readers[number], bytes(streams[number][:count]))
        streams[number] = streams[number][count:]
    assert found == sent


@pytest.mark.parametrize("seed", range(10))
def test_readers_that_share_their_larger_buffers_do_not_mix_their_frames(seed: int) -> None:
    random, buffers = Random(seed), Buffers()
    readers = [reader_of(buffers) for _ in range(3)]
    sizes = [100, POOLED_BYTES - 4, POOLED_BYTES + 1, 2 * POOLED_BYTES, 3 * POOLED_BYTES]
    sent = [[content(random.choice(sizes), number) for number in range(4)] for _ in readers]
    streams = [memoryview(b"".join(map(framed, payloads))) for payloads in sent]
    found: list[list[bytes]] = [[] for _ in readers]
    while any(streams):
        number = random.choice([index for index, stream in enumerate(streams) if stream])
        count = random.choice([500, 70_000, 400_000, 3_000_000])
        found[number] += feed(readers[number], bytes(streams[number][:count]))
        streams[number] = streams[number][count:]
    assert found == sent


@pytest.mark.parametrize("first", [5, 100_000])
def test_a_frame_that_is_larger_than_the_shared_buffer_finds_the_memory_of_the_one_before(first: int) -> None:
    buffers, found = Buffers(), []
    for size in (3 * POOLED_BYTES, 3 * POOLED_BYTES + 7, 2 * POOLED_BYTES):
        reader, frame = reader_of(buffers), framed(content(size))
        space = reader.space()
        space[:first] = frame[:first]
        reader.fill(first)
        assert reader.next_frame() is None
        reader.finish()
        position = first
        while (received := reader.next_frame()) is None:
            space = reader.space()
            count = min(len(space), len(frame) - position)
            space[:count] = frame[position : position + count]
            reader.fill(count)
            position += count
        found.append(received.obj)
        reader.finish()
    assert found[0] is found[1] is found[2]


def test_no_more_than_two_larger_buffers_are_kept() -> None:
    buffers = Buffers()
    for size in (2, 4, 8, 4, 16):
        buffers.give_back(memoryview(bytearray(size * POOLED_BYTES)))
    received = memoryview(framed(bytes(3 * POOLED_BYTES)))[:100_000]
    kept = [len(buffers.keep(received, 0, 3 * POOLED_BYTES)) for _ in range(3)]
    assert kept == [8 * POOLED_BYTES, 4 * POOLED_BYTES, POOLED_BYTES]


def test_a_client_that_only_announces_a_large_frame_gets_no_large_buffer() -> None:
    buffers = Buffers()
    buffers.give_back(memoryview(bytearray(8 * POOLED_BYTES)))
    received = memoryview(framed(bytes(3 * POOLED_BYTES)))[:100]
    assert len(buffers.keep(received, 0, 3 * POOLED_BYTES)) < POOLED_BYTES


@pytest.mark.parametrize("seed", range(50))
def test_frames_that_are_left_for_later_come_out_later_in_order(seed: int) -> None:
    random, buffers = Random(seed), Buffers()
    reader, other = reader_of(buffers), reader_of(buffers)
    sent = [content(random.choice([0, 10, 900, 20_000, 150_000]), index) for index in range(12)]
    stream = memoryview(b"".join(map(framed, sent)))
    found: list[bytes] = []
    while stream or reader.is_halfway:
        while left := drained(reader, random.randrange(1, 4)):
            found += left
            feed(other, framed(content(30_000)))  # others use the shared buffer meanwhile
        if stream:
            space = reader.space()
            count = min(len(space), len(stream), random.choice([1, 5_000, 100_000]))
            space[:count] = stream[:count]
            stream = stream[count:]
            reader.fill(count)
            found += drained(reader, random.randrange(3))
    assert found == sent


@pytest.mark.parametrize(
    ("size", "reason"), [(-1, "negative size -1"), (MAX_FRAME_BYTES + 1, "above the 8388608 allowed")]
)
@pytest.mark.parametrize("before", [b"", framed(b"good")])
def test_a_size_that_no_frame_may_have_is_refused_when_its_turn_comes(size: int, reason: str, before: bytes) -> None:
    reader = reader_of()
    space, data = reader.space(), before + pack(">i", size)
    space[: len(data)] = data
    reader.fill(len(data))
    if before:
        good = reader.next_frame()
        assert good is not None
        assert bytes(good) == b"good"
    with pytest.raises(ProtocolError, match=reason):
        reader.next_frame()


def test_a_frame_is_a_view_of_the_buffer_it_arrived_in() -> None:
    buffers = Buffers()
    reader = reader_of(buffers)
    space, data = reader.space(), framed(b"here")
    space[: len(data)] = data
    reader.fill(len(data))
    frame = reader.next_frame()
    assert frame is not None
    assert frame.obj is buffers.scratch.obj


def test_the_first_bytes_are_known_before_a_frame_is_whole() -> None:
    reader = reader_of()
    assert reader.first_bytes == b""
    feed(reader, b"GE")
    assert reader.first_bytes == b"GE"
