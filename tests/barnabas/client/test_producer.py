"""The partitioner and the batches; sending is tested with a broker in test_commands.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.client import Client
from barnabas.client.cluster import Partition, Topic
from barnabas.client.producer import BATCH_BYTES_MAX, Producer, murmur2, partition_of_key
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records import NewRecord
from barnabas.protocol.types import ZERO_UUID


@pytest.mark.parametrize(
    ("key", "java_hash", "partition_of_7"),
    [  # from Utils.murmur2 and Utils.toPositive of Kafka's Java client
        (b"", 275646681, 2),
        (b"a", -1563381124, 5),  # tails of one, two and three bytes
        (b"ab", 316155434, 0),
        (b"abc", 479470107, 4),
        (b"abcd", -1323649548, 5),
        (b"abcde", 461995741, 4),
        (b"orders", -1029842276, 1),
        (b"customer-7", -1283830537, 6),
        (b"21", -973932308, 3),
        (b"foobar", -790332482, 0),
        (b"a-little-bit-long-string", -985981536, 1),
        (b"a-little-bit-longer-string", -1486304829, 0),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 3),
        ("éè中".encode(), -336972031, 5),
        (b"\xff\xfe\x80\x00\x7f", -1602569320, 0),  # bytes are signed in Java
    ],
)
def test_a_key_goes_where_the_java_client_sends_it(key: bytes, java_hash: int, partition_of_7: int) -> None:
    assert murmur2(key) == java_hash % 2**32
    assert partition_of_key(key, 7) == partition_of_7


@given(st.binary(max_size=100), st.integers(min_value=1, max_value=10_000))
def test_every_key_has_a_partition(key: bytes, num_partitions: int) -> None:
    assert 0 <= partition_of_key(key, num_partitions) < num_partitions


def producer(partitions: int = 3, partition: int | None = None) -> Producer:
    """One that is not connected to anything."""
    led = tuple(Partition(index, 1, 0, (1,), (1,), (), ErrorCode.NONE) for index in range(partitions))
    return Producer(Client([]), Topic("orders", ZERO_UUID, False, led), partition=partition)


def test_records_without_a_key_take_turns() -> None:
    queues = producer()._batches([NewRecord(None, b"x")] * 9)
    assert {index: len(batches[0].records) for index, batches in queues.items()} == {0: 3, 1: 3, 2: 3}


def test_a_chosen_partition_wins_over_the_key() -> None:
    queues = producer(partition=2)._batches([NewRecord(b"a", b"x"), NewRecord(None, b"y")])
    assert list(queues) == [2]


def test_a_batch_is_closed_before_it_grows_too_large() -> None:
    records = [NewRecord(b"k", b"x" * (BATCH_BYTES_MAX // 3))] * 5
    (batches,) = producer()._batches(records).values()
    assert [len(batch.records) for batch in batches] == [2, 2, 1]


def test_a_record_larger_than_a_batch_travels_alone() -> None:
    records = [NewRecord(b"k", b"x"), NewRecord(b"k", b"x" * BATCH_BYTES_MAX), NewRecord(b"k", b"y")]
    (batches,) = producer()._batches(records).values()
    assert [len(batch.records) for batch in batches] == [1, 1, 1]
