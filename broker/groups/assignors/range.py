"""The range assignor: a member gets one run of neighbouring partitions of each topic.

- Members stand in a fixed order, those with an instance id first, by that id; then the others by member id. A static
  member that comes back under a new member id gets the same partitions.
- The first members get the partitions that are left over. So topics with equal numbers of partitions, read by the same
  members, are assigned alike, as a join of the two needs.
- Racks are ignored, as by Kafka's assignor of the consumer protocol.
"""

from barnabas.broker.groups.assignors.assignor import GroupAssignment, GroupSpec, MemberSpec, PartitionCount
from barnabas.protocol.types import Uuid


def assign(spec: GroupSpec, partition_count: PartitionCount) -> GroupAssignment:
    members = sorted(spec.members.values(), key=_order)
    assignment: dict[str, dict[Uuid, frozenset[int]]] = {member_id: {} for member_id in spec.members}
    for topic_id, subscribers in _subscribers(members, spec.is_homogeneous).items():
        quota, left_over = divmod(max(partition_count(topic_id), 0), len(subscribers))
        start = 0
        for index, member in enumerate(subscribers):
            end = start + quota + (index < left_over)
            if start == end:
                break
            assignment[member.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(assignment)


def _order(member: MemberSpec) -> tuple[bool, str]:
    return (True, member.member_id) if member.instance_id is None else (False, member.instance_id)


def _subscribers(members: list[MemberSpec], is_homogeneous: bool) -> dict[Uuid, list[MemberSpec]]:
    if is_homogeneous:
        return dict.fromkeys(members[0].topic_ids, members) if members else {}
    subscribers: dict[Uuid, list[MemberSpec]] = {}
    for member in members:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member)
    return subscribers
