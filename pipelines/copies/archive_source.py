"""Archived records as the exact writer sees them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.copies.copying import Chunk
from barnabas.pipelines.copies.ordered_sink import with_timestamp_header
from barnabas.pipelines.copies.restore_options import Part
from barnabas.pipelines.parquet.archive_log import ArchivedFile
from barnabas.pipelines.shared.explain import SPARK_ERRORS, explain
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.kafka_rows import TopicPartition
from barnabas.pipelines.shared.progress import plural

SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>,"
    " partition int, offset bigint, timestamp timestamp"
)

# More tasks than partitions: where two partitions meet in one task, another one stands idle.
TASKS_PER_PARTITION = 4


class Chosen(NamedTuple):
    """What a restore writes to one partition."""

    first_offset: int
    last_offset: int
    records: int


class ArchiveSource:
    """The chosen files of an archive. They never change, but whole days of them may have been removed."""

    def __init__(
        self,
        spark: SparkSession,
        archive: Folder,
        files: Sequence[ArchivedFile],
        part: Part,
        topic: str,
        *,
        timestamp_header: str | None,
    ) -> None:
        """Takes the target's name as `topic`."""
        self.spark = spark
        self.archive = archive
        self.files = [file for file in files if part.may_hold(file.path)]
        self.part = part
        self.topic = topic
        self.timestamp_header = timestamp_header
        self.spans = {partition: part.offsets(partition, span) for partition, span in _archived(self.files).items()}

    def leave_out_missing(self, *, fail: bool) -> int:
        """Leaves out files that were removed with whole days, and returns how many records they had."""
        chosen = [file for file in self.files if _overlap(file, self.spans[file.partition])]
        missing = {file.path: file.records for file in chosen if not self.archive.exists(file.path)}
        if missing and fail:
            raise Failure(
                f"the archive lacks {plural(len(missing), 'file')}, the first is {next(iter(missing))}: choose a part"
                " without them (--from-offset, --from-time), or restore what is left with --fail-on-data-loss false;"
                " if the archive job died, run it again first: it moves what it had committed"
            )
        self.files = [file for file in chosen if file.path not in missing]
        return sum(missing.values())

    def rows(self, chunk: Chunk) -> DataFrame:
        spans = {partition: span for (_, partition), span in chunk.items()}
        rows = self._records(spans, self.files).withColumn("topic", F.lit(self.topic))
        if self.timestamp_header is not None:
            rows = with_timestamp_header(rows, self.timestamp_header)
        # One task for each partition, in order: files hold one partition each, but Spark reads them in no order.
        return (
            rows.repartition(TASKS_PER_PARTITION * len(spans), "partition")
            .sortWithinPartitions("partition", "offset")
            .select("topic", "partition", "offset", "key", "value", "headers")
        )

    def begin_offsets(self, targets: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(targets, 0)

    def is_compacted(self, topic: str) -> bool:
        return False

    def chosen(self) -> dict[int, Chosen]:
        """Returns what is chosen by partition, without partitions of which nothing is."""
        found = [(file.partition, file.first_offset, file.last_offset, file.records) for file in self._whole(True)]
        if rest := self._whole(False):
            rows = self._records(self.spans, rest).groupBy("partition")
            try:
                found += rows.agg(F.min("offset"), F.max("offset"), F.count("*")).collect()
            except SPARK_ERRORS as error:
                raise explain(error) from error
        sums: dict[int, Chosen] = {}
        for partition, first, last, records in found:
            known = sums.get(partition, Chosen(first, last, 0))
            sums[partition] = Chosen(
                min(first, known.first_offset), max(last, known.last_offset), records + known.records
            )
        return dict(sorted(sums.items()))

    def _whole(self, whole: bool) -> list[ArchivedFile]:
        return [file for file in self.files if self._is_whole(file) == whole]

    def _is_whole(self, file: ArchivedFile) -> bool:
        """Says whether all its records are chosen, so that the log says what is in it."""
        timeless = self.part.from_time is None and self.part.to_time is None
        span = self.spans[file.partition]
        return timeless and file.first_offset in span and file.last_offset in span

    def _records(self, spans: dict[int, range], files: Sequence[ArchivedFile]) -> DataFrame:
        wanted = [file.path for file in files if _overlap(file, spans.get(file.partition, range(0)))]
        if not wanted:
            return self.spark.createDataFrame([], SCHEMA)
        rows = self.spark.read.schema(SCHEMA).parquet(*(self.archive.uri(path) for path in wanted))
        return rows.where(self._within(spans))

    def _within(self, spans: dict[int, range]) -> Column:
        offset, partition = F.col("offset"), F.col("partition")
        starts = F.create_map(*(lit for key, span in spans.items() for lit in (F.lit(key), _long(span.start))))
        stops = F.create_map(*(lit for key, span in spans.items() for lit in (F.lit(key), _long(span.stop))))
        within = (offset >= starts[partition]) & (offset < stops[partition])
        if self.part.from_time is not None:
            within &= F.col("timestamp") >= F.lit(self.part.from_time)
        if self.part.to_time is not None:
            within &= F.col("timestamp") < F.lit(self.part.to_time)
        return within


def _archived(files: Iterable[ArchivedFile]) -> dict[int, range]:
    """Returns the offsets of each partition, from the first to the last."""
    found: dict[int, range] = {}
    for file in files:
        known = found.get(file.partition, range(file.first_offset, file.last_offset + 1))
        found[file.partition] = range(min(known.start, file.first_offset), max(known.stop, file.last_offset + 1))
    return found


def _overlap(file: ArchivedFile, span: range) -> bool:
    return bool(span) and file.first_offset < span.stop and file.last_offset >= span.start


def _long(number: int) -> Column:
    return F.lit(number).cast("long")
