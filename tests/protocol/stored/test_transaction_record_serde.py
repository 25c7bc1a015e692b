"""The records of `__transaction_state`: what is read, what is refused, and the bytes that Kafka writes."""

import pytest

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.stored.transaction_record_serde import decode_record, encode_key, encode_value
from barnabas.protocol.stored.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue

KEY = TransactionLogKey(transactional_id="tx")
KEY_BYTES = "0000" + "0002" + b"tx".hex()
ONGOING = TransactionLogValue(
    producer_id=7,
    producer_epoch=3,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[PartitionsSchema(topic="orders", partition_ids=[2])],
    transaction_last_update_timestamp_ms=9,
    transaction_start_timestamp_ms=8,
    previous_producer_id=6,
    client_transaction_version=2,
)
FIRST_VERSION = (
    "0000" + "0000000000000007" + "0003" + "0000ea60" + "01" + "00000001" + "0006" + b"orders".hex() + "00000001"
    "00000002" + "0000000000000009" + "0000000000000008"
)  # fmt: skip
SECOND_VERSION = (
    "0001" + "0000000000000007" + "0003" + "0000ea60" + "01" + "02" + "07" + b"orders".hex() + "02" + "00000002" + "00"
    + "0000000000000009" + "0000000000000008" + "02" + "00" + "08" + "0000000000000006" + "02" + "02" + "0002"
)  # fmt: skip


def test_a_key_is_its_type_and_its_message() -> None:
    assert encode_key(KEY).hex() == KEY_BYTES


@pytest.mark.parametrize(("version", "expected"), [(0, FIRST_VERSION), (1, SECOND_VERSION)])
def test_a_value_is_written_in_the_version_that_is_asked_for(version: int, expected: str) -> None:
    written = encode_value(ONGOING, version)
    assert written.hex() == expected
    decoded = decode_record(encode_key(KEY), written)
    assert decoded is not None
    assert decoded[1] is not None
    assert decoded[1].producer_id == 7
    assert decoded[1].previous_producer_id == (-1, 6)[version]


def test_tags_that_are_not_known_are_passed_over() -> None:
    """A later Kafka may have added some."""
    cut = SECOND_VERSION.index("02" + "00" + "08" + "0000000000000006")
    with_another = SECOND_VERSION[:cut] + "03" + SECOND_VERSION[cut + 2 :] + "09" + "02" + "abcd"
    assert decode_record(bytes.fromhex(KEY_BYTES), bytes.fromhex(with_another)) == (KEY, ONGOING)


def test_a_tombstone_has_a_key_and_no_value() -> None:
    assert decode_record(bytes.fromhex(KEY_BYTES), None) == (KEY, None)


def test_a_record_of_another_type_is_nothing() -> None:
    assert decode_record(bytes.fromhex("0001" + "ff"), b"") is None


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("00", None, "record of 1 bytes"),
        (KEY_BYTES[:-2], None, "TransactionLogKey v0: truncated"),
        (KEY_BYTES, "", "record of 0 bytes"),
        (KEY_BYTES, "0002" + "00" * 40, "TransactionLogValue of version 2"),
        (KEY_BYTES, FIRST_VERSION[:-2], "TransactionLogValue v0: truncated"),
        (KEY_BYTES, FIRST_VERSION + "00", "1 bytes after the end of TransactionLogValue"),
    ],
)
def test_what_is_no_record_is_refused(key: str, value: str | None, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
