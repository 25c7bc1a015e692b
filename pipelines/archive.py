"""Topics to Parquet files, every offset exactly once for whoever reads them.

    OUT/topic=orders/date=2025-11-16/0-00000000000000000042.parquet

Each file holds records of one partition, ascending by offset, under a name made of the partition and its first offset.
What is archived, and the offset to go on with, is in a log of commits in OUT/_archive; see archive_writer.py.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines import options as common
from barnabas.pipelines.archive_files import COMPRESSIONS, FOLDERS, stage, staged_files
from barnabas.pipelines.archive_log import ArchivedFile, State
from barnabas.pipelines.archive_writer import ArchiveWriter
from barnabas.pipelines.cluster import Cluster, Topic
from barnabas.pipelines.failure import Failure
from barnabas.pipelines.folder import open_folder
from barnabas.pipelines.launch import launch
from barnabas.pipelines.own_checkpoint import OwnCheckpoint
from barnabas.pipelines.position import Offsets, Start, Topics, advance, changed, check_nothing_lost, resume
from barnabas.pipelines.progress import Counts
from barnabas.pipelines.stream import run_stream

STARTS = 3


def make_parser() -> argparse.ArgumentParser:
    parser = common.parser("archive", "Topics to Parquet files, every offset exactly once.", streaming=True)
    common.add_topics(parser)
    parser.add_argument("--output", required=True, metavar="DIR", help="the archive, on any file system of Spark's")
    parser.add_argument(
        "--partition-by", choices=tuple(FOLDERS), default="day", help="a folder per … (default: %(default)s)"
    )
    parser.add_argument(
        "--compression", choices=COMPRESSIONS, default="zstd", help="of the files (default: %(default)s)"
    )
    return parser


def run(spark: SparkSession, options: argparse.Namespace) -> int:
    with Cluster(spark, common.kafka_settings(options)) as cluster:
        if options.dry_run:
            return _plan(spark, cluster, options)
        with ArchiveWriter(open_folder(spark, options.output)) as writer:
            _archive(spark, cluster, writer, options)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments)


def _archive(spark: SparkSession, cluster: Cluster, writer: ArchiveWriter, options: argparse.Namespace) -> None:
    for attempt in range(1, STARTS + 1):
        start = _take_over(cluster, writer, options)
        job = ArchiveJob(spark, cluster, writer, options)
        try:
            job.run(start)
            return
        except Failure:
            job.explain()
            # Spark refuses to begin if a partition was added after we looked: look again.
            if (
                job.batches
                or attempt == STARTS
                or _partitions(_look(cluster, options).topics) == _partitions(start.topics)
            ):
                raise


def _take_over(cluster: Cluster, writer: ArchiveWriter, options: argparse.Namespace) -> Start:
    while True:
        known = writer.recover().topics
        start = _start(_look(cluster, options), known, options)
        if writer.take_over(changed(known, start.topics), sum(start.lost.values())):
            return start


class View(NamedTuple):
    """The topics to be archived, as the cluster has them now."""

    topics: dict[str, Topic]
    begin: Offsets
    end: Offsets


def _look(cluster: Cluster, options: argparse.Namespace) -> View:
    topics = cluster.topics(options.topic or None, options.topic_pattern)
    return View(topics, cluster.begin_offsets(topics), cluster.end_offsets(topics))


def _start(view: View, known: Topics, options: argparse.Namespace) -> Start:
    if missing := [name for name in options.topic if name not in view.topics]:
        raise Failure(f"there is no topic {', '.join(missing)} on {options.bootstrap_servers}")
    start = resume(known, *view, options.starting_offsets)
    check_nothing_lost(start, known, options.fail_on_data_loss)
    return start


def _partitions(topics: Mapping[str, Topic] | Topics) -> dict[str, int]:
    return {name: topic.partitions for name, topic in topics.items()}


class ArchiveJob:
    """The query of one run, batch by batch."""

    def __init__(
        self, spark: SparkSession, cluster: Cluster, writer: ArchiveWriter, options: argparse.Namespace
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.writer = writer
        self.options = options
        self.batches = 0
        directory = options.checkpoint or writer.folder.uri(f"{writer.own_staging}/checkpoint")
        self.checkpoint = OwnCheckpoint(spark, directory, writer.folder.uri())

    def run(self, start: Start) -> None:
        self.checkpoint.begin()
        settings = {**common.source_settings(self.options), "startingOffsets": start.starting_offsets()}
        frame = self.spark.readStream.format("kafka").options(**settings).load()
        try:
            own = argparse.Namespace(**{**vars(self.options), "checkpoint": self.checkpoint.uri})
            run_stream(frame, self.each_batch, own, name="archive")
        finally:
            self.checkpoint.remove()

    def each_batch(self, batch: DataFrame, batch_id: int) -> Counts:
        self.batches += 1
        ends = self.checkpoint.batch_ends(batch_id)
        names = {name for name, _ in ends}
        before = self.cluster.topics(names)
        folder, how = self.writer.folder.uri(self.writer.batch_staging()), self.options.partition_by
        stage(batch, folder, partition_by=how, compression=self.options.compression)
        files = staged_files(self.spark, folder, partition_by=how)
        # All was read before this answer came: if the ids are what they were, these are the topics that were read.
        topics = advance(self.writer.state.topics, ends, before, self.cluster.topics(names))
        lost = self._lost(files, topics)
        self.writer.commit(files, topics, lost)
        figures = {"files": len(files), "bytes": sum(file.size_bytes for file in files)}
        return Counts(rows_out=sum(file.records for file in files), figures=figures | ({"lost": lost} if lost else {}))

    def explain(self) -> None:
        """Raises what is behind a failure, if we know more about it than Spark does."""
        self.writer.check_alone()
        try:
            view = _look(self.cluster, self.options)
        except Failure:
            return  # the cluster cannot be asked, and what has failed already says so
        _start(view, self.writer.state.topics, self.options)

    def _lost(self, files: Sequence[ArchivedFile], topics: Topics) -> int:
        """Offsets that the batch should have had and that the topic no longer has.

        Offsets without a record are nothing unusual (compaction, transactions): lost are those below the log's begin.
        """
        if self.options.fail_on_data_loss:
            return 0  # Spark has stopped if there was any
        read = Counter({(file.topic, file.partition): 0 for file in files})
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
    """--dry-run: everything that a run would find out before it writes."""
    writer = ArchiveWriter(open_folder(spark, options.output))
    writer.check_unlocked()
    latest = writer.log.latest()
    known = latest.state if latest else State()
    view = _look(cluster, options)
    start = _start(view, known.topics, options)
    print(f"archive to {writer.folder.uri()}, a folder per {options.partition_by}, {options.compression}")
    print(f"  there now: {known.records:,} records in {known.files:,} files, {known.size_bytes:,} bytes")
    if latest is not None and not writer.log.settled(latest):
        print(f"  commit {latest.number} was interrupted and would be finished first")
    for name, topic in start.topics.items():
        waiting = sum(view.end[name, partition] - offset for partition, offset in topic.next_offsets.items())
        how = "goes on" if name in known.topics else "begins"
        print(f"  topic {name} {how}: {topic.partitions} partitions, {waiting:,} offsets to read")
    if start.lost:
        print(f"  {sum(start.lost.values()):,} offsets are gone and would be left out")
    print("nothing was changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
