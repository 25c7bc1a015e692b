"""Record batches that are not what they should be: what each gets, and that nobody else notices."""

import resource
import struct
import zlib
from typing import Any

import pytest

from barnabas.protocol.batch_header import HEADER_BYTES
from barnabas.protocol.compression import CompressionType, compress
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.frame import encode_request
from barnabas.testing import Broker
from tests.broker.wire import RawClient, Sent, batch_of, good, now_ms, produce_request, values_of
from tests.broker.witness import Lines, wait_for_line

pytestmark = pytest.mark.usefixtures("healthy")

DAY_MS = 86_400_000
_HEADER = struct.Struct(">qiibIhiqqqhii")
_FIELDS = (
    "base_offset", "batch_length", "partition_leader_epoch", "magic", "crc", "attributes", "last_offset_delta",
    "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count",
)  # fmt: skip


def altered(**fields: int) -> bytearray:
    """A good batch with other header fields, and the CRC that belongs to them unless it is one of them."""
    batch = good()
    values = dict(zip(_FIELDS, _HEADER.unpack_from(batch))) | fields
    _HEADER.pack_into(batch, 0, *(values[field] for field in _FIELDS))
    if "crc" not in fields:
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def flipped(position: int) -> bytearray:
    batch = good()
    batch[position] ^= 1
    return batch


NONE, CORRUPT, INVALID = ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD
SIZE = len(good()) - 12

BATCHES: list[tuple[str, Any, ErrorCode]] = [
    ("nothing", None, INVALID),  # Kafka never answers this one
    ("no bytes", b"", INVALID),
    ("one byte", b"x", INVALID),
    ("half a header", good()[:40], INVALID),  # what is not a whole batch counts as none
    ("a header only", good()[:HEADER_BYTES], INVALID),
    ("a byte is missing", good()[:-1], INVALID),
    ("two batches", good() + good(), INVALID),
    ("zeros behind it", good() + bytes(100), CORRUPT),
    ("one byte behind it", good() + b"x", NONE),  # it is cut off, and so is half a batch
    ("half a batch behind it", good() + good()[:70], NONE),
    ("base_offset 5", altered(base_offset=5), INVALID),
    ("base_offset -1", altered(base_offset=-1), INVALID),
    ("batch_length 0", altered(batch_length=0), CORRUPT),
    ("batch_length -1", altered(batch_length=-1), CORRUPT),
    ("batch_length -2^31", altered(batch_length=-(2**31)), CORRUPT),
    ("batch_length 14", altered(batch_length=14), CORRUPT),
    ("batch_length 48", altered(batch_length=48), CORRUPT),
    ("batch_length of an empty batch", altered(batch_length=49), CORRUPT),
    ("batch_length one less", altered(batch_length=SIZE - 1), CORRUPT),
    ("batch_length one more", altered(batch_length=SIZE + 1), INVALID),
    ("batch_length 2^31-1", altered(batch_length=2**31 - 1), INVALID),  # Kafka: UNKNOWN_SERVER_ERROR, an overflow
    ("a short batch by itself", altered(batch_length=48)[:60], CORRUPT),
    ("partition_leader_epoch 7", altered(partition_leader_epoch=7), NONE),  # the broker sets it
    ("magic 0", altered(magic=0), INVALID),
    ("magic 1", altered(magic=1), INVALID),
    ("magic 3", altered(magic=3), CORRUPT),
    ("magic -1", altered(magic=-1), CORRUPT),
    ("crc", altered(crc=0), CORRUPT),
    ("a flipped bit in the attributes", flipped(22), CORRUPT),
    ("a flipped bit in a timestamp", flipped(30), CORRUPT),
    ("a flipped bit in a record", flipped(70), CORRUPT),
    ("compression 5", altered(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),  # Kafka: UNKNOWN_SERVER_ERROR
    ("compression 7", altered(attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("LogAppendTime", altered(attributes=8), NONE),  # corrected
    ("transactional", altered(attributes=16), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ("a control batch", altered(attributes=32), INVALID),
    ("unknown attributes", altered(attributes=-32_768), NONE),
    ("last_offset_delta less", altered(last_offset_delta=1), INVALID),
    ("last_offset_delta more", altered(last_offset_delta=3), INVALID),
    ("last_offset_delta -1", altered(last_offset_delta=-1), INVALID),
    ("records_count 0", altered(records_count=0), INVALID),
    ("an empty batch", altered(records_count=0, last_offset_delta=-1), INVALID),
    ("records_count -1", altered(records_count=-1), INVALID),
    ("records_count less", altered(records_count=2), INVALID),
    ("records_count more", altered(records_count=4), INVALID),
    ("two billion records", altered(records_count=2**31 - 1, last_offset_delta=2**31 - 2), INVALID),
    ("base_timestamp in the future", altered(base_timestamp=now_ms() + 2 * DAY_MS), ErrorCode.INVALID_TIMESTAMP),
    ("max_timestamp in the future", altered(max_timestamp=now_ms() + 2 * DAY_MS), NONE),  # corrected
    ("max_timestamp -1", altered(max_timestamp=-1), NONE),
    ("a record of the future", good(timestamps=[now_ms()] * 2 + [now_ms() + 2 * DAY_MS]), ErrorCode.INVALID_TIMESTAMP),
    ("records of 1970", good(timestamps=[1] * 3), NONE),
    ("no timestamps", good(timestamps=[-1] * 3), NONE),
    ("a producer without a sequence", altered(producer_id=5, producer_epoch=0, base_sequence=-1), INVALID),
    (
        "a producer without an epoch",
        altered(producer_id=6, producer_epoch=-1, base_sequence=0),
        NONE,
    ),  # -1 is its epoch
    ("producer_id -2", altered(producer_id=-2), NONE),
    ("base_sequence without a producer", altered(base_sequence=5), NONE),
    ("a sequence that starts at 5", altered(producer_id=7, producer_epoch=0, base_sequence=5), NONE),
    ("above max.message.bytes", batch_of([bytes(1_100_000)]), ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("batch", "expected"), [row[1:] for row in BATCHES], ids=[row[0] for row in BATCHES])
def test_a_wrong_batch_gets_the_error_that_kafka_gives(client: RawClient, batch: bytes, expected: ErrorCode) -> None:
    before = client.list_offset("payments", -1).offset
    answer = client.produce("payments", batch)
    assert ErrorCode(answer.error_code) is expected
    assert answer.base_offset == (before if expected is NONE else -1)
    assert client.list_offset("payments", -1).offset == (before + 3 if expected is NONE else before)


def test_one_wrong_partition_does_not_take_the_others(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"several": 4})
    batches: dict[int, bytes | bytearray | None] = {0: good(), 1: flipped(70), 2: good(), 3: b"", 9: good()}
    answers = client.call(produce_request("several", batches), 12).responses[0].partition_responses
    assert [ErrorCode(answer.error_code).name for answer in answers] == [
        "NONE",
        "CORRUPT_MESSAGE",
        "NONE",
        "INVALID_RECORD",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


UNSEEN: list[tuple[str, Any]] = [
    ("fewer records than it says", altered(records_count=4, last_offset_delta=3)),
    ("more records than it says", altered(records_count=2, last_offset_delta=1)),
    ("gzip that is none", altered(attributes=CompressionType.GZIP)),
    ("snappy that is none", altered(attributes=CompressionType.SNAPPY)),
    ("lz4 that is none", altered(attributes=CompressionType.LZ4)),
    ("zstd that is none", altered(attributes=CompressionType.ZSTD)),
]


@pytest.mark.parametrize("batch", [row[1] for row in UNSEEN], ids=[row[0] for row in UNSEEN])
def test_only_full_validation_looks_behind_a_good_crc(broker: Broker, client: RawClient, batch: bytes) -> None:
    assert client.produce("checked", batch).error_code == INVALID
    broker.create_topics({f"unchecked-{id(batch)}": 1})
    assert client.produce(f"unchecked-{id(batch)}", batch).error_code == NONE
    assert client.fetch(f"unchecked-{id(batch)}").error_code == NONE
    assert client.list_offset(f"unchecked-{id(batch)}", 0).error_code in (NONE, CORRUPT), (
        "the client is told, not cut off"
    )


def test_null_keys_are_refused_on_a_compacted_topic_and_named_one_by_one(client: RawClient) -> None:
    answer = client.produce("compacted", batch_of([b"a", b"b", b"c", None], keys=[b"1", None, b"3", None]))
    assert answer.error_code == INVALID
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all("key" in (error.batch_index_error_message or "") for error in answer.record_errors)
    assert client.produce("compacted", batch_of([b"a", None], keys=[b"1", b""])).error_code == NONE, (
        "a tombstone is fine"
    )


def test_null_keys_and_values_are_fine_elsewhere(client: RawClient) -> None:
    for topic in ("payments", "checked"):
        answer = client.produce(topic, batch_of([None, b"", None], keys=[None, None, b""]))
        assert answer.error_code == NONE
        assert values_of(client.fetch(topic, answer.base_offset)) == [None, b"", None]


@pytest.mark.parametrize("topic", ["checked", "compacted"])
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.ZSTD])
def test_a_compression_bomb_is_refused_before_it_takes_memory(client: RawClient, topic: str, codec: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert client.produce(topic, bomb(codec)).error_code == INVALID
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 150_000, "half a gigabyte is in it"


def bomb(codec: int) -> bytearray:
    """One record of zeros, as its header says: half a gigabyte in a few kilobytes."""
    size = 512 * 1024 * 1024
    chunk = bytes(1024 * 1024)
    if codec == CompressionType.GZIP:
        gzip = zlib.compressobj(1, wbits=31)
        payload = b"".join(gzip.compress(chunk) for _ in range(100)) + gzip.flush()  # it shrinks less
    else:
        payload = compress(codec, chunk) * (size // len(chunk))
    batch = good(1)[:HEADER_BYTES] + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


# ---- produce itself


@pytest.mark.parametrize("acks", [2, 5, -2, 32_767])
def test_acks_that_mean_nothing_are_refused(client: RawClient, acks: int) -> None:
    assert client.produce("payments", good(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_acks_0_gets_no_answer(client: RawClient) -> None:
    before = client.list_offset("payments", -1).offset
    client.socket.sendall(encode_request(produce_request("payments", {0: good()}, acks=0), 12, 99, "test"))
    assert client.list_offset("payments", -1).offset == before + 3, "the next answer is the next request's"


@pytest.mark.parametrize(("topic", "batch"), [("no-such-topic", good()), ("payments", flipped(70)), ("payments", b"")])
def test_an_error_under_acks_0_closes_the_connection_since_nothing_else_could_tell(
    stranger: RawClient, log: Lines, topic: str, batch: bytes
) -> None:
    stranger.socket.sendall(encode_request(produce_request(topic, {0: batch}, acks=0), 12, 99, "test"))
    assert stranger.is_cut_off()
    wait_for_line(log, "acks=0")


def test_a_producer_that_floods_duplicates_and_gaps_gets_an_error_for_each(broker: Broker, client: RawClient) -> None:
    broker.create_topics({"sequences": 1})
    frames = bytearray()
    for index in range(300):
        sent = Sent(producer_id=4_000, producer_epoch=0, base_sequence=(index % 7) * 3)
        frames += client.frame(produce_request("sequences", {0: good(sent=sent)}), 12)
    client.socket.sendall(frames)
    codes = [client.receive().responses[0].partition_responses[0].error_code for _ in range(300)]
    assert set(codes) <= {NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
    assert client.list_offset("sequences", -1).offset == 3 * 7
