"""Which partitions members keep, and which are left for others. What does not change is not copied."""

from collections.abc import Collection, Iterable, Mapping

from barnabas.broker.groups.assignors.assignor import MemberSpec, Partitions
from barnabas.protocol.types import Uuid

PartitionCounts = Mapping[Uuid, int]


def size_of(partitions: Partitions) -> int:
    return sum(map(len, partitions.values()))


def retained(member: MemberSpec, counts: PartitionCounts) -> Partitions:
    """Returns what the member has, without topics that it is no longer subscribed to and partitions that are gone."""
    assigned = member.assigned
    if all(
        topic_id in member.topic_ids and max(partitions, default=-1) < counts[topic_id]
        for topic_id, partitions in assigned.items()
    ):
        return assigned
    existing = {
        topic_id: frozenset(partition for partition in partitions if partition < counts[topic_id])
        for topic_id, partitions in assigned.items()
        if topic_id in member.topic_ids
    }
    return {topic_id: partitions for topic_id, partitions in existing.items() if partitions}


def unowned(assignments: Collection[Partitions], counts: PartitionCounts) -> dict[Uuid, list[int]]:
    """Returns the partitions that nobody has, in order, by topic."""
    left = dict(counts)
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            left[topic_id] -= len(partitions)
    free = {topic_id: set(range(counts[topic_id])) for topic_id, count in left.items() if count}
    for assignment in assignments if free else ():
        for topic_id in free.keys() & assignment.keys():
            free[topic_id] -= assignment[topic_id]
    return {topic_id: sorted(partitions) for topic_id, partitions in free.items()}


def with_added(partitions: Partitions, added: Mapping[Uuid, Iterable[int]]) -> Partitions:
    if not added:
        return partitions
    grown = {topic_id: partitions.get(topic_id, _NONE).union(more) for topic_id, more in added.items()}
    return {**partitions, **grown}


_NONE: frozenset[int] = frozenset()
