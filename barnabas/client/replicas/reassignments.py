"""Asks the controller to move replicas and leaders, and what is under way."""

from collections.abc import Iterable, Mapping, Sequence

from barnabas.client.client import Client
from barnabas.client.errors import check
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition

Assignments = Mapping[TopicPartition, Sequence[int]]
"""The replicas of partitions, the preferred leader first."""
Refusals = dict[TopicPartition, tuple[ErrorCode, str]]
"""Why the controller did not do what was asked for, in its words."""

PREFERRED = 0
UNCLEAN = 1


class Ongoing(NamedTuple):
    """A reassignment that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def reassign(client: Client, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> Refusals:
    """Begins to move partitions to these replicas; None ends a move that is under way."""
    from barnabas.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics: dict[str, list[ReassignablePartition]] = {}
    for name, replicas in wanted.items():
        topics.setdefault(name.topic, []).append(
            ReassignablePartition(partition_index=name.partition, replicas=replicas)
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(client.timeout_s * 1000),
        topics=[ReassignableTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
    response = client.request(request, AlterPartitionReassignmentsResponse)
    check(response.error_code, response.error_message, "nothing was reassigned")
    return {
        TopicPartition(topic.name, each.partition_index): (ErrorCode(each.error_code), each.error_message or "")
        for topic in response.responses
        for each in topic.partitions
        if each.error_code
    }


def ongoing_reassignments(client: Client) -> dict[TopicPartition, Ongoing]:
    from barnabas.protocol.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )

    request = ListPartitionReassignmentsRequest(timeout_ms=int(client.timeout_s * 1000), topics=None)
    response = client.request(request, ListPartitionReassignmentsResponse)
    check(response.error_code, response.error_message, "the reassignments cannot be listed")
    return {
        TopicPartition(topic.name, each.partition_index): Ongoing(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def elect_leaders(client: Client, election_type: int, partitions: Iterable[TopicPartition] | None) -> Refusals:
    """Has leaders elected, of all partitions if none are named. A partition that has the leader it should have is no
    refusal."""
    from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for name in partitions:
            topics.setdefault(name.topic, []).append(name.partition)
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if topics is None
        else [TopicPartitions(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
        timeout_ms=int(client.timeout_s * 1000),
    )
    response = client.request(request, ElectLeadersResponse)
    check(response.error_code, None, "no leaders were elected")
    return {
        TopicPartition(topic.topic, each.partition_id): (ErrorCode(each.error_code), each.error_message or "")
        for topic in response.replica_election_results
        for each in topic.partition_result
        if each.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
    }
