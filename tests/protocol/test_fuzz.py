"""What strangers send: a hundred thousand inputs here, millions under `make fuzz`.

FUZZ_EXAMPLES says how many, FUZZ_SEED where to begin; a failure names the seed, the round and the input.
"""

import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from secrets import randbits
from typing import Any

import pytest

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import KafkaError, ProtocolError
from barnabas.protocol.records import has_null_key, iter_records
from barnabas.protocol.schema import Field, decode, default_of, encode
from tests.protocol import fuzzing
from tests.protocol.declared import Versioned, every_version, generate

SHARDS = 4
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES") or 100_000)
SEED = int(os.environ.get("FUZZ_SEED") or (randbits(32) if "FUZZ_EXAMPLES" in os.environ else 1))
ROUND = os.environ.get("FUZZ_ROUND")
PeakBytes = Callable[[Callable[[], object]], int]
HUGE = [bytes.fromhex(text) for text in ("7fffffff", "06400000", "ffffffff0f", "ffffffff07", "808080320000")]
"""An array of 2**31 - 1, 100 MiB, and the same as variable-length integers."""


@pytest.mark.fuzz
@pytest.mark.parametrize("shard", range(SHARDS))
def test_nothing_but_errors_of_the_protocol_escapes(shard: int, capfd: pytest.CaptureFixture[str]) -> None:
    def progress(line: str) -> None:
        if "FUZZ_EXAMPLES" in os.environ:
            with capfd.disabled():
                print(f"\n{line}", end="", file=sys.stderr, flush=True)

    if ROUND is not None:
        fuzzing.run_round(fuzzing.targets(), SEED + shard, int(ROUND))
    else:
        assert fuzzing.fuzz(EXAMPLES // SHARDS, SEED + shard, progress) >= EXAMPLES // SHARDS


@pytest.mark.parametrize(
    ("damage", "escapes"),
    [
        (lambda data: [][1], "IndexError"),
        (lambda data: "\ud800".encode(), "UnicodeEncodeError"),
        (lambda data: forever(), "TimeoutError: more than"),
    ],
)
def test_the_fuzzer_finds_what_it_looks_for_and_says_how_to_see_it_again(
    damage: Callable[[bytes], object], escapes: str
) -> None:
    broken = fuzzing.Target("broken", lambda random: b"valid", damage)
    with pytest.raises(fuzzing.Failure, match=f"FUZZ_SEED=3 FUZZ_ROUND=39: broken on .* bytes [0-9a-f]*: {escapes}"):
        fuzzing.run_round([broken], 3, 39)  # the first input of round 39 is one whose steps are counted


def forever() -> None:
    while True:
        pass


@pytest.mark.parametrize("message", every_version(), ids=repr)
def test_a_message_cut_at_any_byte_is_refused(message: Versioned) -> None:
    cls, version = message
    encoded = bytes(encode(generate(cls, version, Random(7)), version))
    for size in range(min(len(encoded), 600)):
        with pytest.raises(ProtocolError):
            decode(cls, version, encoded[:size])


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.fixture
def peak_bytes() -> Iterator[PeakBytes]:
    """The most memory that a call took, above what was taken before."""

    def measured(read: Callable[[], object]) -> int:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        try:
            read()
        except (ProtocolError, KafkaError):
            pass
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    yield measured
    tracemalloc.stop()


@pytest.mark.parametrize("message", every_version(), ids=repr)
def test_a_length_that_lies_takes_no_memory(message: Versioned, peak_bytes: PeakBytes) -> None:
    cls, version = message
    encoded = bytes(encode(smallest(cls, version, elements=1), version))
    decode(cls, version, encoded)  # compiles
    for position in range(min(len(encoded), 60)):
        for huge in HUGE:
            frame = encoded[:position] + huge + encoded[position + 1 :]
            assert peak_bytes(partial(decode, cls, version, frame)) < 20_000, frame.hex()


@pytest.mark.parametrize("message", every_version(), ids=repr)
def test_a_frame_full_of_the_smallest_elements_takes_memory_in_proportion(
    message: Versioned, peak_bytes: PeakBytes
) -> None:
    """A Python object of a few fields takes a hundred bytes where the wire takes two; nothing takes more than that."""
    cls, version = message
    encoded = bytes(encode(smallest(cls, version, elements=300), version))
    decode(cls, version, encoded)
    assert peak_bytes(lambda: decode(cls, version, encoded)) < 20_000 + 100 * len(encoded)


def smallest(cls: Any, version: int, *, elements: int) -> Any:
    """A message whose arrays hold that many elements, each as small as can be."""
    values = {}
    for field in cls.__fields__:
        value = default_of(field)
        if field.in_version(version) and field.tag is None:
            if field.kind == "array":
                value = [_smallest_element(field.of, version)] * elements
            elif field.kind == "struct":
                value = smallest(field.of, version, elements=0)
        values[field.name] = value
    return cls(**values)


def _smallest_element(of: Any, version: int) -> Any:
    return default_of(of) if isinstance(of, Field) else smallest(of, version, elements=0)


def read_records(batch: bytes, max_decompressed_bytes: int) -> None:
    list(iter_records(batch, max_decompressed_bytes=max_decompressed_bytes))


@pytest.mark.parametrize("codec", [codec for codec in CompressionType if codec is not CompressionType.NONE])
@pytest.mark.parametrize(
    "read", [lambda batch, limit: list(iter_records(batch, max_decompressed_bytes=limit)), has_null_key]
)
def test_a_compression_bomb_takes_little_more_than_is_allowed(
    codec: CompressionType, read: Callable[[bytes, int], object], peak_bytes: PeakBytes
) -> None:
    batch = bytes(build_batch([(None, bytes(64 << 20), (), 0)], compression=codec))
    limit = 1 << 16
    with pytest.raises(KafkaError):
        read(batch, limit)  # also loads the codec
    assert peak_bytes(lambda: read(batch, limit)) < 4 << 20
