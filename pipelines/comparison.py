"""Which records of the source a target partition already holds, found by comparing contents.

A run that died leaves the first records of its chunk behind it, in order: a producer that is idempotent, waits for all
acknowledgements and is never started twice leaves nothing else. That is not taken on trust: the records are compared.

Frames here have the columns topic, partition, offset, key, value and headers.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

TopicPartition = tuple[str, int]


class Row(NamedTuple):
    offset: int
    fingerprint: int


class Mismatch(Exception):
    """The target holds something else than the source, from this offset of the target on."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(topic, partition, offset)
        self.topic, self.partition, self.offset = topic, partition, offset


def fingerprint() -> Column:
    """Of key, value and headers. The hash passes over nulls, so whether there is one is hashed too."""
    headers = F.transform("headers", lambda header: F.struct(header["key"], header["value"].isNull(), header["value"]))
    return F.xxhash64(F.col("key").isNull(), "key", F.col("value").isNull(), "value", F.size("headers"), headers)


def next_offsets(
    spark: SparkSession, source: DataFrame, target: DataFrame, spans: Mapping[TopicPartition, range]
) -> dict[TopicPartition, int]:
    """The source offset behind the records that the target has, by target partition.

    The target's offsets in a span hold the first records of the source, one by one. Offsets without a record (the
    target was compacted or cut) count all the same.
    """
    known = spark.createDataFrame(
        [(topic, partition, span.start, span.stop) for (topic, partition), span in spans.items()],
        "topic string, partition int, start long, stop long",
    )
    in_order = Window.partitionBy("topic", "partition").orderBy("offset")
    rows = (
        source.select("topic", "partition", "offset", fingerprint().alias("fingerprint"))
        .withColumn("index", F.row_number().over(in_order) - 1)
        .join(F.broadcast(known), ["topic", "partition"])
        .withColumn("number", F.col("start") + F.col("index"))
        .where("number < stop")
    )
    held = target.select("topic", "partition", F.col("offset").alias("number"), fingerprint().alias("held"))
    differs = F.when(F.col("held") != F.col("fingerprint"), F.col("number"))
    found = (
        rows.join(held, ["topic", "partition", "number"], "left")
        .groupBy("topic", "partition")
        .agg(F.count("*").alias("rows"), F.max("offset").alias("last"), F.min(differs).alias("wrong"))
        .collect()
    )
    compared = {(row["topic"], row["partition"]): row for row in found}
    for key, span in spans.items():
        row = compared.get(key)
        if row is None or row["wrong"] is not None or row["rows"] < len(span):
            wrong = (
                span.start if row is None else row["wrong"] if row["wrong"] is not None else span.start + row["rows"]
            )
            raise Mismatch(*key, wrong)
    return {key: row["last"] + 1 for key, row in compared.items()}


def next_offsets_if_compacted(
    source: DataFrame, target: DataFrame, spans: Mapping[TopicPartition, range]
) -> dict[TopicPartition, int | None]:
    """The same for sources that were compacted since; None where nothing is left of the source."""
    rows, held = _collected(source), _collected(target)  # one chunk at most
    found: dict[TopicPartition, int | None] = {}
    for key, span in spans.items():
        if len(held.get(key, ())) < len(span):
            raise Mismatch(*key, span.start)  # holes on both sides: nothing can be concluded
        found[key] = behind_those_held(rows.get(key, ()), held[key])
    return found


def behind_those_held(source: Iterable[Row], target: Iterable[Row]) -> int | None:
    """What is left of the source is a part of what the target got, in the same order.

    So its records are looked for one after the other, and the first that is not found was not written. None if the
    target has them all.
    """
    indexes: dict[int, list[int]] = {}
    for index, record in enumerate(target):
        indexes.setdefault(record.fingerprint, []).append(index)
    reached = 0
    for row in source:
        places = indexes.get(row.fingerprint, [])
        at = bisect_left(places, reached)
        if at == len(places):
            return row.offset
        reached = places[at] + 1
    return None


def _collected(frame: DataFrame) -> dict[TopicPartition, list[Row]]:
    found: dict[TopicPartition, list[Row]] = {}
    for topic, partition, offset, hashed in frame.select("topic", "partition", "offset", fingerprint()).collect():
        found.setdefault((topic, partition), []).append(Row(offset, hashed))
    return {key: sorted(rows) for key, rows in found.items()}
