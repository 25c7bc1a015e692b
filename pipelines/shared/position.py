"""How far a job has read each topic, kept with what it wrote, and where it continues from there.

A job that writes its output and its position in one commit needs no checkpoint to be exact: Spark's checkpoint may be
old, lost or another job's. So these jobs begin each run with a new checkpoint, at the offsets that their output names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.pipelines.shared.cluster import Topic
from barnabas.pipelines.shared.failure import Failure

EARLIEST, LATEST = -2, -1

Offsets = Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class TopicState:
    id: str
    next_offsets: Mapping[int, int]
    """The next offset of each partition: everything below it was read, or was not there to be read."""

    @property
    def partitions(self) -> int:
        return len(self.next_offsets)


Topics = Mapping[str, TopicState]


@dataclass(frozen=True)
class Start:
    topics: dict[str, TopicState]
    """Every partition of every topic to be read."""
    lost: dict[tuple[str, int], int] = field(default_factory=dict)
    """How many offsets were deleted before they were read."""

    def starting_offsets(self) -> str:
        """Returns the text that Spark's option takes."""
        return json.dumps({name: topic.next_offsets for name, topic in self.topics.items()})


def resume(known: Topics, found: Mapping[str, Topic], begin: Offsets, end: Offsets, starting_offsets: str) -> Start:
    """Uses `starting_offsets`, as the user gave it, for topics that were never read; reads new partitions as a
    whole."""
    check_same_topics(known, found)
    start = Start({})
    for name, topic in found.items():
        offsets = {}
        for partition in range(topic.partitions):
            key = (name, partition)
            if name not in known:
                offsets[partition] = chosen_offset(starting_offsets, name, partition, begin[key], end[key])
            else:
                wanted = known[name].next_offsets.get(partition, begin[key])
                _check_not_ahead(key, wanted, end[key])
                offsets[partition] = max(wanted, begin[key])
                if wanted < begin[key]:
                    start.lost[key] = begin[key] - wanted
        start.topics[name] = TopicState(topic.id, offsets)
    return start


def check_same_topics(known: Topics, found: Mapping[str, Topic]) -> None:
    for name, topic in found.items():
        if name in known and known[name].id != topic.id:
            raise Failure(
                f"topic {name} was deleted and created again (id {known[name].id}, now {topic.id}): its offsets"
                " begin at 0 again and would mix with those already written; give the new topic another --output"
            )


def check_nothing_lost(start: Start, known: Topics, fail_on_data_loss: bool) -> None:
    if start.lost and fail_on_data_loss:
        (name, partition), count = max(start.lost.items(), key=lambda item: item[1])
        first = known[name].next_offsets[partition]
        raise Failure(
            f"{sum(start.lost.values())} offsets were deleted before they were read (most of them in"
            f" {name}-{partition}, {first} to {first + count - 1}): retention is faster than this job; to continue"
            " without them give --fail-on-data-loss false"
        )


def advance(
    known: Topics, ends: Offsets, before: Mapping[str, Topic], after: Mapping[str, Topic]
) -> dict[str, TopicState]:
    """Returns what a batch that ended at `ends` changes, if its topics were the same before and after it was read."""
    found: dict[str, dict[int, int]] = {}
    for (name, partition), offset in ends.items():
        if name not in before or name not in after:
            raise Failure(f"topic {name} was deleted while the job read it: its last records were not written")
        found.setdefault(name, {})[partition] = offset
    check_same_topics({name: TopicState(topic.id, {}) for name, topic in before.items()}, after)
    check_same_topics(known, after)
    return changed(known, {name: TopicState(after[name].id, offsets) for name, offsets in found.items()})


def changed(before: Topics, after: Topics) -> dict[str, TopicState]:
    """Returns what of `after` is not in `before`."""
    found = {}
    for name, topic in after.items():
        old = before[name].next_offsets if name in before else {}
        offsets = {
            partition: offset for partition, offset in topic.next_offsets.items() if old.get(partition) != offset
        }
        if offsets:
            found[name] = TopicState(topic.id, offsets)
    return found


def merged(before: Topics, after: Topics) -> dict[str, TopicState]:
    topics = dict(before)
    for name, topic in after.items():
        known = topics[name].next_offsets if name in topics else {}
        topics[name] = TopicState(topic.id, {**known, **topic.next_offsets})
    return topics


def topics_to_json(topics: Topics) -> dict[str, Any]:
    return {name: {"id": topic.id, "next": dict(topic.next_offsets)} for name, topic in topics.items()}


def topics_from_json(found: Mapping[str, Any]) -> dict[str, TopicState]:
    return {
        name: TopicState(topic["id"], {int(partition): offset for partition, offset in topic["next"].items()})
        for name, topic in found.items()
    }


def chosen_offset(starting_offsets: str, name: str, partition: int, begin: int, end: int) -> int:
    if starting_offsets in ("earliest", "latest"):
        return begin if starting_offsets == "earliest" else end
    given = json.loads(starting_offsets).get(name, {}).get(str(partition))
    if given is None:
        raise Failure(f"--starting-offsets lacks {name}-{partition}; write -2 for earliest, -1 for latest")
    offset = {EARLIEST: begin, LATEST: end}.get(given, given)
    if not begin <= offset <= end:
        raise Failure(f"--starting-offsets names {offset} in {name}-{partition}, which holds {begin} to {end - 1}")
    return int(offset)


def _check_not_ahead(key: tuple[str, int], wanted: int, end: int) -> None:
    if wanted > end:
        raise Failure(
            f"{key[0]}-{key[1]} was read up to offset {wanted - 1} and now ends at {end - 1}: the broker has lost"
            " records and will give their offsets to new ones; name another --output for these"
        )
