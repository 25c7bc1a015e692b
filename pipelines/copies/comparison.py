"""Finds the records of the source that a target partition already holds, by comparing contents.

A run that died leaves the first records of its chunk there, in order: a producer that is idempotent, waits for all
acknowledgements and is never started twice leaves nothing else. That is not taken on trust: the records are compared.

Frames here have the columns topic, partition, offset, key, value and headers.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from barnabas.pipelines.shared.kafka_rows import TopicPartition


class Row(NamedTuple):
    offset: int
    fingerprint: int


class Cut(NamedTuple):
    """Source offsets that were being copied, from `next` up to `until`; by now the source begins at `begin`."""

    next: int
    begin: int
    until: int

    @property
    def gone(self) -> int:
        return self.begin - self.next


class Mismatch(Exception):
    """The target holds another record than the source, from this offset of the target on."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(topic, partition, offset)
        self.topic, self.partition, self.offset = topic, partition, offset


class Unclear(Exception):
    """What the target holds fits what is left of the source in more ways than one."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(topic, partition)
        self.topic, self.partition = topic, partition


def fingerprint() -> Column:
    """Hashes key, value and headers. The hash ignores nulls, so whether there is one is hashed too."""
    headers = F.transform(
        F.coalesce("headers", F.expr("array()")),
        lambda header: F.struct(header["key"], header["value"].isNull(), header["value"]),
    )
    return F.xxhash64(F.col("key").isNull(), "key", F.col("value").isNull(), "value", F.size(headers), headers)


def next_offsets(
    source: DataFrame, target: DataFrame, spans: Mapping[TopicPartition, range]
) -> dict[TopicPartition, int]:
    """Returns the source offset after the records that the target has, by target partition.

    The target's offsets in a span hold the first records of the source, one by one. Offsets without a record (the
    target was compacted or cut) count all the same.
    """
    found = {(row["topic"], row["partition"]): row for row in _matched(source, target, spans).collect()}
    for key, span in spans.items():
        row = found.get(key)
        if row is None or row["wrong"] is not None or row["rows"] < len(span):
            index = 0 if row is None else row["rows"] if row["wrong"] is None else row["wrong"]
            raise Mismatch(*key, span.start + index)
    return {key: found[key]["last"] + 1 for key in spans}


def _matched(source: DataFrame, target: DataFrame, spans: Mapping[TopicPartition, range]) -> DataFrame:
    """Returns by topic and partition: how many records of the source were read (rows), the offset of the last (last),
    and the first index at which the target has another one (wrong, or null). All of it after a single shuffle.
    """
    columns = ("topic", "partition", "offset", fingerprint().alias("fingerprint"))
    both = source.select(*columns, F.lit(False).alias("held")).union(target.select(*columns, F.lit(True).alias("held")))
    in_order = Window.partitionBy("topic", "partition", "held").orderBy("offset")
    start = _looked_up({key: span.start for key, span in spans.items()})
    length = _looked_up({key: len(span) for key, span in spans.items()})
    index = F.when(F.col("held"), F.col("offset") - start).otherwise(F.row_number().over(in_order) - 1)
    indexed = both.repartition("topic", "partition").withColumn("index", index).where(F.col("index") < length)
    pairs = indexed.groupBy("topic", "partition", "index").agg(
        F.max(F.when(~F.col("held"), F.col("offset"))).alias("offset"),
        F.max(F.when(~F.col("held"), F.col("fingerprint"))).alias("fingerprint"),
        F.max(F.when(F.col("held"), F.col("fingerprint"))).alias("held"),
    )
    differs = F.when(~F.col("held").eqNullSafe(F.col("fingerprint")) & F.col("held").isNotNull(), F.col("index"))
    return pairs.groupBy("topic", "partition").agg(
        F.count("offset").alias("rows"), F.max("offset").alias("last"), F.min(differs).alias("wrong")
    )


def _looked_up(numbers: Mapping[TopicPartition, int]) -> Column:
    """Returns the number of the row's topic and partition."""
    pairs = (
        (F.lit(f"{topic}-{partition}"), F.lit(number).cast("long")) for (topic, partition), number in numbers.items()
    )
    return F.create_map(*(lit for pair in pairs for lit in pair))[F.concat_ws("-", "topic", "partition")]


def next_offsets_if_compacted(
    source: DataFrame, target: DataFrame, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Returns the same for sources that were compacted since; None where the target has all that is left of the
    source."""
    rows, held = _collected(source), _collected(target)  # a chunk at most
    return {key: after_those_held(rows.get(key, ()), held.get(key, ())) for key in partitions}


def after_those_held(source: Iterable[Row], target: Iterable[Row]) -> int | None:
    """Returns the offset of the first record that the target lacks; None if the target has them all.

    What is left of the source is a part of what the target got, in the same order. So its records are searched for one
    after the other. If the target was compacted too, the record may have been written and removed: then it is
    written again, with all that follow, and each key ends with the same value.
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


def next_offsets_if_cut(
    source: DataFrame, target: DataFrame, spans: Mapping[TopicPartition, range], cuts: Mapping[TopicPartition, Cut]
) -> dict[TopicPartition, int]:
    """Returns the same for sources that have lost their beginning since."""
    rows, held = _collected(source), _collected(target)  # a chunk at most
    found = {}
    for key, span in spans.items():
        there = {row.offset: row.fingerprint for row in held.get(key, ())}
        possible = after_the_cut(rows.get(key, []), [there.get(offset) for offset in span], cuts[key])
        if not possible:
            raise Mismatch(*key, span[min(cuts[key].gone, len(span) - 1)])
        if len(possible) > 1:
            raise Unclear(*key)
        found[key] = possible[0]
    return found


def after_the_cut(left: Sequence[Row], held: Sequence[int | None], cut: Cut) -> list[int]:
    """Returns the source offset to continue with; none if nothing fits, two if there is more than one way.

    The last records that the target holds are the first that are left of the source; those before them are gone. The
    offsets show how many are gone, if each had a record. Transactions take offsets of their own: where what is left
    shows this, it is compared with the target's end. `held` has None for records that the target no longer has.
    """

    def fits(gone: int) -> bool:
        return all(mine is None or mine == row.fingerprint for mine, row in zip(islice(held, gone, None), left))

    is_dense = len(left) == cut.until - cut.begin
    shortest, longest = max(0, len(held) - len(left)), min(len(held) - 1, cut.gone)
    if is_dense and shortest <= cut.gone <= longest and fits(cut.gone):
        ways = [cut.gone]
    elif is_dense and cut.gone > longest:
        ways = []
    else:
        ways = list(islice(filter(fits, range(shortest, longest + 1)), 2))
    if not ways and cut.next + len(held) <= min(cut.begin, cut.until):
        return [cut.next + len(held)]  # all that was written is gone, and perhaps more: as much as is certain
    return [left[len(held) - gone - 1].offset + 1 for gone in ways]


def _collected(frame: DataFrame) -> dict[TopicPartition, list[Row]]:
    found: dict[TopicPartition, list[Row]] = {}
    for topic, partition, offset, hashed in frame.select("topic", "partition", "offset", fingerprint()).collect():
        found.setdefault((topic, partition), []).append(Row(offset, hashed))
    return {key: sorted(rows) for key, rows in found.items()}
