"""The records of a topic or of an archive, reduced to what checks need: checksums, sizes, a few bytes of the key."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.explain import innermost
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files import Files
from barnabas.pipelines.shared.kafka_rows import read_rows

KEY_PREFIX_BYTES = 48
ARCHIVE_COLUMNS = {"key", "value", "headers", "partition", "offset", "timestamp", "timestampType"}


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two things that may be compared."""

    name: str
    frame: DataFrame
    spans: dict[int, range]
    """By partition: the offsets that were looked at."""
    policy: str = "delete"
    topic: str = ""
    settings: Mapping[str, str] | None = None
    """How to reach the topic; None of an archive."""

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

    @staticmethod
    def of_spans(topic: str, spans: Mapping[int, range]) -> "Range":
        return Range(
            starting=json.dumps({topic: {str(number): span.start for number, span in spans.items()}}),
            ending=json.dumps({topic: {str(number): span.stop for number, span in spans.items()}}),
        )


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
            raise Failure(
                f"{cluster.bootstrap_servers} has no topic {topic}: look at its name again (`barnabas topics list`)"
            )
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
    first, last = dict(begin), dict(end)
    if part.since_ms is not None:
        first = _of(cluster.offsets_at([topic], part.since_ms))
    if part.until_ms is not None:
        last = _of(cluster.offsets_at([topic], part.until_ms))
    for wanted, named in ((first, part.starting), (last, part.ending)):
        for number, offset in _named(named, topic).items():
            if number not in begin:
                raise Failure(f"{topic} has no partition {number}")
            wanted[number] = {-2: begin[number], -1: end[number]}.get(offset, offset)
    return {n: range(max(first[n], begin[n]), max(first[n], begin[n], min(last[n], end[n]))) for n in sorted(begin)}


def _of(offsets: Mapping[tuple[str, int], int]) -> dict[int, int]:
    return {number: offset for (_, number), offset in offsets.items()}


def _named(text: str, topic: str) -> dict[int, int]:
    if text in ("earliest", "latest"):
        return {}
    offsets = json.loads(text)
    if topic not in offsets:
        raise Failure(f"{text} names no offsets of {topic}")
    return {int(number): offset for number, offset in offsets[topic].items()}


def archive_side(spark: SparkSession, folder: str, topic: str, part: Range, extras: Extras) -> Side:
    """What any reader of Parquet files finds, by the names of folders and nothing else."""
    files = Files(spark, folder)
    path = files.path(f"topic={topic}")
    if not files.exists(path):
        raise Failure(f"{files.root} holds no archive of {topic}: name the --output of the archive job")
    try:
        rows = spark.read.parquet(path)
    except AnalysisException as error:
        raise Failure(f"{path} holds no archive of {topic}: {innermost(error)}") from error
    if missing := ARCHIVE_COLUMNS - set(rows.columns):
        raise Failure(f"{path} is not an archive: it has no column {', '.join(sorted(missing))}")
    if part.since_ms is not None:
        rows = rows.filter(F.unix_millis("timestamp") >= part.since_ms)
    if part.until_ms is not None:
        rows = rows.filter(F.unix_millis("timestamp") < part.until_ms)
    for text, starts in ((part.starting, True), (part.ending, False)):
        for number, offset in _named(text, topic).items():
            if offset >= 0:
                inside = F.col("offset") >= offset if starts else F.col("offset") < offset
                rows = rows.filter((F.col("partition") != number) | inside)
    frame = _reduced(rows, extras)
    ends = rows.groupBy("partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
    spans = {row["partition"]: range(row["first"], row["last"] + 1) for row in ends}
    return Side(name=path, frame=frame, spans=dict(sorted(spans.items())))


def _reduced(rows: DataFrame, extras: Extras) -> DataFrame:
    """Some hundred bytes of a record at most, however large it is: this is what is kept while checks run."""
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
