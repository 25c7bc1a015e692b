"""What one topic or archive holds, which offsets it lacks, and what it holds twice."""

from collections import Counter
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from barnabas.pipelines.audits.examples import key_text
from barnabas.pipelines.audits.markers import Markers
from barnabas.pipelines.audits.records import Side
from barnabas.pipelines.audits.report import EXAMPLES, Finding, PartitionFigures, SizeStep


def partitions(side: Side) -> tuple[list[PartitionFigures], list[SizeStep]]:
    """Returns the figures of each partition, and how many records there are of each size."""
    # 0 by itself, then 1, 2 to 3, 4 to 7 …
    step = F.when(F.col("bytes") == 0, -1).otherwise(F.floor(F.log2("bytes"))).cast("int")
    found = side.frame.groupBy("partition", step.alias("step")).agg(
        F.count(F.lit(1)).alias("records"),
        F.sum("bytes").alias("bytes"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.count_if(F.col("key_hash").isNull()).alias("records_without_key"),
        F.count_if(F.col("value_hash").isNull()).alias("tombstones"),
        F.count_if("broker_time").alias("records_with_broker_time"),
    )
    by_number: dict[int, list[Row]] = {number: [] for number in side.spans}
    sizes = Counter[int]()
    for row in found.collect():
        by_number[row["partition"]].append(row)
        sizes[row["step"]] += row["records"]
    figures = [_figures(number, span, by_number[number]) for number, span in side.spans.items()]
    steps = range(min(sizes), max(sizes) + 1) if sizes else range(0)
    return figures, [SizeStep(0 if n == -1 else 2**n, 2 ** (n + 1), sizes[n]) for n in steps]


def _figures(number: int, span: range, rows: list[Row]) -> PartitionFigures:
    def total(name: str) -> int:
        return sum(row[name] for row in rows)

    return PartitionFigures(
        partition=number,
        first_offset=span.start,
        end_offset=span.stop,
        records=total("records"),
        bytes=total("bytes"),
        missing_offsets=max(0, len(span) - total("records")),
        first_ms=min((row["first_ms"] for row in rows), default=None),
        last_ms=max((row["last_ms"] for row in rows), default=None),
        records_without_key=total("records_without_key"),
        tombstones=total("tombstones"),
        records_with_broker_time=total("records_with_broker_time"),
    )


# ---- gaps

LOOKED_AT = 500
"""How many gaps, and batches in them, the broker is asked about: this takes some seconds."""
MARKERS_IN_A_ROW = 10
"""How many transactions may end one after the other, with no record between them."""

LOST = (
    "The topic is not compacted, so each offset should have a record or a transaction's marker. The broker returns "
    "neither: these records are lost, or cannot be read."
)
MARKER = (
    "Each commit or abort of a transaction takes one offset, which no reader sees. If no transaction should write "
    "here, --strict reports this as a finding."
)
NOT_LOOKED_AT = (
    f"Transactions leave such gaps, but there are too many to check them all: only the {LOOKED_AT} longest were. "
    "--strict reports this as a finding."
)
CANNOT_TELL = (
    "Each commit or abort of a transaction takes one offset, and an archive does not tell it from a lost record. If "
    "no transaction writes here, records are missing: --strict reports this as a finding."
)
MANY_IN_A_ROW = (
    f"More than {MARKERS_IN_A_ROW} in a row: these are hardly markers of transactions. They were not archived, or were "
    "removed later, unless the topic was compacted."
)


def gaps(side: Side, figures: list[PartitionFigures], *, strict: bool, committed_only: bool) -> list[Finding]:
    """Reports offsets that no record has. Only partitions that lack some are sorted by offset."""
    numbers = [each.partition for each in figures if each.missing_offsets > 0]
    if not numbers:
        return []
    missing = _missing_ranges(side, numbers).persist()
    try:
        many = F.sum(F.when(F.col("offsets") > MARKERS_IN_A_ROW, F.col("offsets")))
        total = missing.agg(F.sum("offsets").alias("all"), F.coalesce(many, F.lit(0)).alias("many")).collect()[0]
        # The longest first: if something is lost, it is there.
        first = missing.orderBy(F.desc("offsets"), "partition", "from_offset").limit(LOOKED_AT).collect()
    finally:
        missing.unpersist()
    examples = _gap_examples(first)
    legitimate = _why_gaps(side, committed_only)
    if legitimate is not None:
        return [Finding("gaps", "offsets without a record", legitimate, total["all"], examples, is_note=True)]
    if side.settings is None:
        return _archive_gaps(first, total["all"], total["many"], strict=strict)
    with Markers(side.frame.sparkSession, side.settings, side.topic, LOOKED_AT) as markers:
        looked_at = [(gap, markers.count(gap["partition"], _offsets(gap))) for gap in first]
    return _topic_gaps(looked_at, total["all"], strict=strict)


def _missing_ranges(side: Side, numbers: list[int]) -> DataFrame:
    """Returns from_offset, to_offset, offsets; the end of each partition's span stands in for a record after the
    last."""
    ends = side.frame.sparkSession.createDataFrame(
        [(number, side.spans[number].stop) for number in numbers], "partition int, offset long"
    )
    rows = side.frame.filter(F.col("partition").isin(numbers)).select("partition", "offset").union(ends)
    starts = F.create_map(*(F.lit(each) for number in numbers for each in (number, side.spans[number].start - 1)))
    before = F.lag("offset").over(Window.partitionBy("partition").orderBy("offset"))
    rows = rows.withColumn("before", F.coalesce(before, starts[F.col("partition")]))
    first, last = F.col("before") + 1, F.col("offset") - 1
    return rows.filter(last >= first).select(
        "partition",
        first.alias("from_offset"),
        last.alias("to_offset"),
        (last - first + 1).alias("offsets"),
    )


def _gap_examples(gaps: list[Row]) -> list[dict[str, Any]]:
    return [gap.asDict() for gap in sorted(gaps, key=lambda gap: (gap["partition"], gap["from_offset"]))[:EXAMPLES]]


def _offsets(gap: Row) -> range:
    return range(gap["from_offset"], gap["to_offset"] + 1)


def _why_gaps(side: Side, committed_only: bool) -> str | None:
    if side.is_compacted:
        return f"The topic is compacted (cleanup.policy={side.policy}): records that a later one replaced are removed."
    if committed_only:
        return "With isolation.level=read_committed the records of aborted transactions and markers are not shown."
    return None


def _topic_gaps(looked_at: list[tuple[Row, int | None]], total: int, *, strict: bool) -> list[Finding]:
    known = [(gap, count) for gap, count in looked_at if count is not None]
    marked = [gap for gap, count in known if count > 0]
    lost = [gap for gap, count in known if count < gap["offsets"]]
    markers = sum(count for _, count in known)
    missing = sum(gap["offsets"] - count for gap, count in known)
    unknown = total - markers - missing
    findings = []
    if missing:
        findings.append(Finding("gaps", "offsets that are missing", LOST, missing, _gap_examples(lost)))
    if markers:
        findings.append(_maybe_note("offsets of transaction markers", MARKER, markers, marked, strict))
    if unknown:
        rest = [gap for gap, count in looked_at if count is None]
        findings.append(_maybe_note("offsets without a record", NOT_LOOKED_AT, unknown, rest, strict))
    return findings


def _archive_gaps(gaps: list[Row], total: int, many: int, *, strict: bool) -> list[Finding]:
    """Reports gaps of an archive, which does not say what was at an offset: only long gaps cannot be markers."""
    long = [gap for gap in gaps if gap["offsets"] > MARKERS_IN_A_ROW]
    short = [gap for gap in gaps if gap["offsets"] <= MARKERS_IN_A_ROW]
    findings = []
    if many:
        findings.append(Finding("gaps", "offsets that are missing", MANY_IN_A_ROW, many, _gap_examples(long)))
    if total > many:
        findings.append(_maybe_note("offsets without a record", CANNOT_TELL, total - many, short, strict))
    return findings


def _maybe_note(title: str, meaning: str, count: int, gaps: list[Row], strict: bool) -> Finding:
    return Finding("gaps", title, meaning, count, _gap_examples(gaps), is_note=not strict)


# ---- duplicates

REPEATED = (
    "Key, value, headers and timestamp are the same, in the same partition: a producer without idempotence leaves this "
    "when it tries again. --id-field or --id-header tells it from equal events of one millisecond."
)
EQUAL = (
    "Value, headers and timestamp are the same, in the same partition. Events without a key may well be equal within a "
    "millisecond: --id-field or --id-header tells them from records that were sent again."
)


def offsets_twice(side: Side) -> list[Finding]:
    if not side.is_archive:
        return []  # a log has one record at an offset
    meaning = "An archive must hold each offset once: files were copied into it, or written by something else."
    return _repeated(side.frame, ["partition", "offset"], "records at an offset that already has one", meaning)


def duplicates(side: Side, figures: list[PartitionFigures], by_id: str | None) -> list[Finding]:
    if by_id is not None:
        meaning = f"Several records have the same {by_id}: something was sent again."
        known = side.frame.filter(F.col("id").isNotNull())
        return _repeated(known, ["id"], f"records with a {by_id} that an earlier record has", meaning)
    columns = ["partition", "time_ms", "key_hash", "value_hash", "headers_hash"]
    by_producer = side.frame.filter(~F.col("broker_time"))
    keyed = by_producer.filter(F.col("key_hash").isNotNull())
    findings = _repeated(keyed, columns, "records that repeat another", REPEATED)
    if any(each.records_without_key for each in figures):
        keyless = by_producer.filter(F.col("key_hash").isNull())
        title = "records without a key that equal another"
        findings += [replace(each, is_note=True) for each in _repeated(keyless, columns, title, EQUAL)]
    if any(each.records_with_broker_time for each in figures):
        meaning = "A record that is sent again gets a new timestamp from the broker: give --id-field or --id-header."
        title = "duplicates cannot be recognized by the broker's timestamps"
        findings.append(Finding("duplicates", title, meaning, is_note=True))
    return findings


def _repeated(rows: DataFrame, columns: list[str], title: str, meaning: str) -> list[Finding]:
    repeated = (
        rows.groupBy(*columns)
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.first("key_prefix").alias("key"),
            F.min("partition").alias("_partition"),
            F.min("offset").alias("_first"),
            F.max("offset").alias("_last"),
        )
        .filter("records > 1")
        .persist()
    )
    try:
        total = repeated.agg(F.count(F.lit(1)).alias("groups"), F.sum("records").alias("records")).collect()[0]
        if not total["groups"]:
            return []
        first = repeated.orderBy("_partition", "_first", *columns).limit(EXAMPLES).collect()
    finally:
        repeated.unpersist()
    examples = [
        {
            **({"id": row["id"]} if "id" in columns else {}),
            "partition": row["_partition"],
            "first_offset": row["_first"],
            "last_offset": row["_last"],
            "records": row["records"],
            "key": key_text(row["key"]),
        }
        for row in first
    ]
    return [Finding("duplicates", title, meaning, total["records"] - total["groups"], examples)]
