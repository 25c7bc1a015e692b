"""Compares a topic with a copy that has other offsets: the nth record of a content is the nth of it in the copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from barnabas.pipelines.audits.examples import Kinds
from barnabas.pipelines.audits.pairs import columns, counted, differ, of_partition
from barnabas.pipelines.audits.records import Side
from barnabas.pipelines.audits.report import EXAMPLES, Finding

# What makes a pair; the next is tried for what the one before left over.
ROUNDS = (("partition", "whole"), ("partition", "content"), ("content",))


def by_content(source: Side, copy: Side) -> tuple[Kinds, list[Finding]]:
    """Returns what differs, and by how much the offsets do."""
    # Counted from the end where the topic has lost its beginning: the copy may still have it.
    from_end = any(span.start > 0 for span in source.spans.values())
    ours, theirs = _with_content(columns(source, ""), ""), _with_content(columns(copy, "copy_"), "copy_")
    with _kept(_pairs(ours, theirs, ROUNDS[0], from_end)) as whole:
        left = (_only(whole, "", ours.columns), _only(whole, "copy_", theirs.columns))
        with _kept(_pairs(*left, ROUNDS[1], from_end)) as partly:
            left = (_only(partly, "", ours.columns), _only(partly, "copy_", theirs.columns))
            pairs = _both(whole).unionByName(_both(partly))
            shifts = _shifts(pairs)
            rest = _pairs(*left, ROUNDS[2], from_end)
            kinds = counted(_kinds_of_pairs(pairs).unionByName(_kinds_of_rest(rest, shifts)))
    return kinds, _shift_notes(shifts)


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    yield rows.persist()
    rows.unpersist()


def _with_content(rows: DataFrame, prefix: str) -> DataFrame:
    key, value, headers = (F.col(f"{prefix}{name}_hash") for name in ("key", "value", "headers"))
    # A null is stepped over by the hash: the flags keep (null, x) and (x, null) apart.
    content = F.xxhash64(key, value, key.isNull(), value.isNull())
    whole = F.xxhash64(key, value, headers, key.isNull(), value.isNull(), headers.isNull())
    return rows.withColumns({f"{prefix}content": content, f"{prefix}whole": whole})


def _pairs(ours: DataFrame, theirs: DataFrame, by: tuple[str, ...], from_end: bool) -> DataFrame:
    """Returns each record of both sides once: with its counterpart, or with nulls."""

    def numbered(rows: DataFrame, prefix: str) -> DataFrame:
        place, offset = F.col(f"{prefix}partition"), F.col(f"{prefix}offset")
        group = Window.partitionBy(*(f"{prefix}{name}" for name in by))
        order = group.orderBy(place, offset.desc() if from_end else offset)
        return rows.withColumn(f"{prefix}nth", F.row_number().over(order))

    same = [F.col(name) == F.col(f"copy_{name}") for name in (*by, "nth")]
    both = numbered(ours, "").join(numbered(theirs, "copy_"), reduce(lambda a, b: a & b, same), "full_outer")
    return both.drop("nth", "copy_nth")


def _only(pairs: DataFrame, prefix: str, names: list[str]) -> DataFrame:
    other = "copy_" if prefix == "" else ""
    return pairs.filter(F.col(f"{other}offset").isNull()).select(*names)


def _both(pairs: DataFrame) -> DataFrame:
    return pairs.filter(F.col("offset").isNotNull() & F.col("copy_offset").isNotNull())


def _kinds_of_pairs(pairs: DataFrame) -> DataFrame:
    before = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, -1)
    kind = (
        F.when(F.col("copy_offset") < F.max("copy_offset").over(before), "order")
        .when(differ("headers_hash"), "headers")
        .when(differ("time_ms"), "time")
    )
    return pairs.withColumn("kind", kind)


def _kinds_of_rest(rest: DataFrame, shifts: dict[int, Row]) -> DataFrame:
    last = of_partition({number: row["last"] for number, row in shifts.items()}, "partition", -1)
    first = of_partition({number: row["first"] for number, row in shifts.items()}, "copy_partition", 0)
    kind = (
        F.when(F.col("offset").isNotNull() & F.col("copy_offset").isNotNull(), "moved")
        .when(F.col("offset") > last, "behind")
        .when(F.col("offset").isNotNull(), "missing")
        .when(F.col("copy_offset") < first, "older")
        .otherwise("extra")
    )
    return rest.withColumn("kind", kind)


def _shifts(pairs: DataFrame) -> dict[int, Row]:
    """Returns by partition how far the copy's offsets are from the topic's, and where the pairs begin and end."""
    shift = F.col("copy_offset") - F.col("offset")
    found = pairs.groupBy("partition").agg(
        F.max("offset").alias("last"),
        F.min("copy_offset").alias("first"),
        F.min(shift).alias("least"),
        F.max(shift).alias("most"),
        F.count_if(shift != 0).alias("records"),
    )
    return {row["partition"]: row for row in found.orderBy("partition").collect()}


def _shift_notes(shifts: dict[int, Row]) -> list[Finding]:
    shifted = {number: row for number, row in shifts.items() if row["records"]}
    if not shifted:
        return []
    examples: list[dict[str, Any]] = [
        {"partition": number, "records": row["records"], "shifted_by": _span(row["least"], row["most"])}
        for number, row in list(shifted.items())[:EXAMPLES]
    ]
    count = sum(row["records"] for row in shifted.values())
    meaning = "Offsets that consumers committed for the topic do not fit the copy."
    return [Finding("copy", "records with another offset in the copy", meaning, count, examples, is_note=True)]


def _span(least: int, most: int) -> str:
    return f"{least:+}" if least == most else f"{least:+} to {most:+}"
