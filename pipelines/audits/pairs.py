"""Pairs of a topic's record and its copy, as rows: the topic's columns, and the copy's with `copy_` before the name."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.audits.examples import Kinds, first_of_each_kind
from barnabas.pipelines.audits.records import Side

COMPARED = ("partition", "offset", "time_ms", "key_prefix", "key_hash", "value_hash", "headers_hash")


def columns(side: Side, prefix: str) -> DataFrame:
    return side.frame.select(*(F.col(name).alias(f"{prefix}{name}") for name in COMPARED))


def differ(column: str) -> Column:
    return ~F.col(column).eqNullSafe(F.col(f"copy_{column}"))


def of_partition(numbers: dict[int, int], column: str, default: int) -> Column:
    """Returns the number of the partition that the column names."""
    if not numbers:
        return F.lit(default)
    table = F.create_map(*(F.lit(each) for pair in numbers.items() for each in pair))
    return F.coalesce(table[F.col(column)], F.lit(default))


def counted(rows: DataFrame) -> Kinds:
    """Counts `rows` by their `kind`, which is null if nothing differs."""
    shown = rows.filter(F.col("kind").isNotNull()).select(
        "kind",
        F.coalesce("partition", "copy_partition").alias("partition"),
        "offset",
        F.when(F.col("partition") != F.col("copy_partition"), F.col("copy_partition")).alias("copy_partition"),
        "copy_offset",
        F.coalesce("key_prefix", "copy_key_prefix").alias("key"),
    )
    return first_of_each_kind(shown, ["partition", "offset", "copy_offset"])
