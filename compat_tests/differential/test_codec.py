"""The codec of this test itself: every message in every version, and against another's bytes."""

from random import Random
from typing import Any

import pytest

from compat_tests.brokers import KAFKA_LIBS
from compat_tests.conftest import require
from compat_tests.differential.batches import CODECS, Batch, Record, read_batches
from compat_tests.differential.codec import TAGS, Undecodable, decode, encode
from compat_tests.differential.mutation import BORDERS, NOT_UTF_8
from compat_tests.differential.schemas import Field, Message, apis


@pytest.fixture(autouse=True)
def schemas() -> None:
    require((KAFKA_LIBS,))


def any_value(random: Random, field: Field, version: int) -> Any:
    if field.is_array:
        one = field._replace(is_array=False, nullable=range(0))
        return [any_value(random, one, version) for _ in range(random.randrange(3))]
    if field.is_struct:
        return any_struct(random, field.fields, version)
    values = [value for value in BORDERS[field.kind] if value is not None or version in field.nullable]
    return random.choice([value for value in values if value not in NOT_UTF_8])


def any_struct(random: Random, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    return {field.name: any_value(random, field, version) for field in fields if version in field.versions}


def messages() -> list[Message]:
    return [message for api in apis().values() for message in (api.request, api.response)]


def test_every_message_comes_back_in_every_version() -> None:
    random = Random(1)
    for message in messages():
        for version in message.versions:
            value = any_struct(random, message.fields, version)
            data = encode(message, version, value)
            assert encode(message, version, decode(message, version, data)) == data, (message.name, version)


def test_what_is_cut_or_followed_by_more_is_not_decoded() -> None:
    metadata = apis()["Metadata"].request
    data = encode(metadata, 12, {"Topics": [{"Name": "a"}]})
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(Undecodable):
            decode(metadata, 12, wrong)


def test_null_where_none_is_allowed_can_be_sent_but_is_not_taken() -> None:
    message = apis()["Heartbeat"].request
    with pytest.raises(Undecodable, match="null"):
        decode(message, 4, encode(message, 4, {"GroupId": None}))


@pytest.mark.parametrize("raw", NOT_UTF_8)
def test_a_string_that_is_not_utf_8_can_be_sent_but_is_not_taken(raw: bytes) -> None:
    message = apis()["Heartbeat"].request
    with pytest.raises(Undecodable, match="utf-8"):
        decode(message, 4, encode(message, 4, {"GroupId": raw}))


def test_unknown_tagged_fields_are_kept() -> None:
    message = apis()["Heartbeat"].request
    value = decode(message, 4, encode(message, 4, {"GroupId": "g", TAGS: {99: b"new"}}))
    assert value[TAGS] == {99: b"new"}


@pytest.mark.parametrize(
    ("name", "version", "value", "expected"),
    [
        # Written by hand from the protocol's guide: strings of two bytes' length, arrays of four.
        ("Metadata", 1, {"Topics": [{"Name": "ab"}]}, "00000001 0002 6162"),
        ("Metadata", 1, {"Topics": None}, "ffffffff"),
        # Flexible: lengths plus one in a varint, a count of tagged fields after every struct.
        ("Heartbeat", 4, {"GroupId": "g", "GenerationId": 5, "MemberId": "m"}, "02 67 00000005 02 6d 00 00"),
        ("ApiVersions", 3, {"ClientSoftwareName": "c", "ClientSoftwareVersion": "1"}, "02 63 02 31 00"),
        # A tagged struct that is not its default is sent with its size.
        ("Fetch", 15, {"MaxBytes": 0, "ReplicaState": {"ReplicaId": 1}, "Topics": []},
         "00000000 00000000 00000000 00 00000000 ffffffff 01 01 01 01 01 0d 00000001 ffffffffffffffff 00"),
    ],
)  # fmt: skip
def test_bytes_that_are_known(name: str, version: int, value: dict[str, Any], expected: str) -> None:
    assert encode(apis()[name].request, version, value).hex() == expected.replace(" ", "")


@pytest.mark.parametrize("codec", range(len(CODECS)), ids=CODECS)
def test_batches_are_those_that_another_client_reads(codec: int) -> None:
    from kafka.record.memory_records import MemoryRecords

    records = (Record(b"k", b"v", (("h", b"x"),), 5), Record(None, None))
    data = Batch(records, timestamp=1_000, codec=codec).encoded(7)
    (batch,) = read_batches(data) or []
    assert (batch["Crc"], batch["ProducerId"], batch["MaxTimestamp"], batch["Count"]) == ("right", 7, 1_005, 2)
    read = MemoryRecords(data).next_batch()
    assert read.validate_crc()
    assert [(record.key, record.value, record.timestamp) for record in read] == [
        (b"k", b"v", 1_005),
        (None, None, 1_000),
    ]
