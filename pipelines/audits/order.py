"""Checks whether records of a key are in order: by their timestamps, or by a number that they carry."""

from collections.abc import Callable
from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from barnabas.pipelines.audits.examples import Kinds, first_of_each_kind
from barnabas.pipelines.audits.records import Side
from barnabas.pipelines.audits.report import Finding, PartitionFigures, time_text


def timestamps_going_back(side: Side, figures: list[PartitionFigures], tolerance: timedelta) -> list[Finding]:
    """Compares timestamps within a key, or within a partition if the broker set them: keys may well overlap."""
    keyed = side.frame.filter(F.col("key_hash").isNotNull() & ~F.col("broker_time"))
    limit = round(tolerance.total_seconds() * 1000)
    meaning = (
        "A later record of the key has an older timestamp: producers with different clocks, or a detour on the way."
    )
    findings = _going_back(keyed, ["partition", "key_hash"], limit, "timestamps of a key that go back", meaning)
    if any(each.records_with_broker_time for each in figures):
        meaning = "The broker writes these timestamps: its clock was set back."
        brokers = side.frame.filter("broker_time")
        findings += _going_back(brokers, ["partition"], limit, "timestamps of the broker that go back", meaning)
    return findings


def _going_back(rows: DataFrame, group: list[str], limit_ms: int, title: str, meaning: str) -> list[Finding]:
    def worse(before: Column) -> Column:
        return F.when(before - F.col("time_ms") > limit_ms, F.lit("back"))

    found = _compared_with_before(rows, group, "time_ms", worse)
    if "back" not in found:
        return []
    count, examples = found["back"]
    shown = [{**each, "before": time_text(each["before"]), "now": time_text(each["now"])} for each in examples]
    return [Finding("order", title, meaning, count, shown)]


def sequences(side: Side, field: str) -> list[Finding]:
    def kind(before: Column) -> Column:
        number = F.col("sequence")
        return (
            F.when(number == before, F.lit("repeats"))
            .when(number < before, F.lit("back"))
            .when(number > before + 1, F.lit("jump"))
        )

    rows = side.frame.filter(F.col("sequence").isNotNull())
    found = _compared_with_before(rows, ["partition", "key_hash"], "sequence", kind)
    meanings = {
        "repeats": (f"records that repeat the {field} before them", "They were sent again."),
        "back": (f"records whose {field} goes back", "They were overtaken on the way, or sent again later."),
        "jump": (f"records before which a {field} is missing", "Records are lost, or went to another partition."),
    }
    return [
        Finding("order", title, meaning, *found[name]) for name, (title, meaning) in meanings.items() if name in found
    ]


def _compared_with_before(rows: DataFrame, group: list[str], column: str, kind: Callable[[Column], Column]) -> Kinds:
    """Returns by kind how many records differ from the record before them in their group, and the first of them."""
    before = F.lag(column).over(Window.partitionBy(*group).orderBy("offset"))
    rows = rows.withColumn("before", before).withColumn("kind", kind(F.col("before")))
    wrong = rows.filter(F.col("kind").isNotNull()).select(
        "kind", "partition", "offset", F.col("key_prefix").alias("key"), "before", F.col(column).alias("now")
    )
    return first_of_each_kind(wrong, ["partition", "offset"])
