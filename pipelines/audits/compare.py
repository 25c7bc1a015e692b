"""Compares a topic and its copy, record by record."""

from typing import NamedTuple

from pyspark.sql import functions as F

from barnabas.pipelines.audits.content import by_content
from barnabas.pipelines.audits.examples import Kinds
from barnabas.pipelines.audits.pairs import columns, counted, differ, of_partition
from barnabas.pipelines.audits.records import Side
from barnabas.pipelines.audits.report import Finding

BY_OFFSETS = "by offset"
BY_CONTENT = "by key and value (their offsets differ)"


class Kind(NamedTuple):
    title: str
    meaning: str
    is_note: bool = False


KINDS = {
    "missing": Kind("records that are not in the copy", "They were not copied, or were removed from the copy later."),
    "behind": Kind(
        "records at the end that are not in the copy", "The copy is not finished, or nothing writes to it any more."
    ),
    "extra": Kind("records that are only in the copy", "Something else wrote to it, or records were copied twice."),
    "older": Kind(
        "records that are only in the copy", "They are older than all records that the topic still holds.", is_note=True
    ),
    "moved": Kind("records in another partition of the copy", "Their order within their key may have changed."),
    "key": Kind("records with another key in the copy", "They were changed, or are not the same records."),
    "value": Kind("records with another value in the copy", "They were changed, or are not the same records."),
    "headers": Kind("records with other headers in the copy", "Headers were lost, added or changed on the way."),
    "order": Kind("records in another order in the copy", "They come after a record that follows them in the topic."),
    "time": Kind(
        "records with another timestamp in the copy",
        "Spark's Kafka sink cannot set timestamps: a copy that it wrote has the time of copying.",
        is_note=True,
    ),
}


def compare(source: Side, copy: Side, match: str) -> tuple[list[Finding], str]:
    """Returns what differs, and how records were matched: if both ways are possible, the one that finds less is
    right."""
    kinds: Kinds = {}
    matched, notes = BY_OFFSETS, list[Finding]()
    if match != "content":
        kinds = _by_offsets(source, copy)
    if match == "content" or (match == "auto" and _wrong(kinds)):
        others, shifts = by_content(source, copy)
        if match == "content" or _wrong(others) < _wrong(kinds):
            kinds, matched, notes = others, BY_CONTENT, shifts
    found = [
        Finding("copy", kind.title, kind.meaning, *kinds[name], is_note=kind.is_note)
        for name, kind in KINDS.items()
        if name in kinds
    ]
    return [*_partition_counts(source, copy), *found, *notes], matched


def _wrong(kinds: Kinds) -> int:
    return sum(count for name, (count, _) in kinds.items() if not KINDS[name].is_note)


def _partition_counts(source: Side, copy: Side) -> list[Finding]:
    """Compares the numbers of partitions. An archive has only partitions with records: fewer than its topic,
    perhaps."""
    unlike = source.spans.keys() - copy.spans.keys() if source.is_archive else len(source.spans) != len(copy.spans)
    if copy.is_archive or not unlike:
        return []
    title = f"the topic has {len(source.spans)} partitions, the copy {len(copy.spans)}"
    return [Finding("copy", title, "Producers that choose the partition by key put new records elsewhere in the copy.")]


def _by_offsets(source: Side, copy: Side) -> Kinds:
    same = (F.col("partition") == F.col("copy_partition")) & (F.col("offset") == F.col("copy_offset"))
    rows = columns(source, "").join(columns(copy, "copy_"), same, "full_outer")
    ends = {number: span.stop for number, span in copy.spans.items()}
    starts = {number: span.start for number, span in source.spans.items()}
    kind = (
        F.when(F.col("copy_offset").isNull() & (F.col("offset") >= of_partition(ends, "partition", 0)), "behind")
        .when(F.col("copy_offset").isNull(), "missing")
        .when(F.col("copy_offset") < of_partition(starts, "copy_partition", 0), "older")
        .when(F.col("offset").isNull(), "extra")
        .when(differ("key_hash"), "key")
        .when(differ("value_hash"), "value")
        .when(differ("headers_hash"), "headers")
        .when(differ("time_ms"), "time")
    )
    return counted(rows.withColumn("kind", kind))
