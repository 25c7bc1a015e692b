"""Seeded fuzzing of everything that reads a stranger's bytes: frames, headers, messages, batches, what groups keep.

A round takes one target, makes a valid input for it, and tries it cut short and damaged in many ways, and then some
garbage. The seed of a run and the number of a round make its inputs: FUZZ_SEED=<seed> FUZZ_ROUND=<round> runs it again.
Nothing but the exceptions that a target names may escape, and no input may cost more steps than its size justifies.
"""

import sys
from collections.abc import Callable, Iterator
from random import Random
from types import FrameType
from typing import Any, NamedTuple

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import crc_of, iter_batches
from barnabas.protocol.errors import KafkaError, ProtocolError
from barnabas.protocol.frame import decode_request_header, decode_response, encode_request, encode_response, frame_size
from barnabas.protocol.records import has_null_key, iter_records
from barnabas.protocol.schema import decode, encode
from barnabas.protocol.stored.consumer_protocol import decode_assignment, decode_subscription
from barnabas.protocol.stored.group_record_serde import GroupKey, GroupValue, decode_record, encode_key
from tests.protocol.declared import Versioned, every_version, generate

MUTANTS_PER_ROUND = 24
CUTS_PER_ROUND = 24
TRACED_EVERY = 40
"""Counting steps makes an input ten times as slow."""
STEPS_PER_BYTE = 60
STEPS_AT_LEAST = 2_000
DECOMPRESSED_BYTES_MAX = 1 << 16

NASTY = tuple(
    bytes.fromhex(text)
    for text in (
        *("00", "01", "7f", "80", "ff", "ffff", "7fff", "8000", "fffe"),
        *("ffffffff", "7fffffff", "80000000", "fffffffe", "06400000"),  # the last is 100 MiB
        *("7fffffffffffffff", "8000000000000000", "ffffffffffffffff"),
        *("ffffffff0f", "ffffffff07", "8080808008", "8080808000", "ffffffffff01", "80" * 5, "80" * 10, "ff" * 10),
    )
)
"""Lengths that are negative, huge, or overlong as variable-length integers."""


class Target(NamedTuple):
    """Something that reads bytes: how to make a valid input, what reads it, and what that may raise."""

    name: str
    valid: Callable[[Random], bytes]
    read: Callable[[bytes], object]
    may_raise: tuple[type[Exception], ...] = (ProtocolError,)
    works_on_max_bytes: int = 0
    """What an input may grow to before it is read."""


class Failure(AssertionError):
    """An input that broke a rule; its message is all that is needed to see it again."""


def targets() -> list[Target]:
    """Batches and headers weigh as much as many messages: they are what every request passes through."""
    messages = [_message_target(each) for each in every_version()]
    return [
        *messages,
        *([_request_header_target(), _response_target(), _frame_target()] * 12),
        *([_group_record_target(), _consumer_target()] * 12),
        *([_batch_target()] * 60),
    ]


def _message_target(message: Versioned) -> Target:
    cls, version = message

    def valid(random: Random) -> bytes:
        return bytes(encode(generate(cls, version, random), version))

    def read(data: bytes) -> None:
        value = decode(cls, version, data)
        if len(data) % 8 == 0:  # what was accepted must be a value like any other
            assert decode(cls, version, encode(value, version)) == value, "differs when encoded and decoded again"

    return Target(repr(message), valid, read)


def _request_header_target() -> Target:
    requests = [each for each in every_version() if each.cls.__name__.endswith("Request")]
    flexible_since = {each.cls.__api_key__: each.cls.__flexible_since__ for each in requests}

    def valid(random: Random) -> bytes:
        cls, version = random.choice(requests)
        client_id = random.choice((None, "", "rdkafka", "клиент"))
        return bytes(encode_request(generate(cls, version, random), version, random.getrandbits(31), client_id))[4:]

    return Target("request header", valid, lambda data: decode_request_header(memoryview(data), flexible_since))


def _response_target() -> Target:
    responses = [each for each in every_version() if each.cls.__name__.endswith("Response")]
    chosen = responses[0]

    def valid(random: Random) -> bytes:
        nonlocal chosen
        chosen = random.choice(responses)
        frame, _ = encode_response(generate(*chosen, random), chosen.version, random.getrandbits(31))
        return bytes(frame)[4:]

    return Target("response", valid, lambda data: decode_response(*chosen, memoryview(data)))


def _frame_target() -> Target:
    def valid(random: Random) -> bytes:
        return random.randrange(1 << 20).to_bytes(4, "big")

    return Target("frame size", valid, lambda data: len(data) < 4 or frame_size(data, 0, max_bytes=1 << 20))


def _group_record_target() -> Target:
    """The input is a value: a key that cannot be read hides it, and keys are tried as messages."""
    values = [each for each in every_version() if each.cls in GroupValue.__args__]
    keys = {cls.__api_key__: encode_key(generate(cls, 0, Random(1))) for cls in GroupKey.__args__}
    chosen = keys[1]

    def valid(random: Random) -> bytes:
        nonlocal chosen
        cls, version = random.choice(values)
        chosen = keys[cls.__api_key__]
        return version.to_bytes(2, "big") + bytes(encode(generate(cls, version, random), version))

    return Target("group record", valid, lambda data: decode_record(chosen, data))


def _consumer_target() -> Target:
    consumers = [each for each in every_version() if each.cls.__name__.startswith("ConsumerProtocol")]

    def valid(random: Random) -> bytes:
        cls, version = random.choice(consumers)
        return version.to_bytes(2, "big") + bytes(encode(generate(cls, version, random), version))

    def read(data: bytes) -> None:
        for decode_metadata in (decode_subscription, decode_assignment):
            try:
                decode_metadata(data)
            except ProtocolError:
                pass

    return Target("consumer protocol", valid, read)


def _batch_target() -> Target:
    def valid(random: Random) -> bytes:
        batches = [_batch(random) for _ in range(random.choice((1, 1, 1, 3)))]
        return b"".join(batches)

    return Target("batch", valid, _read_batches, (ProtocolError, KafkaError), DECOMPRESSED_BYTES_MAX)


def _batch(random: Random) -> bytes:
    records = [
        (
            random.choice((None, b"", random.randbytes(9))),
            random.choice((None, b"", b"v" * 200, random.randbytes(30))),
            random.choice(((), (("header", None), ("", b"value")))),
            random.choice((0, 1_700_000_000_000, -1)),
        )
        for _ in range(random.choice((1, 2, 20)))
    ]
    return bytes(build_batch(records, base_offset=random.getrandbits(40), compression=random.randrange(5)))


def _read_batches(data: bytes) -> None:
    view = memoryview(data)
    for position, header in iter_batches(view):
        batch = view[position : position + header.size_bytes]
        crc_of(batch)
        refused = None
        for read in (_read_records, _read_keys):
            try:
                read(batch)
            except KafkaError as error:
                refused = error
        if refused is not None:
            raise refused


def _read_records(batch: memoryview) -> None:
    for _ in iter_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
        pass


def _read_keys(batch: memoryview) -> None:
    has_null_key(batch, DECOMPRESSED_BYTES_MAX)


def inputs(valid: bytes, random: Random) -> Iterator[bytes]:
    """Every rule of this file is tried on each of these."""
    yield valid
    if len(valid) <= CUTS_PER_ROUND:
        yield from (valid[:size] for size in range(len(valid)))
    else:
        yield from (valid[: random.randrange(len(valid))] for _ in range(CUTS_PER_ROUND))
    for _ in range(MUTANTS_PER_ROUND):
        mutant = valid
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            mutant = random.choice(MUTATIONS)(mutant, random)
        yield mutant
    yield random.randbytes(random.choice((0, 1, 3, 8, 40, 200)))
    yield bytes(random.choice(b"\x00\x01\x02\xff") for _ in range(random.randrange(60)))


def _flip(data: bytes, random: Random) -> bytes:
    if not data:
        return data
    flipped = bytearray(data)
    for _ in range(random.choice((1, 1, 3))):
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _overwrite(data: bytes, random: Random) -> bytes:
    at, nasty = random.randrange(len(data) + 1), random.choice(NASTY)
    return data[:at] + nasty + data[at + len(nasty) :]


def _insert(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice((random.choice(NASTY), random.randbytes(random.randrange(9)))) + data[at:]


def _remove(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at + random.choice((1, 2, 4, 8, 30)) :]


def _repeat(data: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + data[at : at + random.randrange(20)] * random.choice((2, 3, 9)) + data[at:]


MUTATIONS = (_flip, _overwrite, _overwrite, _insert, _remove, _repeat)


def fuzz(examples: int, seed: int, progress: Callable[[str], None] = lambda line: None) -> int:
    """Runs rounds until that many inputs were tried; returns how many."""
    chosen = targets()
    tried, number, told = 0, 0, 0
    while tried < examples:
        tried += run_round(chosen, seed, number)
        number += 1
        if tried - told >= 50_000:
            told = tried
            progress(f"fuzz: seed {seed}, {tried:,} of {examples:,} inputs")
    return tried


def run_round(chosen: list[Target], seed: int, number: int) -> int:
    random = Random(seed * 1_000_003 + number)
    target = chosen[random.randrange(len(chosen))]
    count = 0
    for data in inputs(target.valid(random), random):
        count += 1
        try:
            attempt(target, data, traced=(number + count) % TRACED_EVERY == 0)
        except Exception as error:
            raise Failure(
                f"FUZZ_SEED={seed} FUZZ_ROUND={number}: {target.name} on {len(data)} bytes {data.hex()}: "
                f"{type(error).__name__}: {error}"
            ) from error
    return count


def attempt(target: Target, data: bytes, *, traced: bool = False) -> None:
    try:
        if traced:
            steps_max = STEPS_AT_LEAST + STEPS_PER_BYTE * max(len(data), target.works_on_max_bytes)
            counting_steps(steps_max, target.read, data)
        else:
            target.read(data)
    except target.may_raise:
        pass


def counting_steps(steps_max: int, read: Callable[[bytes], object], data: bytes) -> None:
    """Reads with every executed line counted: an endless loop, or one of a billion turns, ends here."""
    steps = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        if steps > steps_max:
            raise TimeoutError(f"more than {steps_max} steps for {len(data)} bytes")
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        read(data)
    finally:
        sys.settrace(before)
