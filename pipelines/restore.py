"""Writes what was archived to a topic: all of it or a part, each record once, in order, with its key and headers."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from pyspark.sql import SparkSession

from barnabas.pipelines.copies.archive_source import ArchiveSource, Chosen
from barnabas.pipelines.copies.chunk_progress import ChunkProgress
from barnabas.pipelines.copies.copying import Target, next_chunk
from barnabas.pipelines.copies.exact_write import Beginning, ExactWriter
from barnabas.pipelines.copies.ordered_sink import sink_settings
from barnabas.pipelines.copies.restore_options import Part, make_parser
from barnabas.pipelines.copies.write_state import State, StateLog
from barnabas.pipelines.parquet.archive_log import ArchivedFile, ArchiveLog
from barnabas.pipelines.shared import options
from barnabas.pipelines.shared.cluster import Cluster, Topic
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder, open_folder
from barnabas.pipelines.shared.kafka_rows import TopicPartition
from barnabas.pipelines.shared.progress import plural
from barnabas.pipelines.shared.spark.launch import launch
from barnabas.pipelines.shared.stop_signal import StopSignal

__all__ = ["main", "make_parser", "run"]


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments)


def run(spark: SparkSession, given: argparse.Namespace) -> int:
    states = StateLog(open_folder(spark, given.checkpoint))
    with ExitStack() as stack:
        if not given.dry_run:
            stack.enter_context(states.held())
        restore = _open(spark, given, states, stack)
        restore.check()
        if given.dry_run:
            print("\n".join(restore.plan()))
            return 0
        restore.begin()
        restore.copy(stack.enter_context(StopSignal()))
    return 0


class Archived(NamedTuple):
    """A topic as the archive has it."""

    topic_id: str
    partitions: int
    files: tuple[ArchivedFile, ...]


def _open(spark: SparkSession, given: argparse.Namespace, states: StateLog, stack: ExitStack) -> "Restore":
    folder = open_folder(spark, given.archive)
    archived = _archived(folder, given.source_topic)
    part = Part(given.from_offset, given.to_offset, given.from_time, given.to_time)
    topic = given.topic or given.source_topic
    source = ArchiveSource(spark, folder, archived.files, part, topic, timestamp_header=given.timestamp_header)
    settings = options.kafka_settings(given)
    with Cluster(spark, settings) as first:  # a wrong address is noticed soon, a cluster that goes away is waited for
        cluster_id = first.cluster_id()
    cluster = stack.enter_context(Cluster(spark, settings, timeout_s=given.timeout.total_seconds()))
    about = {
        "job": "restore",
        "archive": folder.uri(),
        "topic": given.source_topic,
        "part": part.text(),
        "timestamp_header": given.timestamp_header or "",
        "target": cluster_id,
    }
    state = states.load() or State(about)
    if dict(state.about) != about:
        raise Failure(
            f"{given.checkpoint} belongs to another job, or to another part of the archive: name another --checkpoint"
        )
    target = Target(cluster, settings, sink_settings(settings, given.timeout))
    writer = ExactWriter(spark, source, target, states, state, _begin_again)
    return Restore(given, archived, source, writer, topic)


def _archived(folder: Folder, topic: str) -> Archived:
    log = ArchiveLog(folder)
    files: list[ArchivedFile] = []
    latest = log.latest()
    if latest is None:
        raise Failure(f"{folder.uri()} is not an archive: name the --output of the archive job")
    if topic not in latest.state.topics:
        there = ", ".join(sorted(latest.state.topics)) or "nothing"
        raise Failure(f"the archive {folder.uri()} has no topic {topic}; it has {there}")
    for commit in log.commits():
        files.extend(file for file in commit.files if file.topic == topic)
    known = latest.state.topics[topic]
    return Archived(known.id, max(known.next_offsets, default=-1) + 1, tuple(files))


def _begin_again(topic: str) -> str:
    return f"delete {topic}, or name another --topic, and give a new --checkpoint"


class Restore:
    def __init__(
        self, given: argparse.Namespace, archived: Archived, source: ArchiveSource, writer: ExactWriter, topic: str
    ) -> None:
        self.given = given
        self.archived = archived
        self.source = source
        self.writer = writer
        self.topic = topic
        self.missing = source.leave_out_missing(fail=given.fail_on_data_loss)
        self.chosen: dict[int, Chosen] = source.chosen()
        self.there: Topic | None = writer.target.cluster.topics([topic], configs=False).get(topic)

    def check(self) -> None:
        """Raises Failure if the topic cannot take what was chosen."""
        known = self.writer.state.topics.get(self.topic)
        if self.there is None:
            if known is not None:
                raise Failure(
                    f"{self.topic} was deleted since the last run; to restore it again, give a new --checkpoint"
                )
            return
        if known is not None and self.there.id != known.target_id:
            raise Failure(f"{self.topic} was deleted since the last run and created again; {_begin_again(self.topic)}")
        needed = max(self.chosen, default=-1) + 1
        if self.there.partitions < needed:
            raise Failure(
                f"{self.topic} has {plural(self.there.partitions, 'partition')}, the archive {needed}: add partitions, "
                "or name a --topic that does not exist"
            )
        if not self.given.adopt and (held := self.writer.held(self._new())):
            raise self.writer.not_empty(held[0])

    def plan(self) -> list[str]:
        created = "" if self.there else f", which will be created with {plural(self.archived.partitions, 'partition')}"
        lines = [f"{self.source.archive.uri()} → {self.topic}{created}; this is a dry run, nothing is changed"]
        if self.writer.state.writing:
            lines.append("  the last run died while it wrote: the topic's records will be compared first")
        places = self.writer.state.places()
        for partition, chosen in sorted(self.chosen.items()):
            place = places.get((self.topic, partition))
            done = "" if place is None else f", restored up to offset {place.next - 1}"
            span = f"offsets {chosen.first_offset} to {chosen.last_offset}"
            lines.append(f"  {self.topic}-{partition}: {plural(chosen.records, 'record')}, {span}{done}")
        if self.missing:
            lines.append(f"  {self.missing:,} records were in files that were removed, and are left out")
        return [*lines, f"  {sum(chosen.records for chosen in self.chosen.values()):,} records"]

    def begin(self) -> None:
        self.writer.resume()
        if self.given.adopt:
            self.writer.adopt(self._until())
        if self.there is None:
            cluster, given = self.writer.target.cluster, self.given
            cluster.create_topic(self.topic, self.archived.partitions, given.topic_config, given.replication_factor)
        if new := self._new():
            self.writer.begin(new, adopt=self.given.adopt)

    def copy(self, stop: StopSignal) -> None:
        progress = ChunkProgress("restore")
        until = self._until()
        while not stop.is_set and (chunk := next_chunk(self._next_offsets(), until, self.given.chunk_records)):
            try:
                with progress.chunk_runs():
                    records = self.writer.write(chunk)
            except BaseException:
                progress.abandon()
                raise
            progress.chunk_done(records, self._next_offsets(), until)
        if self.missing:
            progress.summary.figures["missing"] = self.missing
        progress.finish(stopped=stop.is_set)

    def _next_offsets(self) -> dict[TopicPartition, int]:
        return {key: place.next for key, place in self.writer.state.places().items()}

    def _until(self) -> dict[TopicPartition, int]:
        return {(self.topic, partition): chosen.last_offset + 1 for partition, chosen in self.chosen.items()}

    def _new(self) -> dict[TopicPartition, Beginning]:
        known = self.writer.state.places()
        return {
            (self.topic, partition): Beginning(
                self.given.source_topic, self.archived.topic_id, chosen.first_offset, chosen.last_offset + 1
            )
            for partition, chosen in self.chosen.items()
            if (self.topic, partition) not in known
        }


if __name__ == "__main__":
    sys.exit(main())
