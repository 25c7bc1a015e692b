"""Subscriptions and assignments as consumers write them, with kafka-python's codec beside ours."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import metadata as kafka_python

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    decode_version,
    encode_assignment,
    encode_subscription,
)
from tests.protocol.declared import generate

ORDERS = "0006" + b"orders".hex()
OWNED = "00000001" + ORDERS + "00000002" + "00000000" + "00000001"
PARTITIONS = [TopicPartition(topic="orders", partitions=[0, 1])]


def hexed(text: str) -> bytes:
    return bytes.fromhex(text)


@pytest.mark.parametrize(
    ("data", "subscription"),
    [
        ("0000" + "00000001" + ORDERS + "ffffffff", {}),
        ("0000" + "00000001" + ORDERS + "00000000", {"user_data": b""}),  # kafka-python's: empty, not null
        ("0001" + "00000001" + ORDERS + "ffffffff" + OWNED, {"owned_partitions": PARTITIONS}),  # KIP-429
        ("0002" + "00000001" + ORDERS + "ffffffff" + "00000000" + "00000005", {"generation_id": 5}),  # KIP-792
        ("0003" + "00000001" + ORDERS + "ffffffff" + "00000000" + "ffffffff" + "000161", {"rack_id": "a"}),  # KIP-881
    ],
)
def test_a_subscription_of_each_version(data: str, subscription: dict[str, Any]) -> None:
    decoded = ConsumerProtocolSubscription(topics=["orders"], **subscription)
    assert decode_subscription(hexed(data)) == decoded
    assert encode_subscription(decoded, decode_version(hexed(data))).hex() == data


def test_an_assignment() -> None:
    assignment = ConsumerProtocolAssignment(assigned_partitions=PARTITIONS)
    assert encode_assignment(assignment).hex() == "0003" + OWNED + "ffffffff"
    assert encode_assignment(assignment, 0).hex() == "0000" + OWNED + "ffffffff"
    assert decode_assignment(hexed("0001" + OWNED + "ffffffff")) == assignment


@pytest.mark.parametrize("version", [4, 100, 32767])
def test_a_later_version_is_read_as_the_latest_that_is_known(version: int) -> None:
    future = version.to_bytes(2, "big")
    subscription = ConsumerProtocolSubscription(topics=["orders"], rack_id="a")
    assignment = ConsumerProtocolAssignment(assigned_partitions=PARTITIONS, user_data=b"data")
    assert decode_version(future) == 3
    assert decode_subscription(future + encode_subscription(subscription)[2:] + b"more") == subscription
    assert decode_assignment(future + encode_assignment(assignment)[2:] + b"more") == assignment


@pytest.mark.parametrize("decode", [decode_subscription, decode_assignment])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "no version in the 0 bytes"),
        ("00", "no version in the 1 bytes"),
        ("ffff" + "00000000" + "ffffffff", "version -1"),
        ("0000", "truncated"),
        ("0000" + "ffffffff", "no null"),
        ("0000" + "7fffffff", "beyond the end"),
        ("0000" + "00000000" + "00000005" + "61", "beyond the end"),
        ("0004" + "00000001" + ORDERS, "truncated"),  # cut short, whatever its version
    ],
)
def test_what_no_consumer_writes_is_refused(decode: Callable[[bytes], object], data: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(hexed(data))


@given(st.integers(0, 5), st.binary(max_size=60))
def test_garbage_raises_nothing_else(version: int, garbage: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(version.to_bytes(2, "big") + garbage)
        except ProtocolError:
            pass


@pytest.mark.parametrize("version", range(4))
@given(st.randoms(use_true_random=False))
@settings(deadline=None)  # the first example compiles the codecs
def test_kafka_python_reads_what_we_write_and_writes_what_we_read(version: int, random: Random) -> None:
    ours = generate(ConsumerProtocolSubscription, version, random)
    encoded = encode_subscription(ours, version)
    theirs = kafka_python.ConsumerProtocolSubscription.decode(encoded)
    assert (theirs.topics, theirs.user_data) == (list(ours.topics), ours.user_data)
    assert decode_subscription(theirs.encode()) == ours

    assignment = generate(ConsumerProtocolAssignment, version, random)
    given = kafka_python.ConsumerProtocolAssignment.decode(encode_assignment(assignment, version))
    assert given.partitions() == [(each.topic, p) for each in assignment.assigned_partitions for p in each.partitions]
    assert decode_assignment(given.encode()) == assignment
