"""What an administrator asks for, without knowing who is alive: where the replicas of a partition are to go, and how
many of them are to be in sync."""

from collections.abc import Sequence
from random import Random

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.types import TopicPartition

_CANCELS = 0.2
_SET = 0


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


def min_insync_replicas(topic: str, count: int) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="min.insync.replicas", config_operation=_SET, value=str(count))
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=topic, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
