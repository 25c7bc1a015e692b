"""Batch reads: which topics and partitions, from where to where, by how many tasks, and every field of a record."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from compat_tests.harness.driver import Driver, DriverError, Record
from compat_tests.harness.groups import eventually
from compat_tests.spark.session import QUERY_SECONDS, NewTopic, Row, Spark, Topic, offsets

RECORDS = (
    Record(key=b"key", value=b"value", headers=(("name", b"text"),)),
    Record(key=None, value=b"no key"),
    Record(key=b"tombstone", value=None),
    Record(key=b"", value=b""),  # not the same as nothing
    Record(key=b"\xff\xfe", value=bytes(range(256)), headers=(("twice", b"1"), ("twice", b"2"), ("empty", b""))),
    Record(key=b"null header", value=b"v", headers=(("nothing", None), ("größe", b"\xff"))),
)


def test_every_field_of_a_record_is_read(spark: Spark, new_topic: NewTopic, now_ms: int) -> None:
    topic = new_topic()
    records = [record._replace(timestamp=now_ms + index) for index, record in enumerate(RECORDS)]
    topic.append(records)
    expected = [
        Row(topic.name, 0, offset, now_ms + offset, 0, record.key, record.value, list(record.headers) or None)
        for offset, record in enumerate(records)
    ]
    assert spark.read(subscribe=topic.name, includeHeaders=True) == expected
    assert spark.read(subscribe=topic.name) == [row._replace(headers=None) for row in expected]


def test_the_time_of_an_append_is_the_brokers(spark: Spark, new_topic: NewTopic, now_ms: int) -> None:
    topic = new_topic(**{"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    topic.write(1, timestamps=[now_ms])
    (row,) = spark.read(subscribe=topic.name)
    assert row.type == 1
    assert before <= row.timestamp <= time.time() * 1000


class Subscribed(NamedTuple):
    options: dict[str, Any]
    topics: dict[str, list[int]]  # the partitions that are read, by topic


SUBSCRIPTIONS = {
    "one topic": Subscribed({"subscribe": "shop-eu"}, {"shop-eu": [0, 1]}),
    "several topics": Subscribed({"subscribe": "shop-eu, shop-us"}, {"shop-eu": [0, 1], "shop-us": [0, 1]}),
    "a pattern": Subscribed({"subscribePattern": "shop-.s"}, {"shop-us": [0, 1]}),
    "a part of a name": Subscribed({"subscribePattern": "^shop"}, {"shop-eu": [0, 1], "shop-us": [0, 1]}),
    "a pattern that nothing matches": Subscribed({"subscribePattern": "shop-..."}, {}),
    "partitions": Subscribed({"assign": {"shop-eu": [1], "shop-us": [0]}}, {"shop-eu": [1], "shop-us": [0]}),
    "a partition that is not there": Subscribed({"assign": {"shop-eu": [0, 7]}}, {"shop-eu": [0]}),
}


@pytest.fixture(scope="module")
def shops(writer: Driver) -> None:
    for name in ("shop-eu", "shop-us"):
        topic = Topic(writer, name, partitions=2)
        topic.write(2, 0)
        topic.write(2, 1)


@pytest.mark.usefixtures("shops")
@pytest.mark.parametrize("subscribed", SUBSCRIPTIONS.values(), ids=SUBSCRIPTIONS)
def test_topics_are_subscribed_and_assigned(spark: Spark, subscribed: Subscribed) -> None:
    rows = spark.read(**subscribed.options)
    expected = [(t, p, o) for t, partitions in subscribed.topics.items() for p in partitions for o in (0, 1)]
    assert sorted((row.topic, row.partition, row.offset) for row in rows) == expected
    assert all(row.value == b"%d" % row.offset for row in rows)


# Milliseconds after `now_ms`, by partition; the last partition stays empty.
TIMES = ((0, 10, 20, 30), (5, 50, 15), ())


@pytest.fixture(scope="module")
def timed(writer: Driver, now_ms: int) -> Topic:
    topic = Topic(writer, "timed", partitions=len(TIMES))
    for partition, times in enumerate(TIMES):
        if times:
            topic.write(len(times), partition, timestamps=[now_ms + after for after in times])
    return topic


def by_partition(*values: int) -> dict[str, dict[str, int]]:
    return {"timed": {str(partition): value for partition, value in enumerate(values)}}


class Range(NamedTuple):
    expected: dict[int, list[int]]
    options: dict[str, Any]
    times: dict[str, Any] | None = None  # more options, whose values are milliseconds after `now_ms`


LATEST_IF_NONE = {"startingOffsetsByTimestampStrategy": "latest"}
RANGES = {
    "everything": Range({0: [0, 1, 2, 3], 1: [0, 1, 2]}, {"startingOffsets": "earliest", "endingOffsets": "latest"}),
    "between offsets": Range(
        {0: [1, 2], 1: [0]}, {"startingOffsets": by_partition(1, 0, 0), "endingOffsets": by_partition(3, 1, 0)}
    ),
    "between the ends": Range(
        {0: [2, 3], 1: [0, 1, 2]},
        {"startingOffsets": by_partition(2, -2, -2), "endingOffsets": by_partition(4, -1, -1)},
    ),
    "nothing": Range({}, {"startingOffsets": by_partition(4, 3, 0), "endingOffsets": by_partition(4, 3, 0)}),
    "from a time": Range({0: [1, 2, 3], 1: [1, 2]}, LATEST_IF_NONE, {"startingTimestamp": 10}),
    "from between two times": Range({0: [2, 3], 1: [1, 2]}, LATEST_IF_NONE, {"startingTimestamp": 11}),
    "from after the last of a partition": Range({1: [1, 2]}, LATEST_IF_NONE, {"startingTimestamp": 31}),
    "to a time": Range({0: [0, 1], 1: [0]}, {}, {"endingTimestamp": 20}),  # the first that is as late ends a partition
    "to after the last": Range({0: [0, 1, 2, 3], 1: [0, 1, 2]}, {}, {"endingTimestamp": 1000}),
    "to before the first": Range({}, {}, {"endingTimestamp": -1}),
    "times by partition": Range(
        {0: [2], 1: [1, 2]},
        LATEST_IF_NONE,
        {"startingOffsetsByTimestamp": by_partition(15, 6, 0), "endingOffsetsByTimestamp": by_partition(25, 51, 0)},
    ),
}


def options_of(wanted: Range, now_ms: int) -> dict[str, Any]:
    def moment(value: Any) -> Any:
        return {key: moment(v) for key, v in value.items()} if isinstance(value, dict) else now_ms + value

    return wanted.options | {name: moment(value) for name, value in (wanted.times or {}).items()}


@pytest.mark.parametrize("wanted", RANGES.values(), ids=RANGES)
def test_a_batch_reads_from_where_to_where_it_is_told(spark: Spark, timed: Topic, now_ms: int, wanted: Range) -> None:
    rows = spark.read(subscribe=timed.name, **options_of(wanted, now_ms))
    assert offsets(rows) == wanted.expected
    assert all(row.timestamp == now_ms + TIMES[row.partition][row.offset] for row in rows)


def test_a_start_after_the_last_record_is_an_error_unless_told_otherwise(
    spark: Spark, timed: Topic, now_ms: int
) -> None:
    late = now_ms + 31
    message = f"No offset matched from request of topic-partition timed-[02] and timestamp {late}"
    with pytest.raises(DriverError, match=message):
        spark.read(subscribe=timed.name, startingTimestamp=late)


def test_committed_and_uncommitted_reads_are_the_same_without_transactions(spark: Spark, timed: Topic) -> None:
    for level in ("read_committed", "read_uncommitted"):
        rows = spark.read(subscribe=timed.name, **{"kafka.isolation.level": level})
        assert offsets(rows) == RANGES["everything"].expected


SPLITS = {
    "by default": ({}, [[0, 10], [0, 2]]),
    "min partitions": ({"minPartitions": 4}, [[0, 3], [3, 6], [6, 10], [0, 2]]),
    "max records": ({"maxRecordsPerPartition": 5}, [[0, 5], [5, 10], [0, 2]]),
}


@pytest.mark.parametrize(("options", "ranges"), SPLITS.values(), ids=SPLITS)
def test_large_partitions_are_split_among_tasks(
    spark: Spark, new_topic: NewTopic, options: dict[str, Any], ranges: list[list[int]]
) -> None:
    if "maxRecordsPerPartition" in options and spark.version < "4":
        ranges = SPLITS["by default"][1]  # the option came with Spark 4
    topic = new_topic(2)
    topic.write(10, 0)
    topic.write(2, 1)
    to = {topic.name: {"0": 10, "1": 2}}
    tasks = spark.tasks(
        subscribe=topic.name, endingOffsets=to, startingOffsets={topic.name: {"0": 0, "1": 0}}, **options
    )
    assert sorted([row.offset for row in task] for task in tasks) == sorted(list(range(*one)) for one in ranges)


def test_a_topic_that_is_not_there_is_an_error_and_stays_away(spark: Spark, writer: Driver) -> None:
    message = "UnknownTopicOrPartitionException: This server does not host this topic-partition"
    with pytest.raises(DriverError, match=message):
        spark.read(subscribe="nowhere")
    assert "nowhere" not in writer.ask("list_topics")["topics"]


def test_a_compacted_topic_is_read_across_its_holes(spark: Spark, new_topic: NewTopic, now_ms: int) -> None:
    topic = compacted(new_topic, now_ms)
    assert offsets(spark.read(subscribe=topic.name)) == {0: [0, 2, 4, 5, 6, 7]}

    def between(first: int, end: int, **options: Any) -> list[list[int]]:
        limits = {"startingOffsets": {topic.name: {"0": first}}, "endingOffsets": {topic.name: {"0": end}}}
        return [[row.offset for row in task] for task in spark.tasks(subscribe=topic.name, **limits, **options)]

    assert between(1, 4) == [[2]]  # begins and ends in a hole
    assert between(3, 4) == []  # is one
    assert between(0, 8, minPartitions=4) == [[0], [2], [4, 5], [6, 7]]


def compacted(new_topic: NewTopic, now_ms: int) -> Topic:
    """Writes a compacted topic. Offsets 1 and 3 are gone: key a was written again. The last record closed the
    segment."""
    settings = {"cleanup.policy": "compact", "segment.ms": 60_000, "min.cleanable.dirty.ratio": "0.01"}
    topic = new_topic(**settings)
    for after_ms, keys in ((0, "xayazaw"), (120_000, "q")):
        topic.append([Record(key=key.encode(), value=b"v", timestamp=now_ms + after_ms) for key in keys])
    eventually(lambda: topic.read(6)[-1].offset == 7, "the topic is compacted", seconds=QUERY_SECONDS)
    return topic


@pytest.fixture
def by_consumer(spark: Spark) -> Iterator[Spark]:
    """Starts a session that learns topics and offsets in Spark's older way: a consumer on the driver, in a group."""
    setting = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.configure(**{setting: "true"})
    yield spark
    spark.configure(**{setting: None})


@pytest.mark.usefixtures("shops")
@pytest.mark.parametrize("case", ["several topics", "a pattern", "partitions"])
def test_a_consumer_on_the_driver_finds_the_same_topics(by_consumer: Spark, case: str) -> None:
    test_topics_are_subscribed_and_assigned(by_consumer, SUBSCRIPTIONS[case])


@pytest.mark.parametrize("case", ["between the ends", "times by partition"])
def test_a_consumer_on_the_driver_finds_the_same_offsets(
    by_consumer: Spark, timed: Topic, now_ms: int, case: str
) -> None:
    test_a_batch_reads_from_where_to_where_it_is_told(by_consumer, timed, now_ms, RANGES[case])


def test_a_consumer_on_the_driver_creates_the_topic_it_subscribes(by_consumer: Spark, writer: Driver) -> None:
    assert by_consumer.read(subscribe="subscribed-first") == []
    assert writer.ask("describe_topic", topic="subscribed-first") == {"partitions": 1}
