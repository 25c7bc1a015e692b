"""Writes chunks of records to topics so that each record is there once, in order, however often a run dies.

Kafka's protocol has transactions for this; Spark's sink does not use them. What it has is an idempotent producer, and
a partition that one task writes in order. So, for each chunk:

1. The target must end where the last chunk left it; else somebody else writes there, and this stops.
2. The state says which source offsets are about to be written behind which target offsets. It is durable first.
3. One task per target partition writes the records, and is never started a second time.
4. The target's ends must have moved by the number of records; then the state says so.

A run that finds a chunk under way compares what the target has behind the noted ends with the source, and goes on
behind it: what was written counts, not what was noted.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.cluster import Cluster
from barnabas.pipelines.comparison import Mismatch, next_offsets, next_offsets_if_compacted
from barnabas.pipelines.failure import Failure
from barnabas.pipelines.kafka_rows import read_rows
from barnabas.pipelines.ordered_sink import write_in_order
from barnabas.pipelines.write_state import Place, State, StateLog, TopicPartition

Chunk = Mapping[TopicPartition, range]
"""Source offsets by target partition."""

SETTLED_S = 1.0
"""So long must the ends of a target stand still before what a dead run wrote is counted: its last requests may still be
on their way through the broker."""
SETTLE_TIMEOUT_S = 60.0


class Source(Protocol):
    def rows(self, chunk: Chunk) -> DataFrame:
        """topic and partition (the target's), offset (the source's), key, value, headers.

        A Spark partition holds records of one target partition, by offset.
        """

    def begin_offsets(self, targets: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The first source offsets that can still be read."""

    def is_compacted(self, topic: str) -> bool:
        """Whether records in the middle may vanish from the source of this target topic."""


class Target(NamedTuple):
    cluster: Cluster
    settings: Mapping[str, str]
    """How to reach it."""
    sink_settings: Mapping[str, str]


class ExactWriter:
    def __init__(self, spark: SparkSession, source: Source, target: Target, states: StateLog, state: State) -> None:
        self.spark = spark
        self.source = source
        self.target = target
        self.states = states
        self.state = state

    def save(self, state: State) -> None:
        self.states.save(state)
        self.state = state

    def write(self, chunk: Chunk) -> int:
        """Returns how many records were written."""
        topics = sorted({topic for topic, _ in chunk})
        self.require_alone(topics)
        places = self.state.places()
        assert all(span.start == places[key].next for key, span in chunk.items()), "a chunk begins where the last ended"
        self.save(replace(self.state, writing={key: span.stop for key, span in chunk.items()}))
        configs = self.target.cluster.effective_configs(topics, ("max.message.bytes", "cleanup.policy"))
        write_in_order(self.source.rows(chunk), self.target.sink_settings, configs)
        ends = self.target.cluster.end_offsets(topics)
        written = {key: ends[key] - places[key].end for key in chunk}
        self._check(chunk, written)
        self.save(self.state.moved({key: Place(span.stop, ends[key]) for key, span in chunk.items()}))
        return sum(written.values())

    def require_alone(self, topics: Iterable[str]) -> None:
        """Raises Failure unless all their partitions end where this job left them."""
        wanted = set(topics)
        ends = self.target.cluster.end_offsets(wanted)
        for key, place in self.state.places().items():
            if key[0] in wanted and ends[key] != place.end:
                raise self._not_alone(key, ends[key] - place.end)

    def _check(self, chunk: Chunk, written: Mapping[TopicPartition, int]) -> None:
        """The source's records are counted only where offsets without a record may explain a difference."""
        unclear = {key: span for key, span in chunk.items() if written[key] != len(span)}
        if not unclear:
            return
        counted = self.source.rows(unclear).groupBy("topic", "partition").count().collect()
        expected = {(row["topic"], row["partition"]): int(row["count"]) for row in counted}
        for key, span in unclear.items():
            at_least = expected.get(key, 0)
            # Compaction may have gone on since the records were read.
            at_most = len(span) if self.source.is_compacted(key[0]) else at_least
            if not at_least <= written[key] <= at_most:
                raise self._not_alone(key, written[key] - at_least)

    def _not_alone(self, key: TopicPartition, surplus: int) -> Failure:
        name = f"{key[0]}-{key[1]} at {self.target.cluster.bootstrap_servers}"
        if surplus > 0:
            return Failure(
                f"{name} has {surplus} records more than this job wrote there: somebody else writes to the topic, or"
                f" the checkpoint {self.states.folder.uri()} is an old copy. Delete the topic and run with"
                f" --start-over {key[0]}, or name the right checkpoint"
            )
        return Failure(
            f"{name} has {-surplus} records less than this job wrote there: the cluster lost them, or the topic was"
            f" made again. Delete it and run with --start-over {key[0]}"
        )

    # ---- after a death

    def resume(self) -> None:
        """Finds out how far the run before this one came, if it died while it wrote."""
        places = {key: place for key, place in self.state.places().items() if key in self.state.writing}
        if not places:
            return
        ends = self._settled_ends({topic for topic, _ in places})
        for key, place in places.items():
            if ends[key] < place.end:
                raise self._not_alone(key, ends[key] - place.end)
        grown = {key: range(place.end, ends[key]) for key, place in places.items() if ends[key] > place.end}
        reached = self._reached(grown) if grown else {}
        self.save(self.state.moved({key: Place(reached[key], span.stop) for key, span in grown.items()}))

    def _settled_ends(self, topics: set[str]) -> dict[TopicPartition, int]:
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        ends = self.target.cluster.end_offsets(topics)
        while time.monotonic() < deadline:
            time.sleep(SETTLED_S)
            before, ends = ends, self.target.cluster.end_offsets(topics)
            if ends == before:
                return ends
        where = f"{', '.join(sorted(topics))} at {self.target.cluster.bootstrap_servers}"
        raise Failure(f"somebody writes to {where} right now: end that run, or wait for it")

    def _reached(self, grown: Chunk) -> dict[TopicPartition, int]:
        """The source offsets behind what the target holds in these spans of its own offsets."""
        places = self.state.places()
        begins = self.source.begin_offsets(grown)
        compacted = {key: span for key, span in grown.items() if self.source.is_compacted(key[0])}
        gone = {key: max(0, begins[key] - places[key].next) for key in grown}  # cut off the source since
        exact = {key: span[gone[key] :] for key, span in grown.items() if key not in compacted}
        exact = {key: span for key, span in exact.items() if span}
        reached = {key: places[key].next + len(span) for key, span in grown.items()}
        try:
            if exact:
                reached |= next_offsets(self.spark, self._under_way(exact, begins), self._held(exact), exact)
            if compacted:
                found = next_offsets_if_compacted(self._under_way(compacted, begins), self._held(compacted), compacted)
                reached |= {key: self.state.writing[key] if at is None else at for key, at in found.items()}
        except Mismatch as mismatch:
            where = f"{mismatch.topic}-{mismatch.partition} at {self.target.cluster.bootstrap_servers}"
            raise Failure(
                f"offset {mismatch.offset} of {where} holds something else than this job would have written there:"
                f" somebody else writes to the topic. Delete it and run with --start-over {mismatch.topic}"
            ) from None
        return reached

    def _under_way(self, spans: Chunk, begins: Mapping[TopicPartition, int]) -> DataFrame:
        places, until = self.state.places(), self.state.writing
        starts = {key: min(max(places[key].next, begins[key]), until[key]) for key in spans}
        return self.source.rows({key: range(start, until[key]) for key, start in starts.items()})

    def _held(self, spans: Chunk) -> DataFrame:
        return read_rows(self.spark, self.target.settings, spans, fail_on_data_loss=False)
