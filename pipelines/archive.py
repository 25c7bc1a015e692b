"""Writes topics to Parquet files, every offset exactly once for any reader.

    OUT/topic=orders/date=2025-11-16/0-00000000000000000042.parquet

Each file holds records of one partition, ascending by offset, under a name made of the partition and its first offset.
What is archived, and the offset to continue with, is in a log of commits in OUT/_archive; see archive_writer.py.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from pyspark.sql import SparkSession

from barnabas.pipelines.parquet.archive_files import FOLDERS, stage, staged_files
from barnabas.pipelines.parquet.archive_log import ArchivedFile, State
from barnabas.pipelines.parquet.archive_writer import ArchiveWriter
from barnabas.pipelines.parquet.parquet_options import parquet_parser
from barnabas.pipelines.parquet.positioned_stream import (
    LOST,
    Batch,
    PositionedStream,
    check_all_written,
    look,
    start_from,
)
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.files.folder import open_folder
from barnabas.pipelines.shared.position import Topics
from barnabas.pipelines.shared.progress import Counts, plural
from barnabas.pipelines.shared.spark.launch import launch


def make_parser() -> argparse.ArgumentParser:
    parser = parquet_parser("archive", "Writes topics to Parquet files, every offset exactly once.")
    common.add_topics(parser)
    parser.add_argument(
        "--partition-by",
        choices=tuple(FOLDERS),
        default="day",
        help="write a folder for each day or for each hour (default: %(default)s)",
    )
    return parser


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    with Cluster(spark, common.kafka_settings(options)) as cluster:
        if options.dry_run:
            return _plan(spark, cluster, options)
        with ArchiveWriter(open_folder(spark, options.output)) as writer:
            job = ArchiveJob(spark, cluster, writer, options)
            PositionedStream(spark, cluster, writer, options, job.each_batch).run()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments)


class ArchiveJob:
    def __init__(
        self, spark: SparkSession, cluster: Cluster, writer: ArchiveWriter, options: argparse.Namespace
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.writer = writer
        self.options = options

    def each_batch(self, batch: Batch) -> Counts:
        folder, how = self.writer.folder.uri(self.writer.batch_staging()), self.options.partition_by
        written = stage(batch.rows, folder, partition_by=how, compression=self.options.compression)
        files = staged_files(self.spark, folder, partition_by=how)
        check_all_written(written, sum(file.records for file in files), folder)
        topics = batch.advanced()
        lost = self._lost(files, topics)
        self.writer.commit(files, topics, lost)
        figures = {"files": len(files), "bytes": sum(file.size_bytes for file in files), LOST: lost}
        return Counts(rows_out=written, figures=figures)

    def _lost(self, files: Sequence[ArchivedFile], topics: Topics) -> int:
        """Returns how many offsets the batch should have had and the topic no longer has.

        Offsets without a record are nothing unusual (compaction, transactions): lost are those below the log's start.
        """
        if self.options.fail_on_data_loss:
            return 0  # Spark has stopped if there was any
        read = Counter[tuple[str, int]]()
        for file in files:
            read[file.topic, file.partition] += file.records
        missing = {
            (name, partition): (first, after - first - read[name, partition])
            for name, topic in topics.items()
            for partition, after in topic.next_offsets.items()
            if (first := self._known(name, partition)) is not None and after - first > read[name, partition]
        }
        begin = self.cluster.begin_offsets({name for name, _ in missing}) if missing else {}
        return sum(max(0, min(count, begin[key] - first)) for key, (first, count) in missing.items())

    def _known(self, name: str, partition: int) -> int | None:
        topic = self.writer.state.topics.get(name)
        return None if topic is None else topic.next_offsets.get(partition)


def _plan(spark: SparkSession, cluster: Cluster, options: argparse.Namespace) -> int:
    """Prints the plan of a --dry-run: everything that a run would find out before it writes."""
    writer = ArchiveWriter(open_folder(spark, options.output))
    writer.check_unlocked()
    latest = writer.log.latest()
    known = latest.state if latest else State()
    view = look(cluster, options)
    start = start_from(view, known.topics, options)
    print(f"archive to {writer.folder.uri()}, a folder per {options.partition_by}, {options.compression}")
    print(
        f"  there now: {plural(known.records, 'record')} in {plural(known.files, 'file')}, {known.size_bytes:,} bytes"
    )
    if latest is not None and not writer.log.settled(latest):
        print(f"  commit {latest.number} was interrupted and would be finished first")
    for name, topic in start.topics.items():
        waiting = sum(view.end[name, partition] - offset for partition, offset in topic.next_offsets.items())
        how = "continues" if name in known.topics else "begins"
        print(f"  topic {name} {how}: {plural(topic.partitions, 'partition')}, {plural(waiting, 'offset')} to read")
    if not start.topics:
        print("  no topic matches the pattern so far")
    if start.lost:
        print(f"  {sum(start.lost.values()):,} offsets were deleted and would be left out")
    print("nothing was changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
