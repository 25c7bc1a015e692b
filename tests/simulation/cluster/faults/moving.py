"""Where the replicas of a partition are to go: what an administrator asks for, without knowing who is alive."""

from collections.abc import Sequence
from random import Random

from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.types import TopicPartition

_CANCELS = 0.2


def reassignment(
    partition: TopicPartition, broker_ids: Sequence[int], *, at_least: int, random: Random
) -> AlterPartitionReassignmentsRequest:
    """Draws so many brokers or more, in any order, or takes back what was asked for before."""
    replicas = random.sample(broker_ids, random.randint(min(at_least, len(broker_ids)), len(broker_ids)))
    target = ReassignablePartition(
        partition_index=partition.partition, replicas=None if random.random() < _CANCELS else replicas
    )
    return AlterPartitionReassignmentsRequest(
        timeout_ms=3_000, topics=[ReassignableTopic(name=partition.topic, partitions=[target])]
    )
