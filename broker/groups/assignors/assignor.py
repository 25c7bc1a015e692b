"""The input and the output of an assignor (KIP-848: the broker assigns)."""

from collections.abc import Callable, Mapping

from barnabas.protocol.types import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by topic id. No topic is mapped to an empty set."""
PartitionCount = Callable[[Uuid], int]
"""Returns the number of partitions of a topic; -1 if the topic is gone, and there is nothing of it to assign."""
GroupAssignment = dict[str, Partitions]
"""The partitions of each member, by its id. A member without any is listed too."""


class MemberSpec:
    __slots__ = ("assigned", "instance_id", "member_id", "rack_id", "topic_ids")

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        rack_id: str | None,
        topic_ids: frozenset[Uuid],
        assigned: Partitions,
    ) -> None:
        """Takes as `assigned` the target that holds until now. The targets of a group never overlap."""
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.topic_ids = topic_ids
        self.assigned = assigned


class GroupSpec:
    __slots__ = ("is_homogeneous", "members")

    def __init__(self, *, members: Mapping[str, MemberSpec], is_homogeneous: bool) -> None:
        """Takes as `is_homogeneous` whether all members are subscribed to the same topics."""
        self.members = members
        self.is_homogeneous = is_homogeneous


Assignor = Callable[[GroupSpec, PartitionCount], GroupAssignment]
