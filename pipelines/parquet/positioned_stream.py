"""A stream whose position is part of its output: begins where the output ends, and says what became of its topics."""

import argparse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.parquet.own_checkpoint import OwnCheckpoint
from barnabas.pipelines.parquet.single_writer import SingleWriter
from barnabas.pipelines.shared.cluster import Cluster, Topic
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.options import source_settings
from barnabas.pipelines.shared.position import Offsets, Start, Topics, advance, changed, check_nothing_lost, resume
from barnabas.pipelines.shared.progress import Counts, Progress
from barnabas.pipelines.shared.stream import run_stream

STARTS = 3
LOST = "offsets lost"
"""The figure that counts offsets that were deleted before they were read."""


class View(NamedTuple):
    """The topics that are read, as the cluster has them now."""

    topics: dict[str, Topic]
    begin: Offsets
    end: Offsets


class Batch(NamedTuple):
    rows: DataFrame
    ends: Offsets
    """The ends of the partitions that it reads."""
    advanced: Callable[[], Topics]
    """Returns, once all rows were read, the new positions, if the topics are still those that were read."""


def look(cluster: Cluster, options: argparse.Namespace) -> View:
    topics = cluster.topics(options.topic or None, options.topic_pattern)
    if not topics:
        return View(topics, {}, {})
    return View(topics, cluster.begin_offsets(topics), cluster.end_offsets(topics))


def start_from(view: View, known: Topics, options: argparse.Namespace) -> Start:
    if missing := [name for name in options.topic if name not in view.topics]:
        raise Failure(
            f"there is no topic {', '.join(missing)} on {options.bootstrap_servers}: create it, or look at its name "
            "again (`barnabas topics list`)"
        )
    start = resume(known, *view, options.starting_offsets)
    check_nothing_lost(start, known, options.fail_on_data_loss)
    return start


class PositionedStream:
    def __init__(
        self,
        spark: SparkSession,
        cluster: Cluster,
        writer: SingleWriter,
        options: argparse.Namespace,
        each_batch: Callable[[Batch], Counts],
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.writer = writer
        self.options = options
        self.each_batch = each_batch
        self.batches = 0
        directory = options.checkpoint or writer.folder.uri(f"{writer.own_staging}/checkpoint")
        self.checkpoint = OwnCheckpoint(spark, directory, writer.folder.uri())

    def run(self) -> None:
        for attempt in range(1, STARTS + 1):
            start = self._take_over()
            try:
                return self._run_from(start)
            except Failure:
                self._explain()
                # Spark refuses to begin if a partition was added after we looked: look again.
                if self.batches or attempt == STARTS or self._partitions_are(start.topics):
                    raise

    def _take_over(self) -> Start:
        while True:
            self.writer.recover()
            known = self.writer.topics
            start = start_from(look(self.cluster, self.options), known, self.options)
            if self.writer.take_over(changed(known, start.topics), sum(start.lost.values())):
                return start

    def _run_from(self, start: Start) -> None:
        self.checkpoint.begin()
        settings = {**source_settings(self.options), "startingOffsets": start.starting_offsets()}
        frame = self.spark.readStream.format("kafka").options(**settings).load()
        own = argparse.Namespace(**{**vars(self.options), "checkpoint": self.checkpoint.uri})
        progress = Progress(self.writer.job)
        if start.lost:
            progress.summary.figures[LOST] = sum(start.lost.values())
        try:
            run_stream(frame, self._each_batch, own, name=self.writer.job, progress=progress)
        finally:
            self.checkpoint.remove()

    def _each_batch(self, rows: DataFrame, batch_id: int) -> Counts:
        self.batches += 1
        ends = self.checkpoint.batch_ends(batch_id)
        if not ends:
            return Counts()  # the first batch of a checkpoint comes even if there is nothing to read
        names = {name for name, _ in ends}
        before = self.cluster.topics(names)

        def advanced() -> Topics:
            # All was read before this answer comes: with the ids of before, these are the topics that were read.
            return advance(self.writer.topics, ends, before, self.cluster.topics(names))

        try:
            return self.each_batch(Batch(rows, ends, advanced))
        except OSError as error:
            raise Failure(f"{self.writer.folder.uri()} cannot be written: {error.strerror}") from error

    def _explain(self) -> None:
        """Raises the cause of a failure, if we know more about it than Spark does."""
        self.writer.check_alone()
        try:
            view = look(self.cluster, self.options)
        except Failure:
            return  # the cluster cannot be asked, and what has failed already says so
        start_from(view, self.writer.topics, self.options)

    def _partitions_are(self, topics: Topics) -> bool:
        return _partitions(look(self.cluster, self.options).topics) == _partitions(topics)


def check_all_written(written: int, found: int, folder: str) -> None:
    """Requires that all rows are there before a position moves: executors may have written to disks of their own."""
    if written != found:
        raise Failure(
            f"{written} rows were written to {folder}, {found} are there: name a folder that all executors share"
        )


def _partitions(topics: Mapping[str, Topic] | Topics) -> dict[str, int]:
    return {name: topic.partitions for name, topic in topics.items()}
