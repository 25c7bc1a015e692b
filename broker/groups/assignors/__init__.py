"""The assignors that a member of the consumer protocol can ask for by name."""

from barnabas.broker.groups.assignors import range as range_assignor
from barnabas.broker.groups.assignors import uniform
from barnabas.broker.groups.assignors.assignor import (
    Assignor,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
    PartitionCount,
    Partitions,
)

__all__ = ["ASSIGNORS", "Assignor", "GroupAssignment", "GroupSpec", "MemberSpec", "PartitionCount", "Partitions"]

ASSIGNORS: dict[str, Assignor] = {"uniform": uniform.assign, "range": range_assignor.assign}
