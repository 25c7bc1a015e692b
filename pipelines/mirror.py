"""Copies topics from one cluster to another, partition by partition: each record once, in order, as it is.

The micro-batches are planned here and not by a streaming query, so that one state, kept in the checkpoint, says both
how far the source was read and where the target ended then. `exact_write` explains why the two belong together.
"""

import argparse
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from barnabas.pipelines.copies.chunk_progress import ChunkProgress
from barnabas.pipelines.copies.copying import Target
from barnabas.pipelines.copies.exact_write import ExactWriter
from barnabas.pipelines.copies.mirror_dry_run import planned
from barnabas.pipelines.copies.mirror_options import make_parser, target_settings
from barnabas.pipelines.copies.mirror_rounds import Mirror, start_over
from barnabas.pipelines.copies.mirror_source import MirrorSource
from barnabas.pipelines.copies.mirror_topics import Names, NewTopics, require_no_loop
from barnabas.pipelines.copies.ordered_sink import sink_settings
from barnabas.pipelines.copies.write_state import State, StateLog
from barnabas.pipelines.shared import options
from barnabas.pipelines.shared.cluster import Cluster, Topic
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import open_folder
from barnabas.pipelines.shared.kafka_rows import TopicPartition
from barnabas.pipelines.shared.spark.launch import launch
from barnabas.pipelines.shared.stop_signal import StopSignal

__all__ = ["main", "make_parser", "run"]

DEFAULT_LIMIT = 500_000
"""Records per chunk: at most this many are compared after a run that died."""


def main(arguments: Sequence[str] | None = None) -> int:
    return launch(run, make_parser(), arguments, servers)


def servers(given: argparse.Namespace) -> dict[str, str]:
    target = target_settings(given)["kafka.bootstrap.servers"]
    return {**options.bootstrap_servers(given), "--target-bootstrap-servers": target}


def run(spark: SparkSession, given: argparse.Namespace) -> int:
    states = StateLog(open_folder(spark, given.checkpoint))
    with ExitStack() as stack:
        if not given.dry_run:
            stack.enter_context(states.held())
        mirror = _open(spark, given, states, stack)
        if given.dry_run:
            _show_plan(mirror, given)
            return 0
        stop = stack.enter_context(StopSignal())
        mirror.resume()
        _copy(mirror, given, stop)
    return 0


def _copy(mirror: Mirror, given: argparse.Namespace, stop: StopSignal) -> None:
    progress = ChunkProgress("mirror")
    limit = given.max_offsets_per_trigger or DEFAULT_LIMIT
    starting_offsets = _starting_offsets(mirror, given)
    until: dict[TopicPartition, int] | None = None
    try:
        while not stop.is_set:
            began = time.monotonic()
            ends = _round(mirror, given, starting_offsets)
            starting_offsets = "earliest"  # what appears later is copied from its beginning
            if until is None or not given.once:
                until = ends
            until = {key: end for key, end in until.items() if key in ends}  # a topic may have been deleted since
            chunk = mirror.next_chunk(until, limit)
            if chunk:
                with progress.chunk_runs():
                    records = mirror.writer.write(chunk)
                progress.chunk_done(records, {key: place.next for key, place in mirror.state.places().items()}, ends)
            elif given.once:
                break
            behind = any(span.stop < ends[key] for key, span in chunk.items())
            if not given.once and (given.max_offsets_per_trigger or not behind):
                stop.wait(given.every.total_seconds() - (time.monotonic() - began))
    except BaseException:
        progress.abandon()
        raise
    if mirror.lost_offsets:
        progress.summary.figures["offsets lost"] = mirror.lost_offsets
    progress.finish(stopped=stop.is_set)


def _round(mirror: Mirror, given: argparse.Namespace, starting_offsets: str) -> dict[TopicPartition, int]:
    """Makes the target fit the source; returns where the source ends."""
    sight = mirror.look()
    mirror.prepare(sight, starting_offsets)
    mirror.skip_lost(sight, fail=given.fail_on_data_loss)
    return {key: found.end for key, found in sight.ends.items()}


def _starting_offsets(mirror: Mirror, given: argparse.Namespace) -> str:
    return str(given.starting_offsets) if mirror.writer.states.is_new else "earliest"


# ---- setting up


def _open(spark: SparkSession, given: argparse.Namespace, states: StateLog, stack: ExitStack) -> Mirror:
    # Consumers are kept for the next chunk by the name of their group, which they make no other use of.
    reading = {"kafka.group.id": f"barnabas-mirror-{uuid.uuid4()}", **options.kafka_settings(given)}
    writing = target_settings(given)
    source, target = _connected(spark, reading, given, stack), _connected(spark, writing, given, stack)
    about = {"job": "mirror", "source": source.cluster_id(), "target": target.cluster_id()}
    patience = {"kafkaConsumer.pollTimeoutMs": str(int(given.timeout.total_seconds() * 1000))}
    records = MirrorSource(
        spark,
        source,
        {**reading, **patience},
        fail_on_data_loss=given.fail_on_data_loss,
        timestamp_header=given.timestamp_header,
    )
    sink = Target(target, writing, sink_settings(writing, given.timeout))
    writer = ExactWriter(spark, records, sink, states, _state(states, given, about), start_over)
    new_topics = NewTopics(source, target, given.topic_config, given.replication_factor)
    find_topics = _finder(spark, given, source, same_cluster=about["source"] == about["target"])
    return Mirror(writer, records, new_topics, find_topics, adopt=given.adopt)


def _connected(spark: SparkSession, settings: dict[str, str], given: argparse.Namespace, stack: ExitStack) -> Cluster:
    """Connects once briefly, to notice a wrong address soon, then with the patience that a restarting cluster needs."""
    with Cluster(spark, settings) as first:
        first.cluster_id()
    return stack.enter_context(Cluster(spark, settings, timeout_s=given.timeout.total_seconds()))


def _state(states: StateLog, given: argparse.Namespace, about: dict[str, str]) -> State:
    state = states.load() or State(about)
    if dict(state.about) != about:
        raise Failure(f"{given.checkpoint} belongs to another job or other clusters: name another --checkpoint")
    if unknown := [name for name in given.start_over if name not in state.topics]:
        raise Failure(f"--start-over {unknown[0]}: nothing was copied to a topic of that name; check it")
    return replace(
        state,
        topics={name: topic for name, topic in state.topics.items() if name not in given.start_over},
        writing={key: until for key, until in state.writing.items() if key[0] not in given.start_over},
    )


def _finder(
    spark: SparkSession, given: argparse.Namespace, source: Cluster, *, same_cluster: bool
) -> Callable[[], dict[str, Topic]]:
    names = Names(given.prefix, given.rename)
    jvm: Any = spark._jvm

    def is_read(name: str) -> bool:
        if given.topic_pattern is None:
            return name in given.topic
        return bool(jvm.java.util.regex.Pattern.matches(given.topic_pattern, name))

    def find_topics() -> dict[str, Topic]:
        wanted = None if given.topic_pattern is not None else given.topic
        found = source.topics(wanted, given.topic_pattern, configs=False)
        if missing := sorted(set(wanted or ()) - set(found)):
            raise Failure(f"{source.bootstrap_servers} has no topic {missing[0]}: check the names in --topic")
        if wanted is not None and (idle := sorted(set(given.rename) - set(wanted))):
            raise Failure(f"--rename {idle[0]}=…: {idle[0]} is not one of the topics to copy; add it to --topic")
        by_target = names.by_target(found)
        if same_cluster:
            require_no_loop(by_target, is_read)
        return {name: found[topic] for name, topic in by_target.items()}

    return find_topics


def _show_plan(mirror: Mirror, given: argparse.Namespace) -> None:
    print(f"{given.bootstrap_servers} → {given.target_bootstrap_servers}; this is a dry run, nothing is changed")
    for line in planned(mirror, _starting_offsets(mirror, given), fail_on_data_loss=given.fail_on_data_loss):
        print(f"  {line}")


if __name__ == "__main__":
    sys.exit(main())
