"""Writes chunks of records to topics so that each record is there once, in order, however often a run dies.

Kafka's protocol has transactions for this; Spark's sink does not use them. What it has is an idempotent producer, and
a partition that one task writes in order. So, for each chunk:

1. The target must end where the last chunk left it; otherwise something else writes there, and this stops.
2. The state says which source offsets are about to be written after which target offsets. It is durable first.
3. One task per target partition writes the records, and is never started a second time.
4. The target's ends must have moved by the number of records; then the state says so.

A run that finds a chunk under way compares what the target has after the noted ends with the source, and continues
after it: what was written counts, not what was noted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from pyspark.sql import SparkSession

from barnabas.pipelines.copies.comparison import Mismatch, Unclear
from barnabas.pipelines.copies.copying import Chunk, Source, Target
from barnabas.pipelines.copies.ordered_sink import write_in_order
from barnabas.pipelines.copies.recovery import Recovery, settled_ends
from barnabas.pipelines.copies.write_state import Place, State, StateLog, TopicState
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.kafka_rows import TopicPartition

CONFIGS = ("cleanup.policy", "max.message.bytes")


class Beginning(NamedTuple):
    """A source partition to copy from its first offset on; it ends at `until` now."""

    source: str
    source_id: str
    first: int
    until: int


class ExactWriter:
    """Writes chunks to the target. `advice` says how to begin again with one of its topics."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        target: Target,
        states: StateLog,
        state: State,
        advice: Callable[[str], str],
    ) -> None:
        self.spark = spark
        self.source = source
        self.target = target
        self.states = states
        self.state = state
        self.advice = advice

    def write(self, chunk: Chunk) -> int:
        """Returns how many records were written."""
        topics = sorted({topic for topic, _ in chunk})
        self.require_alone(topics)
        places = self.state.places()
        assert all(span.start == places[key].next for key, span in chunk.items()), "a chunk begins where the last ended"
        self._save(replace(self.state, writing={key: span.stop for key, span in chunk.items()}))
        configs = self.target.cluster.effective_configs(topics, CONFIGS)
        write_in_order(self.source.rows(chunk), self.target.sink_settings, configs)
        ends = self.target.cluster.end_offsets(topics)
        written = {key: ends[key] - places[key].end for key in chunk}
        self._check(chunk, written)
        self._save(self.state.moved({key: Place(span.stop, ends[key]) for key, span in chunk.items()}))
        return sum(written.values())

    def require_alone(self, topics: Iterable[str]) -> None:
        """Raises Failure unless all partitions of these topics end where this job left them."""
        wanted = set(topics)
        ends = self.target.cluster.end_offsets(wanted)
        for key, place in self.state.places().items():
            end = ends.get(key, 0)  # a topic that was created again may have fewer partitions
            if key[0] in wanted and end != place.end:
                raise self._not_alone(key, end - place.end)

    def begin(self, new: Mapping[TopicPartition, Beginning], *, adopt: bool) -> None:
        """Begins with target partitions that the state does not know. They must be empty, or hold what was copied
        before."""
        names = {name for name, _ in new}
        if (held := self.held(new)) and not adopt:
            raise self.not_empty(held[0])
        ids = {name: topic.id for name, topic in self.target.cluster.topics(names, configs=False).items()}
        begins = self.target.cluster.begin_offsets(names)
        topics = dict(self.state.topics)
        for (name, partition), beginning in new.items():
            places = topics[name].places if name in topics else {}
            place = Place(beginning.first, begins[name, partition])
            topics[name] = TopicState(beginning.source, beginning.source_id, ids[name], {**places, partition: place})
        # Where a topic begins is decided once: what comes before the first chunk is not passed over by the next run.
        self._save(replace(self.state, topics=topics, writing={key: new[key].until for key in held}))
        self.resume()

    def held(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns those of the target's partitions that hold records."""
        wanted = list(partitions)
        names = {name for name, _ in wanted}
        begins, ends = self.target.cluster.begin_offsets(names), self.target.cluster.end_offsets(names)
        return [key for key in wanted if begins[key] != ends[key]]

    def adopt(self, until: Mapping[TopicPartition, int]) -> None:
        """Recognizes by its contents what was written after the checkpoint, which may be an old copy."""
        places = {key: place for key, place in self.state.places().items() if key in until}
        ends = self.target.cluster.end_offsets({topic for topic, _ in places})
        self._compare({key: until[key] for key, place in places.items() if ends[key] > place.end})

    def _compare(self, until: Mapping[TopicPartition, int]) -> None:
        """Continues after what the target has, as if a run had died while it wrote up to these source offsets."""
        if until:
            self._save(replace(self.state, writing=until))
            self.resume()

    def resume(self) -> None:
        """Finds out how far the run before this one came, if it died while it wrote."""
        places = {key: place for key, place in self.state.places().items() if key in self.state.writing}
        if not places:
            return
        ends = settled_ends(self.target, {topic for topic, _ in places})
        for key, place in places.items():
            if ends[key] < place.end:
                raise self._not_alone(key, ends[key] - place.end)
        grown = {key: range(place.end, ends[key]) for key, place in places.items() if ends[key] > place.end}
        try:
            reached = Recovery(self.spark, self.source, self.target, self.state).reached(grown) if grown else {}
        except Mismatch as mismatch:
            raise self._not_ours(mismatch) from None
        except Unclear as unclear:
            raise self._not_clear(unclear) from None
        self._save(self.state.moved({key: Place(reached[key], span.stop) for key, span in grown.items()}))

    def _save(self, state: State) -> None:
        self.states.save(state)
        self.state = state

    def _check(self, chunk: Chunk, written: Mapping[TopicPartition, int]) -> None:
        """Counts the source's records only where offsets without a record may explain a difference."""
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

    # ---- what to say

    def not_empty(self, key: TopicPartition) -> Failure:
        return Failure(
            f"{self.target.name(key)} holds records that this job did not write. If they are what it would write"
            " (the checkpoint is lost), run with --adopt; otherwise choose another name for the topic, or delete it"
        )

    def _not_alone(self, key: TopicPartition, surplus: int) -> Failure:
        advice = self.advice(key[0])
        if surplus > 0:
            return Failure(
                f"{self.target.name(key)} has {surplus} more records than this job wrote: something else writes there,"
                f" or the checkpoint {self.states.folder.uri()} is an old copy (then run with --adopt);"
                f" otherwise {advice}"
            )
        return Failure(
            f"{self.target.name(key)} has {-surplus} fewer records than this job wrote: the cluster lost them, or the"
            f" topic was created again; {advice}"
        )

    def _not_ours(self, mismatch: Mismatch) -> Failure:
        where = self.target.name((mismatch.topic, mismatch.partition))
        return Failure(
            f"offset {mismatch.offset} of {where} holds another record than this job would have written there:"
            f" something else writes to the topic; {self.advice(mismatch.topic)}"
        )

    def _not_clear(self, unclear: Unclear) -> Failure:
        where = self.target.name((unclear.topic, unclear.partition))
        return Failure(
            f"the records of {where} repeat themselves, and the source has lost some of them since then: how far the"
            f" last run came cannot be determined; {self.advice(unclear.topic)}"
        )
