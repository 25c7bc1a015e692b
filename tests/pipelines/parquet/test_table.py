"""A topic as a table with real Spark and a real broker."""

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines import table
from barnabas.pipelines.shared.failure import Failure
from tests.pipelines.records import Record, create_topic, delete_topic, produce, read
from tests.pipelines.running import running
from tests.processes.broker_process import BrokerProcess

NOON_MS = 1_763_294_400_000  # 2025-11-16T12:00:00Z
FOREVER = "-1"  # retention.ms of topics with such old records


class Job:
    def __init__(self, spark: SparkSession, broker: BrokerProcess, output: Path, topic: str) -> None:
        self.spark = spark
        self.output = output
        self.words = ("--bootstrap-servers", broker.bootstrap_servers, "--output", str(output), "--topic", topic)

    def once(self, *words: str) -> int:
        return table.run(self.spark, table.make_parser().parse_args([*self.words, "--once", *words]))

    def rows(self) -> set[Record]:
        """What a reader sees that asks once which version is current."""
        rows = parquet.read_table(os.path.realpath(self.output / "current")).to_pylist()
        found = {as_record(row) for row in rows}
        assert len(found) == len(rows), "a key is there twice"
        return found


def as_record(row: dict[str, Any]) -> Record:
    headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    timestamp_ms = round(row["timestamp"].timestamp() * 1000)
    return Record(row["key"], row["value"], headers, timestamp_ms, row["partition"], row["offset"])


def latest_of(records: list[Record]) -> set[Record]:
    """In plain Python."""
    latest = {record.key: record for record in records}
    return {record for record in latest.values() if record.key is not None and record.value is not None}


def random_records(seed: int, count: int) -> list[Record]:
    """A key is always in the same partition; timestamps go back and forth."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        number = chance.randrange(10)
        key = {0: None, 1: b""}.get(number, b"key-%d" % number)
        value = chance.choice([None, b"", b"value-%d" % chance.randrange(1000)])
        headers = chance.choice([(), (("h", b"1"), ("h", None))])
        made.append(Record(key, value, headers, NOON_MS + chance.randrange(10**6), number % 2))
    return made


def test_the_table_holds_the_latest_record_of_each_key(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2, retention_ms=FOREVER)
    job = Job(spark, broker, tmp_path / "table", topic)
    for seed in range(3):
        produce(broker.bootstrap_servers, topic, random_records(seed, 30))
        assert job.once() == 0
        assert job.rows() == latest_of(read(broker.bootstrap_servers, topic)), f"seed {seed}"
    versions = sorted((tmp_path / "table" / "versions").iterdir())

    # Nothing new makes no new version; a dry run makes nothing at all.
    assert job.once() == 0
    assert job.once("--dry-run") == 0
    assert sorted((tmp_path / "table" / "versions").iterdir()) == versions
    assert len(versions) == 3

    other = new_topic(1)
    with pytest.raises(Failure, match=f"is the table of topic {topic}"):
        Job(spark, broker, tmp_path / "table", other).once()
    delete_topic(broker.bootstrap_servers, topic)
    create_topic(broker.bootstrap_servers, topic, 2)
    with pytest.raises(Failure, match="deleted and created again"):
        job.once()


def test_a_reader_sees_whole_versions_while_they_follow_each_other(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(1, retention_ms=FOREVER)
    job = Job(spark, broker, tmp_path / "table", topic)
    produced: list[Record] = []
    states: dict[frozenset[Record], int] = {}
    """The table behind each record of the topic, and how many rounds it has seen."""

    def rounds_seen() -> int:
        state = frozenset(job.rows()) if (tmp_path / "table" / "current").exists() else frozenset()
        assert state in states or not state, "a state that the topic never had"
        return states.get(state, 0)

    def has_seen(rounds: int) -> bool:
        return rounds_seen() == rounds

    with running(spark, table, *job.words, "--every", "10ms", "--keep", "2") as under_way:
        for number in range(1, 5):
            values = {
                b"a": b"%d" % number,
                b"b": b"%d" % number,
                b"gone-%d" % (number - 1): None,
                b"gone-%d" % number: b"",
            }
            for offset, (key, value) in enumerate(values.items(), start=len(produced)):
                produced.append(Record(key, value, (), NOON_MS + number, 0, offset))
                states[frozenset(latest_of(produced))] = number
            produce(broker.bootstrap_servers, topic, produced[-len(values) :])
            under_way.until(partial(has_seen, number))


def test_a_key_in_two_partitions_has_its_value_from_the_later_timestamp(
    spark: SparkSession, broker: BrokerProcess, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = new_topic(2, retention_ms=FOREVER)
    job = Job(spark, broker, tmp_path / "table", topic)
    produce(
        broker.bootstrap_servers,
        topic,
        [
            Record(b"moved", b"old", (), NOON_MS + 1, 0),
            Record(b"moved", b"older, but behind it", (), NOON_MS, 0),
            Record(b"moved", b"new", (), NOON_MS + 2, 1),
            Record(b"removed", b"old", (), NOON_MS, 0),
            Record(b"removed", None, (), NOON_MS + 1, 1),
        ],
    )
    assert job.once() == 0
    assert {row.key: row.value for row in job.rows()} == {b"moved": b"new"}
