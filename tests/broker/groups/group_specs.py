"""Groups to assign to: members with letters for names, topics with small numbers."""

from collections.abc import Mapping

from barnabas.broker.groups.assignors import ASSIGNORS, GroupAssignment, GroupSpec, MemberSpec, Partitions
from barnabas.protocol.types import Uuid


def topic_id(number: int) -> Uuid:
    return number.to_bytes(16, "big")


def topic_number(uuid: Uuid) -> int:
    return int.from_bytes(uuid, "big")


class Subscriptions:
    """Who is subscribed to what, and how many partitions there are."""

    def __init__(
        self,
        counts: Mapping[int, int],
        topics: Mapping[str, frozenset[int]],
        instances: Mapping[str, str] | None = None,
    ) -> None:
        self.counts = counts
        self.topics = topics
        self.instances = instances or {}

    @property
    def is_homogeneous(self) -> bool:
        return len(set(self.topics.values())) <= 1

    def without(self, member_id: str) -> "Subscriptions":
        rest = {member: topics for member, topics in self.topics.items() if member != member_id}
        return Subscriptions(self.counts, rest, self.instances)

    def joined_by(self, member_id: str, topics: frozenset[int]) -> "Subscriptions":
        return Subscriptions(self.counts, {**self.topics, member_id: topics}, self.instances)

    def spec(self, current: GroupAssignment) -> GroupSpec:
        members = {
            member_id: MemberSpec(
                member_id=member_id,
                instance_id=self.instances.get(member_id),
                rack_id=None,
                topic_ids=frozenset(map(topic_id, topics)),
                assigned=current.get(member_id, {}),
            )
            for member_id, topics in self.topics.items()
        }
        return GroupSpec(members=members, is_homogeneous=self.is_homogeneous)

    def assign(self, assignor: str, current: GroupAssignment | None = None) -> GroupAssignment:
        return ASSIGNORS[assignor](self.spec(current or {}), lambda uuid: self.counts.get(topic_number(uuid), -1))


def flat(partitions: Partitions) -> set[tuple[int, int]]:
    return {(topic_number(uuid), partition) for uuid, owned in partitions.items() for partition in owned}


def of_pairs(pairs: set[tuple[int, int]]) -> Partitions:
    topics = {topic for topic, _ in pairs}
    return {topic_id(topic): frozenset(number for other, number in pairs if other == topic) for topic in sorted(topics)}


def sizes(assignment: GroupAssignment) -> list[int]:
    return sorted(len(flat(partitions)) for partitions in assignment.values())


def moved(before: GroupAssignment, after: GroupAssignment) -> int:
    """How many partitions changed hands, or found some."""
    return sum(len(flat(partitions) - flat(before.get(member_id, {}))) for member_id, partitions in after.items())
