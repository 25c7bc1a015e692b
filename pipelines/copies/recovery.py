"""Finds out by the target's contents how far a run came that died while it wrote."""

import time
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.copies.comparison import Cut, next_offsets, next_offsets_if_compacted, next_offsets_if_cut
from barnabas.pipelines.copies.copying import Chunk, Source, Target
from barnabas.pipelines.copies.write_state import State
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.kafka_rows import TopicPartition, read_rows

SETTLED_S = 1.0
"""How long the target's ends must stand still: the last requests of a dead run may still be on their way."""
SETTLE_TIMEOUT_S = 60.0


def settled_ends(target: Target, topics: set[str]) -> dict[TopicPartition, int]:
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    ends = target.cluster.end_offsets(topics)
    while time.monotonic() < deadline:
        time.sleep(SETTLED_S)
        before, ends = ends, target.cluster.end_offsets(topics)
        if ends == before:
            return ends
    where = f"{', '.join(sorted(topics))} at {target.cluster.bootstrap_servers}"
    raise Failure(f"something is writing to {where}: end that run, or wait for it")


class Recovery:
    def __init__(self, spark: SparkSession, source: Source, target: Target, state: State) -> None:
        self.spark = spark
        self.source = source
        self.target = target
        self.places = state.places()
        self.writing = state.writing

    def reached(self, grown: Chunk) -> dict[TopicPartition, int]:
        """Returns the source offsets after what the target holds in these spans of its own. Raises Mismatch, or
        Unclear."""
        begins = self.source.begin_offsets(grown)
        compacted = {key: span for key, span in grown.items() if self.source.is_compacted(key[0])}
        cut = {key: span for key, span in grown.items() if begins[key] > self.places[key].next and key not in compacted}
        whole = {key: span for key, span in grown.items() if key not in compacted and key not in cut}
        found: dict[TopicPartition, int] = {}
        if compacted:
            offsets = next_offsets_if_compacted(self._under_way(compacted, begins), self._held(compacted), compacted)
            found |= {key: self.writing[key] if offset is None else offset for key, offset in offsets.items()}
        if cut:
            cuts = {key: Cut(self.places[key].next, begins[key], self.writing[key]) for key in cut}
            found |= next_offsets_if_cut(self._under_way(cut, begins), self._held(cut), cut, cuts)
        if whole:
            found |= next_offsets(self._under_way(whole, begins), self._held(whole), whole)
        return found

    def _held(self, spans: Chunk) -> DataFrame:
        return read_rows(self.spark, self.target.settings, spans, fail_on_data_loss=False)

    def _under_way(self, spans: Chunk, begins: Mapping[TopicPartition, int]) -> DataFrame:
        starts = {key: min(max(self.places[key].next, begins[key]), self.writing[key]) for key in spans}
        return self.source.rows({key: range(start, self.writing[key]) for key, start in starts.items()})
