"""The uniform assignor, the default: every member gets as much as the others, and keeps what it has where that allows.

- Balance first: where all are subscribed to the same topics, no two members differ by more than one partition.
- Then stickiness: only as many partitions move as balance needs. The members that have the most keep what is left over
  when all get the same.
- A member whose partitions do not change gets the very object that it had.
- Racks are ignored, as by Kafka's assignor.

A group whose members are subscribed to different topics is balanced topic by topic, in `uniform_heterogeneous`.
"""

from collections.abc import Iterator
from itertools import islice

from barnabas.broker.groups.assignors import uniform_heterogeneous
from barnabas.broker.groups.assignors.assignor import GroupAssignment, GroupSpec, PartitionCount, Partitions
from barnabas.broker.groups.assignors.ownership import retained, size_of, unowned, with_added
from barnabas.protocol.types import Uuid


def assign(spec: GroupSpec, partition_count: PartitionCount) -> GroupAssignment:
    if not spec.members:
        return {}
    if not spec.is_homogeneous:
        return uniform_heterogeneous.assign(spec, partition_count)
    topic_ids = next(iter(spec.members.values())).topic_ids
    counts = {topic_id: max(partition_count(topic_id), 0) for topic_id in sorted(topic_ids)}
    kept = {member_id: retained(member, counts) for member_id, member in spec.members.items()}
    quotas = _quotas({member_id: size_of(partitions) for member_id, partitions in kept.items()}, sum(counts.values()))
    kept = {member_id: _at_most(quotas[member_id], partitions) for member_id, partitions in kept.items()}
    unassigned = iter(
        [(topic_id, partition) for topic_id, free in unowned(kept.values(), counts).items() for partition in free]
    )
    return {member_id: _filled(partitions, quotas[member_id], unassigned) for member_id, partitions in kept.items()}


def _quotas(sizes: dict[str, int], total: int) -> dict[str, int]:
    """Returns how many partitions each member shall have."""
    minimum, left_over = divmod(total, len(sizes))
    largest_first = sorted(sizes, key=sizes.__getitem__, reverse=True)
    return {member_id: minimum + (index < left_over) for index, member_id in enumerate(largest_first)}


def _at_most(quota: int, partitions: Partitions) -> Partitions:
    if size_of(partitions) <= quota:
        return partitions
    kept = {}
    for topic_id, owned in partitions.items():
        if quota <= 0:
            break
        kept[topic_id] = owned if len(owned) <= quota else frozenset(sorted(owned)[:quota])
        quota -= len(owned)
    return kept


def _filled(partitions: Partitions, quota: int, unassigned: Iterator[tuple[Uuid, int]]) -> Partitions:
    added: dict[Uuid, list[int]] = {}
    for topic_id, partition in islice(unassigned, quota - size_of(partitions)):
        added.setdefault(topic_id, []).append(partition)
    return with_added(partitions, added)
