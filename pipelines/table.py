"""Keeps a topic as a table: the latest record of each key, as Parquet, in versions that appear as a whole."""

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from barnabas.pipelines.parquet.parquet_options import parquet_parser
from barnabas.pipelines.parquet.positioned_stream import Batch, PositionedStream, check_all_written, look, start_from
from barnabas.pipelines.parquet.table_merge import SCHEMA, merge
from barnabas.pipelines.parquet.table_writer import TableWriter
from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.cluster import Cluster
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import open_folder
from barnabas.pipelines.shared.progress import Counts, plural
from barnabas.pipelines.shared.spark.launch import launch

ROWS_PER_FILE = 250_000


def make_parser() -> argparse.ArgumentParser:
    parser = parquet_parser("table", "Keeps a topic as a table: the latest value of each key.")
    parser.set_defaults(topic_pattern=None)
    parser.add_argument(
        "--topic",
        type=lambda name: [name],
        required=True,
        metavar="NAME",
        help="the topic; each topic has its own table",
    )
    parser.add_argument(
        "--keep", type=versions, default=3, metavar="N", help="versions to keep for readers (default: %(default)s)"
    )
    return parser


def versions(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError("keep at least 2: a reader may still need the version before the latest")
    return int(text)


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    with Cluster(spark, common.kafka_settings(options)) as cluster:
        writer = TableWriter(open_folder(spark, options.output), options.keep)
        if others := [name for name in writer.read().topics if name not in options.topic]:
            raise Failure(f"{writer.folder.uri()} is the table of topic {others[0]}: give each topic its own --output")
        if options.dry_run:
            return _plan(cluster, writer, options)
        with writer:
            job = TableJob(spark, writer, options)
            PositionedStream(spark, cluster, writer, options, job.each_batch).run()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments)


class TableJob:
    def __init__(self, spark: SparkSession, writer: TableWriter, options: argparse.Namespace) -> None:
        self.spark = spark
        self.writer = writer
        self.options = options

    def each_batch(self, batch: Batch) -> Counts:
        session = batch.rows.sparkSession
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        seen = Observation()
        records = batch.rows.observe(
            seen,
            F.count_if(F.col("key").isNull()).alias("without_key"),
            F.count_if(F.col("key").isNotNull() & F.col("value").isNull()).alias("tombstones"),
        )
        target = self.writer.folder.uri(self.writer.next_path())
        written = Observation()
        table = merge(self._table(session), records, self._files(batch)).observe(written, F.count("*").alias("rows"))
        table.write.option("compression", self.options.compression).parquet(target)
        rows, sizes = self._found(target)
        check_all_written(written.get["rows"], rows, target)
        self.writer.commit(list(sizes), batch.advanced(), rows=rows, size_bytes=sum(sizes.values()))
        figures = {"tombstones": seen.get["tombstones"], "without key": seen.get["without_key"]}
        return Counts(rows_out=rows, figures=figures)

    def _table(self, session: SparkSession) -> DataFrame | None:
        """Returns the latest version."""
        path = self.writer.latest.path
        return None if path is None else session.read.schema(SCHEMA).parquet(self.writer.folder.uri(path))

    def _files(self, batch: Batch) -> int:
        known = {(name, p): o for name, topic in self.writer.topics.items() for p, o in topic.next_offsets.items()}
        arrived = sum(end - known.get(key, 0) for key, end in batch.ends.items())
        return 1 + (self.writer.latest.rows + arrived) // ROWS_PER_FILE

    def _found(self, folder: str) -> tuple[int, dict[str, int]]:
        """Reads the files back and returns the number of rows, and the size of each file."""
        found = (
            self.spark.read.schema(SCHEMA)
            .parquet(folder)
            .groupBy("_metadata.file_name", "_metadata.file_size")
            .count()
            .collect()
        )
        return sum(row["count"] for row in found), {row["file_name"]: row["file_size"] for row in found}


def _plan(cluster: Cluster, writer: TableWriter, options: argparse.Namespace) -> int:
    """Prints the plan of a --dry-run: everything that a run would find out before it writes."""
    writer.check_unlocked()
    latest = writer.read()
    view = look(cluster, options)
    start = start_from(view, latest.topics, options)
    (topic,) = start.topics.values()
    waiting = sum(view.end[options.topic[0], partition] - offset for partition, offset in topic.next_offsets.items())
    print(f"table of topic {options.topic[0]} in {writer.folder.uri()}, {options.compression}")
    print(f"  there now: {latest.path or 'nothing'}, {plural(latest.rows, 'row')}, {latest.size_bytes:,} bytes")
    print(f"  {plural(topic.partitions, 'partition')}, {plural(waiting, 'offset')} to read")
    if start.lost:
        print(f"  {sum(start.lost.values()):,} offsets were deleted and would be left out")
    print("nothing was changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
