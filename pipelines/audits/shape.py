"""How a topic's records are spread: over sizes, over keys, over time."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.audits.examples import key_text
from barnabas.pipelines.audits.records import Side
from barnabas.pipelines.audits.report import EXAMPLES, Finding, Interval, KeyFigures, PartitionFigures, Report

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INTERVALS_MS = (
    *(n * SECOND_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE_MS for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR_MS for n in (1, 2, 3, 6, 12)),
    *(n * DAY_MS for n in (1, 2, 7, 14, 28, 91, 365)),
)
INTERVALS_MAX = 120
PARTITIONS_MAX = 64
"""How many partitions, the largest, have a row of their own over time; the rest share one."""

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
SPREAD = (
    "Records of one key have an order only within a partition. Partitions were added, or producers choose them "
    "differently: librdkafka and Kafka's Java client do, unless they are configured not to."
)
# Everything but one record in a thousand at each end: one timestamp of 1970 must not flatten the plot.
TIME_ENDS = (0.001, 0.999)


def describe_sizes(side: Side, report: Report) -> tuple[int, int]:
    """Describes sizes, and returns the times between which nearly all records lie."""
    total = side.frame.agg(
        F.min("bytes").alias("min"),
        F.percentile_approx("bytes", list(PERCENTILES.values()), 1000).alias("percentiles"),
        F.max("bytes").alias("max"),
        F.percentile_approx("time_ms", list(TIME_ENDS), 10000).alias("times"),
    ).collect()[0]
    if total["max"] is None:
        return 0, 0
    middle = zip(PERCENTILES, total["percentiles"])
    report.sizes = {"min": total["min"], **dict(middle), "max": total["max"]}
    first, last = total["times"]
    return first, last


def describe_keys(side: Side, report: Report, top: int, *, check: bool) -> None:
    keys = (
        side.frame.filter(F.col("key_hash").isNotNull())
        .groupBy("key_hash")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.sum("bytes").alias("bytes"),
            F.first("key_prefix").alias("key"),
            F.sort_array(F.collect_set("partition")).alias("partitions"),
        )
        .persist()
    )
    try:
        spread = F.size("partitions") > 1
        total = keys.agg(F.count(F.lit(1)).alias("keys"), F.count_if(spread).alias("spread")).collect()[0]
        first = keys.orderBy(F.desc("records"), "key").limit(top).collect()
        examples = keys.filter(spread).orderBy("key").limit(EXAMPLES).collect() if check and total["spread"] else []
    finally:
        keys.unpersist()
    report.keys = total["keys"]
    report.top_keys = [
        KeyFigures(key_text(row["key"]) or "", row["records"], row["bytes"], len(row["partitions"])) for row in first
    ]
    if examples:
        shown = [{"key": key_text(row["key"]), "partitions": _listed(row["partitions"])} for row in examples]
        report.findings.append(Finding("keys", "keys in more than one partition", SPREAD, total["spread"], list(shown)))


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers[:8]) + (", …" if len(numbers) > 8 else "")


def describe_time(side: Side, report: Report, first_ms: int, last_ms: int) -> None:
    report.interval_ms = interval_ms(last_ms - first_ms)
    first, last = first_ms - first_ms % report.interval_ms, last_ms - last_ms % report.interval_ms
    start = F.col("time_ms") - F.pmod(F.col("time_ms"), F.lit(report.interval_ms))
    rows = _by_interval(side.frame, start, _shown(report.partitions)).filter(F.col("start").between(first, last))
    found = rows.orderBy("start", "shown").collect()
    report.intervals = [Interval(row["start"], row["shown"], row["records"], row["bytes"]) for row in found]
    report.outside_intervals = report.records - sum(each.records for each in report.intervals)


def _by_interval(frame: DataFrame, start: Column, shown: list[int]) -> DataFrame:
    partition = F.when(F.col("partition").isin(shown), F.col("partition")).otherwise(-1)
    return frame.groupBy(start.alias("start"), partition.alias("shown")).agg(
        F.count(F.lit(1)).alias("records"), F.sum("bytes").alias("bytes")
    )


def _shown(partitions: list[PartitionFigures]) -> list[int]:
    largest = sorted(partitions, key=lambda each: each.bytes, reverse=True)[:PARTITIONS_MAX]
    return [each.partition for each in largest]


def interval_ms(span_ms: int) -> int:
    """Returns the shortest of the usual lengths that divides the span into few enough pieces to distinguish."""
    for length in INTERVALS_MS:
        if span_ms / length <= INTERVALS_MAX:
            return length
    return -(-span_ms // (INTERVALS_MAX * DAY_MS)) * DAY_MS
