"""The records of a topic or of an archive, reduced to what checks need: checksums, sizes, a few bytes of the key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.parquet.archive_log import ArchiveLog
from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.explain import innermost
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.folder import folder_of
from barnabas.pipelines.shared.kafka_rows import read_rows

KEY_PREFIX_BYTES = 48
ARCHIVE_COLUMNS = {"key", "value", "headers", "partition", "offset", "timestamp", "timestampType"}


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two sides of a comparison."""

    name: str
    frame: DataFrame
    spans: dict[int, range]
    """The offsets that were checked, by partition."""
    policy: str = "delete"
    topic: str = ""
    settings: Mapping[str, str] | None = None
    """How to reach the topic; None for an archive."""

    @property
    def is_archive(self) -> bool:
        return self.settings is None

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.policy


@dataclass(frozen=True, kw_only=True)
class Range:
    starting: str = "earliest"
    ending: str = "latest"
    since_ms: int | None = None
    until_ms: int | None = None
    spans: Mapping[int, range] | None = None
    """The offsets to check instead, and nothing of partitions that are not named."""


@dataclass(frozen=True, kw_only=True)
class Extras:
    """What a record's value or headers hold for checks beyond Kafka's own fields."""

    id_field: str | None = None
    id_header: str | None = None
    sequence_field: str | None = None


def topic_side(spark: SparkSession, settings: Mapping[str, str], topic: str, part: Range, extras: Extras) -> Side:
    with Cluster(spark, dict(settings)) as cluster:
        found = cluster.topics([topic], configs=False)
        if topic not in found:
            raise Failure(f"{cluster.bootstrap_servers} has no topic {topic}: check its name (`barnabas topics list`)")
        spans = topic_spans(cluster, topic, part)
        policy = cluster.effective_configs([topic], ["cleanup.policy"])[topic].get("cleanup.policy", "delete")
        name = f"{topic} at {cluster.bootstrap_servers}"
    read = {(topic, number): span for number, span in spans.items() if span}
    if read:
        # Retention goes on while we read: what it takes away shows as a gap at the front, not as a crash.
        rows = read_rows(spark, settings, read, fail_on_data_loss=False)
    else:
        rows = spark.createDataFrame([], "key binary, value binary, " + _REST)
    return Side(name=name, frame=_reduced(rows, extras), spans=spans, policy=policy, topic=topic, settings=settings)


_REST = (
    "partition int, offset long, timestamp timestamp, timestampType int, headers array<struct<key:string,value:binary>>"
)


def topic_spans(cluster: Cluster, topic: str, part: Range) -> dict[int, range]:
    begin = _of(cluster.begin_offsets([topic]))
    end = _of(cluster.end_offsets([topic]))
    since, until = begin, end
    if part.since_ms is not None:
        since = _of(cluster.offsets_at([topic], part.since_ms))
    if part.until_ms is not None:
        until = _of(cluster.offsets_at([topic], part.until_ms))
    for number in (*_named(part.starting, topic), *_named(part.ending, topic)):
        if number not in begin:
            raise Failure(f"{topic} has no partition {number}: correct the offsets that you gave")
    there = {number: range(begin[number], end[number]) for number in sorted(begin)}
    return _wanted(there, since, until, topic, part)


def _wanted(
    there: Mapping[int, range], since: Mapping[int, int], until: Mapping[int, int], topic: str, part: Range
) -> dict[int, range]:
    """Returns the offsets of each partition to check: none, if they would end before they begin."""
    if part.spans is not None:
        return {number: _inside(part.spans.get(number, range(0)), span) for number, span in there.items()}
    first, last = {**since, **_named(part.starting, topic)}, {**until, **_named(part.ending, topic)}
    return {
        number: _inside(range(_offset(first[number], span), _offset(last[number], span)), span)
        for number, span in there.items()
    }


def _offset(named: int, there: range) -> int:
    return {-2: there.start, -1: there.stop}.get(named, named)


def _inside(wanted: range, there: range) -> range:
    start = max(wanted.start, there.start)
    return range(start, max(start, min(wanted.stop, there.stop)))


def _of(offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
    return {number: offset for (_, number), offset in offsets.items()}


def _named(text: str, topic: str) -> dict[int, int]:
    if text in ("earliest", "latest"):
        return {}
    offsets = json.loads(text)
    if topic not in offsets:
        raise Failure(f"{text} names no offsets of {topic}: add them")
    return {int(number): offset for number, offset in offsets[topic].items()}


def archive_side(spark: SparkSession, folder: str, topic: str, part: Range, extras: Extras) -> Side:
    """Reads what any reader of Parquet files finds, by the names of folders and nothing else."""
    files = Files(spark, folder)
    path = files.path(f"topic={topic}")
    if not files.exists(path):
        if not _is_archived(files, topic):
            raise Failure(f"{files.root} holds no archive of {topic}: name the --output of the archive job")
        rows = spark.createDataFrame([], "key binary, value binary, " + _REST)
        return Side(name=f"{path} (no records)", frame=_reduced(rows, extras), spans={})
    try:
        rows = spark.read.parquet(path)
    except AnalysisException as error:
        raise Failure(f"{path} holds no archive of {topic}: {innermost(error)}") from error
    if missing := ARCHIVE_COLUMNS - set(rows.columns):
        raise Failure(
            f"{path} is not an archive, it has no column {', '.join(sorted(missing))}: name the --output of the "
            "archive job"
        )
    spans = _archive_spans(rows, topic, part)
    # A partition at a time, because offsets of others say nothing.
    looked_at = [
        (F.col("partition") == number) & F.col("offset").between(span.start, span.stop - 1)
        for number, span in spans.items()
        if span
    ]
    rows = rows.filter(reduce(lambda one, other: one | other, looked_at, F.lit(False)))
    return Side(name=path, frame=_reduced(rows, extras), spans=spans)


def _is_archived(files: Files, topic: str) -> bool:
    """Says whether an archive knows the topic: it has no folder of the topic before the first record."""
    latest = ArchiveLog(folder_of(files)).latest()
    return latest is not None and topic in latest.state.topics


def _archive_spans(rows: DataFrame, topic: str, part: Range) -> dict[int, range]:
    """Turns times into offsets as a broker does: each becomes the offset of the first record that is not older."""
    time_ms, offset = F.unix_millis("timestamp"), F.col("offset")
    after = F.max("offset") + 1
    found = (
        rows.groupBy("partition")
        .agg(
            F.min("offset").alias("first"),
            after.alias("end"),
            F.coalesce(F.min(F.when(time_ms >= F.lit(part.since_ms), offset)), after).alias("since"),
            F.coalesce(F.min(F.when(time_ms >= F.lit(part.until_ms), offset)), after).alias("until"),
        )
        .orderBy("partition")
        .collect()
    )
    there = {row["partition"]: range(row["first"], row["end"]) for row in found}
    since = {row["partition"]: row["first" if part.since_ms is None else "since"] for row in found}
    until = {row["partition"]: row["end" if part.until_ms is None else "until"] for row in found}
    return _wanted(there, since, until, topic, part)


def _reduced(rows: DataFrame, extras: Extras) -> DataFrame:
    """Reduces a record to a few hundred bytes at most, however large it is: these are kept while checks run."""
    headers_bytes = F.aggregate(
        F.col("headers"),
        F.lit(0),
        lambda total, header: total + F.length(header["key"]) + F.coalesce(F.length(header["value"]), F.lit(0)),
    )
    key_bytes, value_bytes = F.coalesce(F.length("key"), F.lit(0)), F.coalesce(F.length("value"), F.lit(0))
    return rows.select(
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("time_ms"),
        (F.col("timestampType") == 1).alias("broker_time"),
        F.substring("key", 1, KEY_PREFIX_BYTES).alias("key_prefix"),
        F.when(F.col("key").isNotNull(), F.xxhash64("key")).alias("key_hash"),
        F.when(F.col("value").isNotNull(), F.xxhash64("value")).alias("value_hash"),
        # As JSON, because the hash of a structure steps over nulls: an empty header would look like none.
        F.when(F.size("headers") > 0, F.xxhash64(F.to_json("headers"))).alias("headers_hash"),
        (key_bytes + value_bytes + F.coalesce(headers_bytes, F.lit(0))).alias("bytes"),
        _identity(extras).alias("id"),
        _sequence(extras).alias("sequence"),
    )


def _identity(extras: Extras) -> Column:
    if extras.id_header is not None:
        name = extras.id_header
        found = F.filter(F.col("headers"), lambda header: header["key"] == name)
        return F.when(F.size(found) > 0, F.get(found, F.lit(0))["value"].cast("string"))
    return _json_field(extras.id_field)


def _sequence(extras: Extras) -> Column:
    text = _json_field(extras.sequence_field)
    return F.when(text.rlike("^-?[0-9]{1,18}$"), text.cast("long"))


def _json_field(dotted: str | None) -> Column:
    if dotted is None:
        return F.lit(None).cast("string")
    steps = "".join(f"['{step}']" for step in dotted.split("."))
    return F.get_json_object(F.col("value").cast("string"), f"${steps}")
