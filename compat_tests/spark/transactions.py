"""Reads of what is committed: ranges that end in markers, ranges of nothing but aborted records, open transactions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.driver import Driver, Record
from compat_tests.harness.groups import eventually
from compat_tests.harness.transactions import Transactional
from compat_tests.spark.session import EARLIEST, NewTopic, Row, Spark, Topic, offsets

COMMITTED = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}

NewProducer = Callable[[Topic], Transactional]


@pytest.fixture
def new_producer(writer: Driver) -> Iterator[NewProducer]:
    """Returns producers that are named after the topic that they write."""
    made: list[Transactional] = []

    def create(topic: Topic) -> Transactional:
        name = f"{topic.name}-{len(made)}"
        made.append(Transactional(writer, name, name))
        return made[-1]

    yield create
    for producer in made:
        producer.drop()


def several(what: str, count: int) -> list[Record]:
    return [Record(value=f"{what} {number}".encode()) for number in range(count)]


def values(rows: list[Row]) -> list[bytes | None]:
    return [row.value for row in rows]


MIXED = {0: [0, 1, 5, 9, 10]}
MIXED_END = 15


@pytest.fixture
def mixed(new_topic: NewTopic, new_producer: NewProducer, writer: Driver) -> Topic:
    """Writes two records and their marker, aborts one, writes one, aborts one, writes two, and aborts two."""
    topic = new_topic()
    producer = new_producer(topic)
    for count, ends in ((2, producer.committed), (1, producer.aborted), (1, producer.committed)):
        ends(topic.name, *several("before", count))
    for count, ends in ((1, producer.aborted), (2, producer.committed), (2, producer.aborted)):
        ends(topic.name, *several("after", count))
    eventually(lambda: topic.offsets()[1] == MIXED_END, "the last marker is written", topic.offsets)
    return topic


def between(topic: Topic, first: int, end: int) -> dict[str, Any]:
    return {"startingOffsets": {topic.name: {"0": first}}, "endingOffsets": {topic.name: {"0": end}}}


def test_only_what_is_committed_is_read(spark: Spark, mixed: Topic) -> None:
    assert offsets(spark.read(subscribe=mixed.name, **COMMITTED)) == MIXED
    aborted = {3, 7, 12, 13}
    assert offsets(spark.read(subscribe=mixed.name, **UNCOMMITTED)) == {0: sorted({*MIXED[0], *aborted})}


@pytest.mark.parametrize(
    ("first", "end", "found"),
    [
        (0, 3, [0, 1]),  # ends behind a marker
        (2, 3, []),  # is nothing but a marker
        (3, 5, []),  # nothing but what was aborted, and its marker
        (3, 4, []),
        (12, 15, []),
        (4, 8, [5]),
        (1, 13, [1, 5, 9, 10]),
    ],
)
def test_ranges_begin_and_end_in_what_is_not_read(
    spark: Spark, mixed: Topic, first: int, end: int, found: list[int]
) -> None:
    for more in ({}, {"minPartitions": 3}):
        rows = spark.read(subscribe=mixed.name, **COMMITTED, **between(mixed, first, end), **more)
        assert sorted(row.offset for row in rows) == found


def test_a_batch_ends_where_a_transaction_is_open(spark: Spark, new_topic: NewTopic, new_producer: NewProducer) -> None:
    topic = new_topic()
    topic.write(2)
    producer = new_producer(topic)
    producer.begin()
    producer.send(topic.name, several("open", 2))
    topic.append(several("behind it", 1))
    assert offsets(spark.read(subscribe=topic.name, **COMMITTED)) == {0: [0, 1]}
    assert offsets(spark.read(subscribe=topic.name, **UNCOMMITTED)) == {0: [0, 1, 2, 3, 4]}
    producer.commit()
    whole = {0: [0, 1, 2, 3, 4]}
    eventually(lambda: offsets(spark.read(subscribe=topic.name, **COMMITTED)) == whole, "all of it is read")


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_a_stream_reads_each_transaction_once_it_is_committed(
    spark: Spark, new_topic: NewTopic, new_producer: NewProducer, tmp_path: Path, fail_on_data_loss: str
) -> None:
    topic = new_topic()
    producer = new_producer(topic)
    settings: dict[str, Any] = {"subscribe": topic.name, **EARLIEST, **COMMITTED, "failOnDataLoss": fail_on_data_loss}
    query = spark.start(tmp_path, **settings)
    producer.committed(topic.name, *several("first", 2))
    assert values(query.wait_for_rows(2).rows) == [b"first 0", b"first 1"]
    producer.aborted(topic.name, *several("aborted", 2))
    producer.begin()
    producer.send(topic.name, several("second", 1))
    topic.append(several("outside", 1))
    producer.commit()
    wanted = [b"first 0", b"first 1", b"second 0", b"outside 0"]
    assert values(query.wait_for_rows(4).rows) == wanted
    query.wait_for_data()  # the last batch is in the checkpoint
    assert query.stop().failure is None
    producer.aborted(topic.name, *several("aborted again", 2))
    producer.committed(topic.name, *several("third", 1))
    again = spark.start(tmp_path, **settings)
    assert values(again.wait_for_rows(1).rows) == [b"third 0"]
