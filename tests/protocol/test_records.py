"""Record batches against kafka-python's builder and parser, against themselves, and against bad input."""

import os
import random
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import ControlRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from barnabas.protocol import records
from barnabas.protocol.batch_builder import build_batch, build_control_batch, build_end_transaction_marker, put_varint
from barnabas.protocol.batch_header import (
    HEADER_BYTES,
    BatchHeader,
    crc_of,
    header_at,
    iter_batches,
    set_max_timestamp,
    set_offsets,
)
from barnabas.protocol.compression import CompressionType, compress
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import CorruptMessage, ErrorCode, KafkaError, ProtocolError, UnsupportedCompressionType
from barnabas.protocol.records import (
    ControlType,
    Header,
    NewRecord,
    Record,
    control_type_of,
    coordinator_epoch_of,
    has_null_key,
    iter_records,
)

FUZZ_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "4000"))
MAX_BYTES = 1 << 22
NOW_MS = 1_700_000_000_000

SAMPLE = [
    NewRecord(b"key", b"value", (), NOW_MS),
    NewRecord(None, b"no key", (), NOW_MS + 5),
    NewRecord(b"tombstone", None, (), NOW_MS - 70_000),  # timestamps need not ascend
    NewRecord(None, None, (), NOW_MS),
    NewRecord(b"", b"", [("", b"")], NOW_MS),  # empty is not null
    NewRecord(b"headers", b"v", [("a", b"1"), ("a", None), ("ключ", b"\xff"), ("a", b"1")], NOW_MS),
    NewRecord(b"long key" * 20, b"big" * 100_000, [("h" * 300, b"v" * 300)], NOW_MS + 2**40),
]


def parsed(batch: bytes | bytearray | memoryview, max_decompressed_bytes: int = MAX_BYTES) -> list[Record]:
    return list(iter_records(batch, max_decompressed_bytes=max_decompressed_bytes))


def stored(new_records: Sequence[NewRecord], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + delta, new.timestamp, new.key, new.value, headers_of(new.headers))
        for delta, new in enumerate(new_records)
    ]


def headers_of(pairs: Iterable[tuple[str, bytes | None]]) -> tuple[Header, ...]:
    return tuple(Header(*pair) for pair in pairs)


def varint(value: int) -> bytes:
    buffer = bytearray()
    put_varint(buffer, value)
    return bytes(buffer)


def batch_of(data: bytes, **fields: int) -> bytearray:
    """A batch whose header is what a test wants it to be; its length and CRC are right unless the test sets them."""
    codec = fields.get("attributes", 0) & 7
    payload = compress(codec, data) if codec <= CompressionType.ZSTD else data
    plain = BatchHeader(0, HEADER_BYTES - 12 + len(payload), -1, 2, 0, 0, 0, NOW_MS, NOW_MS, -1, -1, -1, 1)
    batch = bytearray(struct.pack(">qiibIhiqqqhii", *plain._replace(**fields))) + payload
    if "crc" not in fields:
        struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


def record_of(body: bytes, length: int | None = None) -> bytes:
    return varint(len(body) if length is None else length) + body


# ---- headers


def test_a_header_reads_as_it_was_built() -> None:
    batch = build_batch(
        SAMPLE, base_offset=2**40, compression=CompressionType.ZSTD, producer_id=2**50, producer_epoch=7,
        base_sequence=100, partition_leader_epoch=9, transactional=True,
    )  # fmt: skip
    header = header_at(batch)
    assert header == BatchHeader(
        base_offset=2**40, batch_length=len(batch) - 12, partition_leader_epoch=9, magic=2,
        crc=crc_of(memoryview(batch)), attributes=0b10100, last_offset_delta=6, base_timestamp=NOW_MS,
        max_timestamp=NOW_MS + 2**40, producer_id=2**50, producer_epoch=7, base_sequence=100, records_count=7,
    )  # fmt: skip
    assert (header.size_bytes, header.last_offset, header.next_offset) == (len(batch), 2**40 + 6, 2**40 + 7)
    assert header.has_producer_id
    assert header.last_sequence == 106


def test_a_header_reads_the_same_at_any_position_of_any_buffer() -> None:
    batch = build_batch(SAMPLE)
    behind = b"....." + batch
    assert header_at(batch) == header_at(bytes(batch)) == header_at(memoryview(behind), 5)


@pytest.mark.parametrize(
    ("attributes", "compression", "log_append_time", "transactional", "control", "delete_horizon_ms"),
    [
        (0, 0, False, False, False, None),
        (0x0B, 3, True, False, False, None),
        (0x10, 0, False, True, False, None),
        (0x30, 0, False, True, True, None),
        (0x42, 2, False, False, False, NOW_MS),  # the base timestamp is the horizon
        (0x07, 7, False, False, False, None),  # no such codec: for others to refuse
    ],
)
def test_attributes(
    attributes: int, compression: int, log_append_time: bool, transactional: bool, control: bool, delete_horizon_ms: int
) -> None:
    header = header_at(batch_of(b"", attributes=attributes))
    assert header.compression == compression
    assert header.is_log_append_time is log_append_time
    assert header.is_transactional is transactional
    assert header.is_control is control
    assert header.delete_horizon_ms == delete_horizon_ms


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "expected"),
    [
        (0, 0, 0),
        (5, 10, 15),
        (2**31 - 1, 0, 2**31 - 1),
        (2**31 - 1, 1, 0),  # behind the largest comes 0, not 1 and not -2**31
        (2**31 - 3, 10, 7),
        (-1, 10, -1),  # no sequence stays none
    ],
)
def test_the_last_sequence_wraps_as_kafka_wraps_it(base_sequence: int, last_offset_delta: int, expected: int) -> None:
    batch = batch_of(b"", base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert header_at(batch).last_sequence == expected
    if last_offset_delta:  # kafka-python answers a batch of one record without its arithmetic
        assert DefaultRecordBatch(bytes(batch)).last_sequence == expected


@pytest.mark.parametrize("size", [*range(HEADER_BYTES)])
def test_too_few_bytes_are_no_header(size: int) -> None:
    with pytest.raises(ProtocolError):
        header_at(build_batch(SAMPLE)[:size])


def test_batches_are_found_until_the_tail_that_is_not_whole() -> None:
    batches = [bytes(build_batch(SAMPLE[:count], base_offset=count)) for count in (1, 3, 2)]
    data = b"".join(batches)
    starts = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    for size in range(len(data) + 1):
        whole = sum(start + len(batch) <= size for start, batch in zip(starts, batches))
        found = list(iter_batches(memoryview(data)[:size]))
        assert found == [(start, header_at(data, start)) for start in starts[:whole]]


def test_batches_are_found_from_a_position() -> None:
    one = build_batch(SAMPLE)
    assert [position for position, _ in iter_batches(one + one + one, len(one))] == [len(one), 2 * len(one)]


@pytest.mark.parametrize("batch_length", [-(2**31), -13, -12, -1, 0, 14, 48])
def test_a_length_below_a_header_cannot_be(batch_length: int) -> None:
    bad = batch_of(b"more than enough bytes", batch_length=batch_length)
    good = build_batch(SAMPLE)
    batches = iter_batches(good + bad)
    assert next(batches) == (0, header_at(good))
    with pytest.raises(ProtocolError):
        next(batches)
    with pytest.raises(ProtocolError):
        parsed(bad)


# ---- patches in place


def test_offsets_and_leader_epoch_stand_outside_the_crc() -> None:
    batch = build_batch(SAMPLE, compression=CompressionType.LZ4)
    before = header_at(batch)
    set_offsets(memoryview(batch), 2**62, 77)
    assert header_at(batch) == before._replace(base_offset=2**62, partition_leader_epoch=77)
    assert crc_of(memoryview(batch)) == before.crc
    assert [record.offset for record in parsed(batch)] == [2**62 + delta for delta in range(7)]


@pytest.mark.parametrize("compression", CompressionType)
def test_log_append_time_is_every_records_timestamp(compression: CompressionType) -> None:
    batch = build_batch(SAMPLE, compression=compression, transactional=True)
    before = header_at(batch)
    set_max_timestamp(memoryview(batch), True, NOW_MS + 1)
    after = header_at(batch)
    assert after == before._replace(attributes=before.attributes | 8, max_timestamp=NOW_MS + 1, crc=after.crc)
    assert after.crc == crc_of(memoryview(batch)) != before.crc
    assert {record.timestamp for record in parsed(batch)} == {NOW_MS + 1}
    assert {record.timestamp for record in kafka_python(batch)} == {NOW_MS + 1}
    set_max_timestamp(memoryview(batch), False, before.max_timestamp)
    assert header_at(batch) == before
    assert [record.timestamp for record in parsed(batch)] == [record.timestamp for record in SAMPLE]


def test_a_batch_can_be_built_with_log_append_time() -> None:
    batch = build_batch(SAMPLE, log_append_time=NOW_MS + 9)
    assert header_at(batch).is_log_append_time
    assert {record.timestamp for record in parsed(batch)} == {NOW_MS + 9}


# ---- kafka-python, both ways


def kafka_python(batch: bytes | bytearray) -> list[Record]:
    other = DefaultRecordBatch(bytes(batch))
    assert other.validate_crc()
    return [
        Record(record.offset, record.timestamp, record.key, record.value, headers_of(record.headers))
        for record in other
    ]


@pytest.mark.parametrize("compression", CompressionType)
def test_kafka_python_reads_what_we_build(compression: CompressionType) -> None:
    batch = build_batch(
        SAMPLE, base_offset=1000, compression=compression, producer_id=5, producer_epoch=2, base_sequence=8
    )
    assert kafka_python(batch) == stored(SAMPLE, 1000) == parsed(batch)
    other = DefaultRecordBatch(bytes(batch))
    header = header_at(batch)
    assert (other.producer_id, other.producer_epoch, other.base_sequence, other.last_sequence) == (5, 2, 8, 14)
    assert (other.base_offset, other.last_offset, other.next_offset) == (1000, header.last_offset, header.next_offset)
    assert (other.first_timestamp, other.max_timestamp) == (header.base_timestamp, header.max_timestamp)
    assert (other.size_in_bytes, other.records_count, other.compression_type) == (len(batch), 7, compression)


@pytest.mark.parametrize("compression", CompressionType)
@pytest.mark.parametrize("transactional", [False, True])
def test_we_read_what_kafka_python_builds(compression: CompressionType, transactional: bool) -> None:
    producer: dict[str, Any] = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 8}
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=compression, is_transactional=transactional, batch_size=1 << 22, **producer
    )
    for offset, (key, value, headers, timestamp) in enumerate(SAMPLE):
        assert builder.append(offset, timestamp=timestamp, key=key, value=value, headers=list(headers))
    batch = bytes(builder.build())
    header = header_at(batch)
    assert parsed(batch) == stored(SAMPLE)
    assert header.crc == crc_of(memoryview(batch))
    assert (header.is_transactional, header.producer_id, header.last_sequence) == (transactional, 5, 14)
    if not header.compression:
        assert build_batch(SAMPLE, transactional=transactional, **producer)[21:] == batch[21:]


def test_kafka_python_finds_the_same_batches() -> None:
    data = b"".join(build_batch(SAMPLE, base_offset=offset) for offset in (0, 7, 14)) + b"half a batch"
    theirs = [batch.base_offset for batch in MemoryRecords(data)]
    assert theirs == [header.base_offset for _, header in iter_batches(data)] == [0, 7, 14]


# ---- round trips

optional_bytes = st.none() | st.binary(max_size=200)
new_records = st.builds(
    NewRecord,
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=4),
    timestamp=st.integers(-1, 2**62),
)


@given(
    st.lists(new_records, min_size=1, max_size=12),
    st.sampled_from(CompressionType),
    st.integers(0, 2**62),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_round_trip(batch_records: list[NewRecord], compression: int, base_offset: int, transactional: bool) -> None:
    batch = build_batch(batch_records, base_offset=base_offset, compression=compression, transactional=transactional)
    assert parsed(batch) == stored(batch_records, base_offset) == kafka_python(batch)
    assert has_null_key(batch, MAX_BYTES) == any(record.key is None for record in batch_records)
    assert header_at(batch).max_timestamp == max(record.timestamp for record in batch_records)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_varlong(value: int) -> None:
    assert records._signed(records.unsigned_varint(varint(value), 0, 64)[0]) == value
    if -(2**31) <= value < 2**31:
        assert records.unsigned_varint(varint(value), 0, 32)[1] == len(varint(value)) <= 5


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints_as_kafka_writes_them(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint(value) == data
    unsigned, position = records.unsigned_varint(data, 0, 64)
    assert (records._signed(unsigned), position) == (value, len(data))


def test_a_header_key_that_is_no_utf8_survives() -> None:
    """Brokers never look at header keys, so that what a producer put there must come through compaction unchanged."""
    body = b"\0\0\0\1\1" + varint(1) + varint(2) + b"\xff\xfe" + varint(-1)
    batch = batch_of(record_of(body))
    (record,) = parsed(batch)
    assert build_batch([(record.key, record.value, record.headers, record.timestamp)])[HEADER_BYTES:] == record_of(body)


def test_offsets_may_have_gaps_as_compaction_leaves_them() -> None:
    data = b"".join(record_of(bytes((0, 0)) + varint(delta) + b"\1\1\0") for delta in (1, 4, 300))
    batch = batch_of(data, base_offset=100, records_count=3, last_offset_delta=500)
    assert [record.offset for record in parsed(batch)] == [101, 104, 400]


def test_a_batch_that_compaction_emptied_has_no_records() -> None:
    assert parsed(batch_of(b"", records_count=0, last_offset_delta=9)) == []
    assert not has_null_key(batch_of(b"", records_count=0, last_offset_delta=9), MAX_BYTES)


def test_bytes_behind_the_batch_are_somebody_elses() -> None:
    assert parsed(build_batch(SAMPLE) + b"another batch") == stored(SAMPLE)


# ---- null keys


@pytest.mark.parametrize("compression", CompressionType)
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([b"a"], False),
        ([None], True),
        ([b""], False),  # empty is not null
        ([b"a" * 5000, b"b", None], True),  # the last of several
        ([b"a", b"b" * 100] * 50, False),
    ],
)
def test_null_keys_are_seen(compression: CompressionType, keys: list[bytes | None], expected: bool) -> None:
    batch = build_batch([(key, b"v" * 1000, [("h", None)], NOW_MS) for key in keys], compression=compression)
    assert has_null_key(batch, MAX_BYTES) is expected
    assert has_null_key(memoryview(batch), MAX_BYTES) is expected


# ---- control batches


@pytest.mark.parametrize("control_type", [ControlType.COMMIT, ControlType.ABORT])
def test_end_transaction_markers(control_type: ControlType) -> None:
    batch = build_end_transaction_marker(
        control_type, coordinator_epoch=77, producer_id=2**40, producer_epoch=3, timestamp=NOW_MS, base_offset=12
    )
    header = header_at(batch)
    (record,) = parsed(batch)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.max_timestamp) == (2**40, 3, NOW_MS)
    assert (control_type_of(record), coordinator_epoch_of(record)) == (control_type, 77)
    assert (record.key, record.value) == (struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 77))
    (theirs,) = DefaultRecordBatch(bytes(batch))
    assert isinstance(theirs, ControlRecord)
    assert (theirs.commit, theirs.abort) == (control_type is ControlType.COMMIT, control_type is ControlType.ABORT)


def test_control_records_of_the_metadata_log() -> None:
    controls = [(ControlType.LEADER_CHANGE, b"a"), (ControlType.KRAFT_VERSION, b"b"), (ControlType.KRAFT_VOTERS, b"c")]
    batch = build_control_batch(controls, timestamp=NOW_MS, base_offset=5, partition_leader_epoch=4)
    header = header_at(batch)
    assert (header.is_control, header.is_transactional, header.has_producer_id) == (True, False, False)
    assert (header.base_offset, header.partition_leader_epoch) == (5, 4)
    assert [(control_type_of(record), record.value) for record in parsed(batch)] == [(2, b"a"), (5, b"b"), (6, b"c")]


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_control_record_without_a_sound_key_is_corrupt(key: bytes | None) -> None:
    with pytest.raises(CorruptMessage):
        control_type_of(Record(0, 0, key, b""))


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0", b"\xff\xff\0\0\0\1"])
def test_a_marker_without_a_sound_value_is_corrupt(value: bytes | None) -> None:
    with pytest.raises(CorruptMessage):
        coordinator_epoch_of(Record(0, 0, b"\0\0\0\1", value))


def test_later_versions_of_control_keys_and_unknown_types_are_read() -> None:
    assert control_type_of(Record(0, 0, b"\0\5\0\x63and more", b"")) == 99


# ---- nonsense

GOOD = record_of(b"\0\0\0\1\1\0")
NONSENSE: dict[str, bytearray] = {
    "bytes behind the last record": batch_of(GOOD + b"\0"),
    "a record more than counted": batch_of(GOOD + GOOD),
    "a record fewer than counted": batch_of(GOOD, records_count=2, last_offset_delta=1),
    "more records than offsets": batch_of(GOOD + record_of(b"\0\0\2\1\1\0"), records_count=2),
    "a negative count": batch_of(b"", records_count=-1),
    "a count of two thousand million": batch_of(GOOD, records_count=2**31 - 1, last_offset_delta=2**31 - 1),
    "a negative last offset delta": batch_of(b"", records_count=0, last_offset_delta=-2),
    "offsets beyond 64 bits": batch_of(GOOD, base_offset=2**63 - 1, last_offset_delta=1),
    "magic 1": batch_of(GOOD, magic=1),
    "magic 3": batch_of(GOOD, magic=3),
    "no bytes at all": batch_of(b""),
    "an empty record": batch_of(record_of(b"")),
    "a record of negative length": batch_of(varint(-1) + b"\0\0\0\1\1\0"),
    "a record longer than the batch": batch_of(record_of(b"\0\0\0\1\1\0", 7)),
    "a record shorter than its contents": batch_of(record_of(b"\0\0\0\1\1\0", 5)),
    "a record longer than its contents": batch_of(record_of(b"\0\0\0\1\1\0\0")),
    "a key longer than the record": batch_of(record_of(b"\0\0\0" + varint(100) + b"\1\0")),
    "a value longer than the record": batch_of(record_of(b"\0\0\0\1" + varint(100) + b"\0")),
    "a value that ends in the next record": batch_of(
        record_of(b"\0\0\0\1" + varint(3) + b"\0") + record_of(b"\0\0\2\1\1\0"), records_count=2, last_offset_delta=1
    ),
    "a key of length -2": batch_of(record_of(b"\0\0\0" + varint(-2) + b"\1\0")),
    "a value of length -2": batch_of(record_of(b"\0\0\0\1" + varint(-2) + b"\0")),
    "a negative number of headers": batch_of(record_of(b"\0\0\0\1\1" + varint(-1))),
    "two thousand million headers": batch_of(record_of(b"\0\0\0\1\1" + varint(2**31 - 1))),
    "a header too many": batch_of(record_of(b"\0\0\0\1\1" + varint(2) + b"\0\0")),
    "a header with a null key": batch_of(record_of(b"\0\0\0\1\1" + varint(1) + b"\1\0")),
    "a header's value longer than the batch": batch_of(record_of(b"\0\0\0\1\1" + varint(1) + b"\0" + varint(1), 8)),
    "a varint of six bytes": batch_of(b"\x8c\x80\x80\x80\x80\x00\0\0\0\1\1\0"),
    "a varint of 33 bits": batch_of(b"\x8c\x80\x80\x80\x10\0\0\0\1\1\0"),
    "a varlong of eleven bytes": batch_of(record_of(b"\0" + b"\x80" * 10 + b"\0" + b"\0\1\1\0")),
    "a varlong of 65 bits": batch_of(record_of(b"\0" + b"\x80" * 9 + b"\2" + b"\0\1\1\0")),
    "an offset delta twice": batch_of(GOOD + GOOD, records_count=2, last_offset_delta=1),
    "a negative offset delta": batch_of(record_of(b"\0\0\1\1\1\0")),
    "an offset delta above the last": batch_of(record_of(b"\0\0\4\1\1\0"), last_offset_delta=1),
    "a timestamp beyond 64 bits": batch_of(record_of(b"\0\2\0\1\1\0"), base_timestamp=2**63 - 1),
    "a timestamp below 64 bits": batch_of(record_of(b"\0\1\0\1\1\0"), base_timestamp=-(2**63)),
    "data that is not compressed": bytearray(bytes(batch_of(GOOD))[:21] + b"\0\1" + bytes(batch_of(GOOD))[23:]),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_corrupt(name: str) -> None:
    with pytest.raises(CorruptMessage) as refusal:
        parsed(NONSENSE[name])
    assert refusal.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_good_record_of_these_is_good() -> None:
    assert parsed(batch_of(GOOD)) == [Record(0, NOW_MS, None, None)]
    assert parsed(batch_of(GOOD, attributes=1)) == [Record(0, NOW_MS, None, None)]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused_when_records_are_wanted(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionType):
        parsed(batch_of(GOOD, attributes=codec))
    with pytest.raises(UnsupportedCompressionType):
        has_null_key(batch_of(GOOD, attributes=codec), MAX_BYTES)


@pytest.mark.parametrize("compression", [codec for codec in CompressionType if codec])
def test_records_that_grow_above_the_bound_are_refused(compression: CompressionType) -> None:
    batch = build_batch([(b"k", bytes(500_000), (), NOW_MS)] * 3, compression=compression)
    assert len(parsed(batch, 1_600_000)) == 3
    for read in (parsed, has_null_key):
        with pytest.raises(KafkaError) as refusal:
            read(batch, 1_400_000)
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_records_that_are_not_compressed_are_there_already_and_need_no_bound() -> None:
    assert len(parsed(build_batch(SAMPLE), 0)) == len(SAMPLE)


# ---- damage

SMALL = [record._replace(value=record.value and record.value[:40]) for record in SAMPLE]


def read_everything(data: bytes | bytearray) -> None:
    """All that a broker may ever do to bytes that a stranger sent."""
    for position, header in iter_batches(data):
        batch = memoryview(data)[position : position + header.size_bytes]
        crc_of(batch)
        assert isinstance(header.last_sequence, int)
        for record in iter_records(batch, max_decompressed_bytes=1 << 20):
            if header.is_control:
                control_type_of(record)
                coordinator_epoch_of(record)
        has_null_key(batch, 1 << 20)


def survives(data: bytes | bytearray) -> bool:
    try:
        read_everything(data)
    except (ProtocolError, KafkaError):
        return False
    return True


@pytest.mark.parametrize("compression", CompressionType)
def test_a_batch_cut_anywhere_is_refused(compression: CompressionType) -> None:
    batch = build_batch(SMALL, compression=compression)
    for size in range(len(batch)):
        with pytest.raises(ProtocolError):
            parsed(batch[:size])
        with pytest.raises(ProtocolError):
            has_null_key(batch[:size], MAX_BYTES)


@pytest.mark.parametrize("compression", CompressionType)
def test_a_batch_cut_anywhere_with_its_length_set_right_is_corrupt(compression: CompressionType) -> None:
    batch = build_batch(SMALL, compression=compression)
    for size in range(HEADER_BYTES, len(batch)):
        cut = batch[:size]
        struct.pack_into(">i", cut, 8, size - 12)
        with pytest.raises(CorruptMessage):
            parsed(cut)


@pytest.mark.parametrize("compression", CompressionType)
def test_a_byte_changed_anywhere_raises_nothing_foreign(compression: CompressionType) -> None:
    batch = build_batch(SMALL, compression=compression)
    for position in range(len(batch)):
        for mask in (0x01, 0x80, 0xFF):
            changed = bytearray(batch)
            changed[position] ^= mask
            survives(changed)


@pytest.mark.parametrize("compression", CompressionType)
def test_the_crc_tells_of_every_changed_byte_behind_it(compression: CompressionType) -> None:
    batch = build_batch(SMALL, compression=compression)
    for position in range(17, len(batch)):
        changed = bytearray(batch)
        changed[position] ^= 0x40
        assert crc_of(memoryview(changed)) != header_at(changed).crc


@pytest.mark.fuzz
@pytest.mark.parametrize("compression", CompressionType)
def test_damage_raises_nothing_foreign(compression: CompressionType) -> None:
    chance = random.Random(int(compression))
    marker = build_end_transaction_marker(
        ControlType.ABORT, coordinator_epoch=1, producer_id=1, producer_epoch=1, timestamp=NOW_MS
    )
    source = build_batch(SMALL, compression=compression) + marker
    for _ in range(FUZZ_EXAMPLES // 5):
        data = bytearray(source)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(data))
            data[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        survives(data)


@pytest.mark.fuzz
@given(st.binary(max_size=120), st.integers(0, 7), st.integers(-2, 40))
@settings(max_examples=max(FUZZ_EXAMPLES // 10, 1), deadline=None)
def test_garbage_for_records_raises_nothing_foreign(data: bytes, codec: int, records_count: int) -> None:
    survives(batch_of(data, attributes=codec, records_count=records_count, last_offset_delta=40))


@pytest.mark.fuzz
@given(st.binary(max_size=200))
@settings(max_examples=max(FUZZ_EXAMPLES // 10, 1), deadline=None)
def test_garbage_for_batches_raises_nothing_foreign(data: bytes) -> None:
    survives(data)
