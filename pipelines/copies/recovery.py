"""How far a run came that died while it wrote: told by the target's contents."""

import time
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from barnabas.pipelines.copies.comparison import next_offsets, next_offsets_if_compacted
from barnabas.pipelines.copies.copying import Chunk, Source, Target
from barnabas.pipelines.copies.write_state import State
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.kafka_rows import TopicPartition, read_rows

SETTLED_S = 1.0
"""So long must the target's ends stand still: the last requests of a dead run may still be on their way."""
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
    raise Failure(f"somebody writes to {where} right now: end that run, or wait for it")


class Recovery:
    def __init__(self, spark: SparkSession, source: Source, target: Target, state: State) -> None:
        self.spark = spark
        self.source = source
        self.target = target
        self.places = state.places()
        self.writing = state.writing

    def reached(self, grown: Chunk) -> dict[TopicPartition, int]:
        """The source offsets behind what the target holds in these spans of its own offsets. Raises Mismatch."""
        begins = self.source.begin_offsets(grown)
        found = {key: self.places[key].next + len(span) for key, span in grown.items()}
        compacted = {key: span for key, span in grown.items() if self.source.is_compacted(key[0])}
        if compacted:
            held = read_rows(self.spark, self.target.settings, compacted, fail_on_data_loss=False)
            offsets = next_offsets_if_compacted(self._under_way(compacted, begins), held, compacted)
            found |= {key: self.writing[key] if offset is None else offset for key, offset in offsets.items()}
        # What was cut off the source's beginning since cannot be compared any more.
        gone = {key: max(0, begins[key] - self.places[key].next) for key in grown}
        whole = {key: span[gone[key] :] for key, span in grown.items() if key not in compacted}
        if whole := {key: span for key, span in whole.items() if span}:
            held = read_rows(self.spark, self.target.settings, whole, fail_on_data_loss=False)
            found |= next_offsets(self._under_way(whole, begins), held, whole)
        return found

    def _under_way(self, spans: Chunk, begins: Mapping[TopicPartition, int]) -> DataFrame:
        starts = {key: min(max(self.places[key].next, begins[key]), self.writing[key]) for key in spans}
        return self.source.rows({key: range(start, self.writing[key]) for key, start in starts.items()})
