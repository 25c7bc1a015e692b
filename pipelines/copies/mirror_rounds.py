"""Runs one round of a mirror: looks at both clusters, prepares the target, copies a chunk."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from barnabas.pipelines.copies.copying import Chunk, next_chunk
from barnabas.pipelines.copies.exact_write import Beginning, ExactWriter
from barnabas.pipelines.copies.mirror_source import MirrorSource
from barnabas.pipelines.copies.mirror_topics import NewTopics
from barnabas.pipelines.copies.write_state import Place, State, TopicState
from barnabas.pipelines.shared.cluster import Cluster, Topic
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.kafka_rows import TopicPartition
from barnabas.pipelines.shared.position import chosen_offset


class Ends(NamedTuple):
    """The offsets that a source partition holds."""

    begin: int
    end: int


class Sight(NamedTuple):
    """Both clusters at one moment. Keys are names at the target."""

    sources: Mapping[str, Topic]
    targets: Mapping[str, Topic]
    ends: Mapping[TopicPartition, Ends]
    """The ends of the source's partitions."""


class Mirror:
    def __init__(
        self,
        writer: ExactWriter,
        source: MirrorSource,
        new_topics: NewTopics,
        find_topics: Callable[[], dict[str, Topic]],
        *,
        adopt: bool,
    ) -> None:
        """Takes `find_topics`, which returns the source topics to copy, by name at the target."""
        self.writer = writer
        self.source = source
        self.new_topics = new_topics
        self.find_topics = find_topics
        self.adopt = adopt
        self.lost_offsets = 0

    @property
    def state(self) -> State:
        return self.writer.state

    @property
    def target(self) -> Cluster:
        return self.writer.target.cluster

    def look(self) -> Sight:
        """Raises Failure if either cluster has something else under a name than it had."""
        sources = self.find_topics()
        self.source.names.update({name: topic.name for name, topic in sources.items()})
        targets = self.target.topics(sources, configs=False)
        for name, known in self.state.topics.items():
            if name in sources:
                _require_same(name, known, sources[name], targets.get(name))
        names = {topic.name for topic in sources.values()}
        begins, ends = self.source.cluster.begin_offsets(names), self.source.cluster.end_offsets(names)
        found = {
            (name, partition): Ends(begins[topic.name, partition], ends[topic.name, partition])
            for name, topic in sources.items()
            for partition in range(topic.partitions)
        }
        for (name, partition), place in self.state.places().items():
            if place.next > found.get((name, partition), Ends(0, place.next)).end:
                raise Failure(
                    f"{self.source.names[name]}-{partition} at {self.source.cluster.bootstrap_servers} was copied up to"
                    f" offset {place.next}, and now it ends before that: the source lost records; {start_over(name)}"
                )
        return Sight(sources, targets, found)

    def prepare(self, sight: Sight, starting_offsets: str) -> None:
        """Creates topics and partitions that the target lacks, and begins with those that the state lacks."""
        new = self.new_partitions(sight, starting_offsets)
        self.require_empty(sight, new)
        for name, topic in sight.sources.items():
            if name not in sight.targets:
                self.new_topics.create(name, topic.name)
            elif sight.targets[name].partitions < topic.partitions:
                self.target.create_partitions(name, topic.partitions)
        if new or self.writer.states.is_new:  # also without a topic: those that appear later are copied whole
            self.writer.begin(new, adopt=self.adopt)

    def new_partitions(self, sight: Sight, starting_offsets: str) -> dict[TopicPartition, Beginning]:
        known = self.state.places()
        found = {}
        for (name, partition), ends in sight.ends.items():
            if (name, partition) not in known:
                topic = sight.sources[name]
                first = chosen_offset(starting_offsets, topic.name, partition, *ends)
                found[name, partition] = Beginning(topic.name, topic.id, first, ends.end)
        return found

    def require_empty(self, sight: Sight, new: Mapping[TopicPartition, Beginning]) -> None:
        """Raises Failure if a partition to begin with holds records, unless they are to be adopted."""
        there = [key for key in new if key[0] in sight.targets and key[1] < sight.targets[key[0]].partitions]
        if there and not self.adopt and (held := self.writer.held(there)):
            raise self.writer.not_empty(held[0])

    def skip_lost(self, sight: Sight, *, fail: bool) -> None:
        """Skips what retention deleted at the source before this mirror copied it, or raises Failure."""
        places = self.state.places()
        begins = {key: found.begin for key, found in sight.ends.items()}
        lost = {key: range(place.next, begins.get(key, 0)) for key, place in places.items()}
        lost = {key: span for key, span in lost.items() if span}
        if not lost:
            return
        (topic, partition), span = next(iter(lost.items()))
        if fail:
            raise Failure(
                f"{self.source.names[topic]}-{partition} at {self.source.cluster.bootstrap_servers} has lost offsets"
                f" {span.start} to {span.stop - 1} before they were copied (retention, or records were deleted):"
                " run with --fail-on-data-loss false to continue without them"
            )
        self.lost_offsets += sum(len(each) for each in lost.values())
        self.writer.state = self.state.moved({key: Place(each.stop, places[key].end) for key, each in lost.items()})

    def next_chunk(self, until: Mapping[TopicPartition, int], limit: int) -> Chunk:
        return next_chunk({key: place.next for key, place in self.state.places().items()}, until, limit)

    def resume(self) -> None:
        """Continues after what the previous run wrote, if it died; or after all that is there, to adopt it."""
        sight = self.look()
        self._leave_deleted({name for name, _ in self.state.writing} - set(sight.sources))
        self.writer.resume()
        if self.adopt:
            self.writer.adopt({key: ends.end for key, ends in sight.ends.items()})

    def _leave_deleted(self, names: set[str]) -> None:
        """Forgets topics that the last run was copying when it died and that were deleted since: nothing is left to
        compare."""
        there = self.source.cluster.topics({self.state.topics[name].source for name in names}, configs=False)
        for name in names:
            if self.state.topics[name].source in there:
                raise Failure(
                    f"{self.state.topics[name].source} was being copied when the last run died, and now it is not one"
                    f" of the topics to copy; to continue without it, run with --start-over {name}"
                )
        writing = {key: until for key, until in self.state.writing.items() if key[0] not in names}
        self.writer.state = replace(self.state, writing=writing)


def start_over(name: str) -> str:
    return f"delete {name} at the target, or --rename it, and run with --start-over {name}"


def _require_same(name: str, known: TopicState, source: Topic, target: Topic | None) -> None:
    if known.source != source.name:
        raise Failure(f"{name} is the copy of {known.source} so far, not of {source.name}: undo the change of names")
    if known.source_id != source.id or source.partitions < len(known.places):
        raise Failure(
            f"{source.name} was deleted at the source and created again; to copy the new one, {start_over(name)}"
        )
    if target is None:
        raise Failure(f"{name} was deleted at the target; to copy it again, run with --start-over {name}")
    if known.target_id != target.id:
        raise Failure(f"{name} was deleted at the target and created again; to copy it again, {start_over(name)}")
