"""Streaming queries: triggers, limits, where they start, restarts from a checkpoint, what is new while they run."""

import json
from pathlib import Path
from typing import Any

import pytest

from compat_tests.harness.driver import Driver
from compat_tests.harness.groups import eventually
from compat_tests.spark.reading import RANGES, TIMES, Range, by_partition, compacted, options_of
from compat_tests.spark.session import EARLIEST, QUERY_SECONDS, NewTopic, Spark, Topic, offsets


def test_what_is_available_is_read_in_batches_and_a_restart_goes_on_behind_it(
    spark: Spark, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    topic.write(6, 0)
    topic.write(3, 1)
    settings: dict[str, Any] = {"subscribe": topic.name, **EARLIEST, "maxOffsetsPerTrigger": 3}
    first = spark.run(tmp_path, **settings)
    # Each partition gives in proportion to what it has.
    assert [offsets(batch) for batch in first.batches] == [
        {0: [0, 1], 1: [0]},
        {0: [2, 3], 1: [1]},
        {0: [4, 5], 1: [2]},
    ]

    source = first.progress[1]["sources"][0]
    assert source["startOffset"] == {topic.name: {"0": 2, "1": 1}}
    assert source["endOffset"] == {topic.name: {"0": 4, "1": 2}}
    assert source["latestOffset"] == {topic.name: {"0": 6, "1": 3}}
    assert source["numInputRows"] == 3
    behind = {name.removesuffix("OffsetsBehindLatest"): value for name, value in source["metrics"].items()}
    assert behind == {"min": "1", "max": "2", "avg": "1.5"}

    assert spark.run(tmp_path, **settings).batches == []
    topic.write(1, 0)
    assert [offsets(batch) for batch in spark.run(tmp_path, **settings).batches] == [{0: [6]}]


def test_once_reads_everything_in_one_batch(spark: Spark, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    topic.write(5)
    state = spark.run(tmp_path, {"once": True}, subscribe=topic.name, maxOffsetsPerTrigger=2, **EARLIEST)
    assert [offsets(batch) for batch in state.batches] == [{0: [0, 1, 2, 3, 4]}]


STARTS = {
    "earliest": RANGES["everything"]._replace(options=EARLIEST),
    "latest": Range({}, {"startingOffsets": "latest"}),
    "offsets": Range({0: [3], 1: [0, 1, 2]}, {"startingOffsets": by_partition(3, -2, -1)}),
    "a time": RANGES["from a time"],
    "times by partition": Range(
        {0: [2, 3], 1: [1, 2]},
        RANGES["from a time"].options,
        {"startingOffsetsByTimestamp": by_partition(15, 6, 0)},
    ),
}


@pytest.mark.parametrize("wanted", STARTS.values(), ids=STARTS)
def test_a_query_starts_where_it_is_told(
    spark: Spark, timed: Topic, now_ms: int, tmp_path: Path, wanted: Range
) -> None:
    rows = spark.run(tmp_path, subscribe=timed.name, **options_of(wanted, now_ms)).rows
    assert offsets(rows) == wanted.expected
    assert all(row.timestamp == now_ms + TIMES[row.partition][row.offset] for row in rows)


def test_a_query_that_starts_at_the_end_reads_what_comes(spark: Spark, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    topic.write(3)
    query = spark.start(tmp_path, subscribe=topic.name)  # latest is the default of streams
    query.wait_for_data()
    topic.write(2)
    assert offsets(query.wait_for_rows(2).rows) == {0: [3, 4]}
    topic.write(1)
    query.wait_for_rows(3)
    query.wait_for_data()  # the last batch is in the checkpoint
    assert query.stop().failure is None
    topic.write(2)
    again = spark.start(tmp_path, subscribe=topic.name)
    assert offsets(again.wait_for_rows(2).rows) == {0: [6, 7]}


def test_new_partitions_and_new_topics_are_read_from_their_beginning(
    spark: Spark, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(1, "-eu")
    topic.write(1)
    query = spark.start(tmp_path, subscribePattern=topic.name.removesuffix("-eu") + "-.*")
    query.wait_for_data()
    topic.grow(2)
    topic.write(2, 1)
    query.wait_for_rows(2)
    another = new_topic(1, "-us")
    another.write(2)
    topic.write(1)
    rows = query.wait_for_rows(5).rows
    expected = [(topic.name, 0, 1), (topic.name, 1, 0), (topic.name, 1, 1), (another.name, 0, 0), (another.name, 0, 1)]
    assert sorted((row.topic, row.partition, row.offset) for row in rows) == expected


def test_a_batch_waits_until_enough_has_come(spark: Spark, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    topic.write(1)
    settings: dict[str, Any] = {"subscribe": topic.name, "minOffsetsPerTrigger": 4, **EARLIEST}
    patient = spark.start(tmp_path / "patient", maxTriggerDelay="15m", **settings)
    patient.wait_for_rows(1)  # the first batch does not wait
    topic.write(3)
    hasty = spark.start(tmp_path / "hasty", maxTriggerDelay="500ms", **settings)
    assert [offsets(batch) for batch in hasty.wait_for_rows(4).batches] == [{0: [0, 1, 2, 3]}]
    patient.wait_for_data()
    assert offsets(patient.state().rows) == {0: [0]}
    topic.write(1)
    assert [offsets(batch) for batch in patient.wait_for_rows(5).batches] == [{0: [0]}, {0: [1, 2, 3, 4]}]
    hasty.wait_for_rows(5)  # one is not enough, but has waited long enough


def test_a_compacted_topic_is_streamed_across_its_holes(
    spark: Spark, new_topic: NewTopic, now_ms: int, tmp_path: Path
) -> None:
    topic = compacted(new_topic, now_ms)
    state = spark.run(tmp_path, subscribe=topic.name, maxOffsetsPerTrigger=2, **EARLIEST)
    assert [offsets(batch) for batch in state.batches] == [{0: [0]}, {0: [2]}, {0: [4, 5]}, {0: [6, 7]}]


def test_a_continuous_query_copies_records_as_they_come(spark: Spark, new_topic: NewTopic, tmp_path: Path) -> None:
    topic, copy = new_topic(2), new_topic(1, "-copy")
    topic.write(2, 0)
    every = {"continuous": "100 milliseconds"}
    sink = {"topic": copy.name}
    query = spark.start(tmp_path, every, ("value",), sink, subscribe=topic.name, **EARLIEST)
    eventually(lambda: copy.offsets() == (0, 2), "two records are copied", query.state, seconds=QUERY_SECONDS)
    topic.write(1, 1)
    eventually(lambda: copy.offsets() == (0, 3), "three records are copied", query.state, seconds=QUERY_SECONDS)
    copied = {topic.name: {"0": 2, "1": 1}}
    query.wait_until(lambda state: committed(tmp_path) == copied, "an epoch ends behind them")
    assert query.stop().failure is None

    topic.write(1, 0)
    spark.start(tmp_path, every, ("value",), sink, subscribe=topic.name)
    assert copy.values(4) == [b"0", b"1", b"0", b"2"]


def committed(checkpoint: Path) -> Any:
    """Returns how far a continuous query is: it reports no progress, but its checkpoint says."""
    epochs = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    return json.loads((checkpoint / "offsets" / str(max(epochs))).read_text().splitlines()[-1]) if epochs else None


GROUPS = {
    "of its own": ({"kafka.group.id": "spark-itself"}, "spark-itself"),
    "by a prefix": ({"groupIdPrefix": "spark-prefix"}, "spark-prefix"),
    "by default": ({}, "spark-kafka-source"),
}


@pytest.mark.parametrize(("options", "name"), GROUPS.values(), ids=GROUPS)
def test_a_consumer_on_the_driver_is_the_only_member_of_its_group(
    by_consumer: Spark, writer: Driver, new_topic: NewTopic, tmp_path: Path, options: dict[str, Any], name: str
) -> None:
    topic = new_topic(2)
    topic.write(2, 1)
    query = by_consumer.start(tmp_path, subscribe=topic.name, **EARLIEST, **options)
    assert offsets(query.wait_for_rows(2).rows) == {1: [0, 1]}
    (group,) = [one["group"] for one in writer.ask("list_groups")["groups"] if one["group"].startswith(name)]
    described = writer.ask("describe_group", group=group)
    assert described["state"] == "Stable"
    assert [sorted(member["assignment"]) for member in described["members"]] == [[[topic.name, 0], [topic.name, 1]]]

    topic.write(1, 0)
    query.wait_for_rows(3)
    query.stop()
    assert writer.ask("group_offsets", group=group)["offsets"] == []  # Spark commits nothing
    eventually(lambda: writer.ask("describe_group", group=group)["state"] in ("Empty", "Dead"), "it has left")


def test_a_consumer_on_the_driver_finds_new_partitions(by_consumer: Spark, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    options: dict[str, Any] = {"subscribe": topic.name, "kafka.metadata.max.age.ms": 100}
    query = by_consumer.start(tmp_path, **options)
    query.wait_for_data()
    topic.grow(2)
    topic.write(2, 1)
    topic.write(1, 0)
    assert offsets(query.wait_for_rows(3).rows) == {0: [0], 1: [0, 1]}


def test_no_group_is_made_without_it(spark: Spark, writer: Driver, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()
    topic.write(1)
    options: dict[str, Any] = {"subscribe": topic.name, **EARLIEST, "kafka.group.id": "nobody"}
    query = spark.start(tmp_path, **options)
    query.wait_for_rows(1)
    assert "nobody" not in [group["group"] for group in writer.ask("list_groups")["groups"]]
