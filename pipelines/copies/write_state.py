"""What a copying job knows about its target, saved before and after every chunk."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.commit_log import CommitLog
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.kafka_rows import TopicPartition

KEPT = 10
"""States to look back on; only the newest is ever used."""


class Place(NamedTuple):
    """The position of one target partition: the source offset to continue with, and where the target ended then."""

    next: int
    end: int


@dataclass(frozen=True)
class TopicState:
    """One target topic. The ids distinguish a topic from a later one of the same name."""

    source: str
    source_id: str
    target_id: str
    places: Mapping[int, Place]


@dataclass(frozen=True)
class State:
    about: Mapping[str, str]
    """What must be the same in every run: the job, its clusters, its range."""
    topics: Mapping[str, TopicState] = field(default_factory=dict)
    writing: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Target partitions that are being written, each from its place up to this source offset (exclusive)."""

    def places(self) -> dict[TopicPartition, Place]:
        return {(name, number): place for name, topic in self.topics.items() for number, place in topic.places.items()}

    def moved(self, places: Mapping[TopicPartition, Place]) -> "State":
        """Returns the state with these partitions at other places, and nothing being written."""
        by_topic: dict[str, dict[int, Place]] = {}
        for (name, number), place in places.items():
            by_topic.setdefault(name, {})[number] = place
        changed = {
            name: replace(self.topics[name], places={**self.topics[name].places, **new})
            for name, new in by_topic.items()
        }
        return replace(self, topics={**self.topics, **changed}, writing={})


class StateLog:
    """The newest state below a checkpoint. Of two runs that would continue from it, one is refused."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._log = CommitLog(folder, "state")
        self._number = 0

    @property
    def is_new(self) -> bool:
        """Says whether no run has saved a state so far."""
        return self._number == 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Refuses a second run at once, where the file system has locks."""
        try:
            lock = self.folder.lock("state/lock")
        except BlockingIOError:
            raise self._taken() from None
        try:
            yield
        finally:
            if lock is not None:
                lock.close()

    def load(self) -> State | None:
        record = self._log.latest()
        if record is None:
            return None
        self._number = record["number"]
        return _from_json(record)

    def save(self, state: State) -> None:
        """Saves the state, which outlives this process from here on."""
        if not self._log.append({"number": self._number + 1, **_to_json(state)}):
            raise self._taken()
        self._number += 1
        self._log.drop(before=self._number - KEPT)

    def _taken(self) -> Failure:
        return Failure(f"another run uses the checkpoint {self.folder.uri()}: end it, or name another checkpoint")


def _to_json(state: State) -> dict[str, Any]:
    topics = {
        name: {
            "source": topic.source,
            "source_id": topic.source_id,
            "target_id": topic.target_id,
            "partitions": {str(number): place._asdict() for number, place in sorted(topic.places.items())},
        }
        for name, topic in sorted(state.topics.items())
    }
    writing: dict[str, dict[str, int]] = {}
    for (name, number), until in sorted(state.writing.items()):
        writing.setdefault(name, {})[str(number)] = until
    return {"about": dict(state.about), "topics": topics, "writing": writing}


def _from_json(record: dict[str, Any]) -> State:
    topics = {
        name: TopicState(
            topic["source"],
            topic["source_id"],
            topic["target_id"],
            {int(number): Place(**place) for number, place in topic["partitions"].items()},
        )
        for name, topic in record["topics"].items()
    }
    writing = {
        (name, int(number)): until
        for name, partitions in record["writing"].items()
        for number, until in partitions.items()
    }
    return State(record["about"], topics, writing)
