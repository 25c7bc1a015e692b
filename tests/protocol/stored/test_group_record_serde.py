"""The records of `__consumer_offsets`, beside the serde of Kafka's own group coordinator."""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.stored.group_record_serde import GroupKey, GroupValue, decode_record, encode_key, encode_value
from barnabas.protocol.stored.group_records import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tests.kafka_jars import run_java
from tests.protocol.declared import generate

EXAMPLES_FOR_JAVA = 20
"""Of each record, in one run of one Java process."""
KEY = OffsetCommitKey(group="g", topic="orders", partition=3)
KEY_BYTES = "0001" + "0001" + b"g".hex() + "0006" + b"orders".hex() + "00000003"
VALUE = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9)
CLASSES = {key.__api_key__: (key, value) for key in GroupKey.__args__ for value in GroupValue.__args__
           if key.__api_key__ == value.__api_key__}  # fmt: skip
VERSIONS_WRITTEN = {OffsetCommitValue: (1, 4), GroupMetadataValue: (3,)}


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # the topic's id is a tag, left out where it is not known
        (VALUE, "0004" + "0000000000000007" + "00000002" + "026d" + "0000000000000009" + "00"),
        (
            OffsetCommitValue(offset=7, metadata="", commit_timestamp=9, topic_id=b"\x05" * 16),
            "0004" + "0000000000000007" + "ffffffff" + "01" + "0000000000000009" + "01" + "00" + "10" + "05" * 16,
        ),
        # version 1 is the only one that carries an expiry; it has no leader epoch
        (
            OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9, expire_timestamp=11),
            "0001" + "0000000000000007" + "00016d" + "0000000000000009" + "000000000000000b",
        ),
        # version 3, though there is a fourth
        (
            GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None, members=[]),
            "0003" + "0008" + b"consumer".hex() + "00000001" + "ffff" + "ffff" + "ff" * 8 + "00000000",
        ),
    ],
)
def test_a_value_is_written_in_the_version_of_kafka_4_3(value: GroupValue, expected: str) -> None:
    assert encode_value(value).hex() == expected


def test_a_key_is_its_type_and_its_message() -> None:
    assert encode_key(KEY).hex() == KEY_BYTES
    assert decode_record(hexed(KEY_BYTES), encode_value(VALUE)) == (KEY, VALUE)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    assert decode_record(hexed(KEY_BYTES), None) == (KEY, None)


def test_an_offset_commit_of_the_first_kind_reads_as_any_other() -> None:
    """Brokers before 0.9 wrote type 0, and values of version 0."""
    value = hexed("0000" + "0000000000000007" + "00016d" + "0000000000000009")
    decoded = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)
    assert decode_record(hexed("0000" + KEY_BYTES[4:]), value) == (KEY, decoded)


def test_a_member_of_the_consumer_protocol_has_no_classic_metadata_after_a_round_trip() -> None:
    """Kafka's default is an empty one: leaving the tag out would make a classic member of it."""
    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["orders"],
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=None,
    )
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    assert encode_value(member).endswith(hexed("01" + "00" + "01" + "00"))
    assert decode_record(encode_key(key), encode_value(member)) == (key, member)


@pytest.mark.parametrize("record_type", [9, 10, 15, 17, 22, 32767, -1])
def test_a_record_of_a_type_that_is_not_known_is_nothing(record_type: int) -> None:
    assert decode_record(record_type.to_bytes(2, "big", signed=True) + b"whatever", b"") is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("", None, "record of 0 bytes"),
        ("00", None, "record of 1 bytes"),
        (KEY_BYTES[:-2], None, "OffsetCommitKey v0: truncated"),
        (KEY_BYTES + "00", None, "1 bytes after the end of OffsetCommitKey"),
        ("0002" + "ffff", None, "GroupMetadataKey v0: no null"),
        (KEY_BYTES, "", "record of 0 bytes"),
        (KEY_BYTES, "0005" + "00" * 40, "OffsetCommitValue of version 5"),  # of the future
        (KEY_BYTES, "ffff" + "00" * 40, "OffsetCommitValue of version -1"),
        (KEY_BYTES, "0004", "OffsetCommitValue v4: truncated"),
        (KEY_BYTES, encode_value(VALUE).hex() + "00", "1 bytes after the end of OffsetCommitValue"),
        (encode_key(GroupMetadataKey(group="g")).hex(), encode_value(VALUE).hex(), "GroupMetadataValue"),
    ],
)
def test_what_is_no_record_is_refused(key: str, value: str | None, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_record(hexed(key), None if value is None else hexed(value))


@given(st.sampled_from((*CLASSES, 0, 9)), st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_garbage_raises_nothing_else(record_type: int, key: bytes, value: bytes | None) -> None:
    try:
        decode_record(record_type.to_bytes(2, "big") + key, value)
    except ProtocolError:
        pass


@pytest.mark.parametrize(("key_class", "value_class"), CLASSES.values(), ids=lambda cls: cls.__name__)
@given(st.randoms(use_true_random=False), st.binary(max_size=60))
@settings(deadline=None)  # the first example compiles the codecs
def test_a_known_key_with_a_value_of_garbage_raises_nothing_else(
    key_class: Any, value_class: Any, random: Random, garbage: bytes
) -> None:
    key = encode_key(generate(key_class, 0, random))
    version = random.choice(value_class.__versions__).to_bytes(2, "big")
    try:
        decode_record(key, version + garbage)
    except ProtocolError:
        pass


def test_kafka_itself_reads_our_records_and_we_write_its_own_as_it_does() -> None:
    random = Random(36)
    ours = [line(*record) for _ in range(EXAMPLES_FOR_JAVA) for record in examples(random)]
    made, again = run_java("GroupRecordProbe.java", "\n".join(ours)).split("\n\n")
    assert again.splitlines() == ours
    assert {hexed(record[:4])[1] for record in made.splitlines()} == set(CLASSES)
    for record in made.splitlines():
        key, value = record.split()
        decoded = decode_record(hexed(key), None if value == "-" else hexed(value))
        assert decoded is not None
        assert line(*decoded) == record


def examples(random: Random) -> list[tuple[GroupKey, GroupValue | None]]:
    """One of each record, and a tombstone; values hold what the version that is written can carry."""
    records = []
    for key_class, value_class in CLASSES.values():
        key = generate(key_class, 0, random)
        version = random.choice(VERSIONS_WRITTEN.get(value_class, (0,)))
        records += [(key, generate(value_class, version, random)), (key, None)]
    return records


def line(key: GroupKey, value: GroupValue | None) -> str:
    return f"{encode_key(key).hex()} {'-' if value is None else encode_value(value).hex()}"
