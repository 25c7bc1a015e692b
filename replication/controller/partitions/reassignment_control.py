"""Decides on AlterPartitionReassignments and ListPartitionReassignments.

Every partition stands or falls alone. A reassignment that has nothing to wait for ends with the record that begins it.
Deviation: a partition that a request names twice is refused, both times. Kafka mixes the two into one, which may be led
by a replica that is not in sync.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.partitions.circumstances import circumstances_of
from barnabas.replication.controller.partitions.partition_changes import Candidates, Election, partition_change
from barnabas.replication.controller.partitions.reassignment import begun, is_reassigning, reverted
from barnabas.replication.controller.settings import Deciding
from barnabas.replication.metadata.image import MetadataImage, PartitionImage, TopicImage


def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, image: MetadataImage, deciding: Deciding
) -> Decision[AlterPartitionReassignmentsResponse]:
    may_change_factor = request.allow_replication_factor_change
    records: list[PartitionChangeRecord] = []
    times = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)

    def altered(topic: ReassignableTopic, partition: ReassignablePartition) -> ReassignablePartitionResponse:
        result = ReassignablePartitionResponse(
            partition_index=partition.partition_index, error_code=ErrorCode.NONE, error_message=None
        )
        try:
            if times[topic.name, partition.partition_index] > 1:
                raise refused(ErrorCode.INVALID_REQUEST, "The partition is named more than once.")
            change = _change(topic.name, partition, may_change_factor, image, deciding)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            records.extend([change] if change is not None else [])
        return result

    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[altered(topic, partition) for partition in topic.partitions]
        )
        for topic in request.topics
    ]
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.NONE,
        error_message=None,
        responses=responses,
    )
    return Decision(records, response)


def _change(
    name: str, asked: ReassignablePartition, may_change_factor: bool, image: MetadataImage, deciding: Deciding
) -> PartitionChangeRecord | None:
    topic, partition = image.topic(name), image.partition(name, asked.partition_index)
    if topic is None or partition is None:
        raise refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{asked.partition_index}.")
    circumstances = circumstances_of(topic, image, deciding.settings, Candidates(image.brokers))
    if asked.replicas is None:
        wanted = _cancelled(partition, is_unclean_allowed=circumstances.election is Election.UNCLEAN)
    else:
        _check_target(asked.replicas, image)
        if not may_change_factor:
            _check_factor(asked.replicas, partition)
        wanted = begun(partition, asked.replicas)
        circumstances = circumstances._replace(election=Election.ONLINE)
    return partition_change(topic.topic_id, asked.partition_index, partition, wanted, circumstances)


def _cancelled(partition: PartitionImage, *, is_unclean_allowed: bool) -> PartitionImage:
    if not is_reassigning(partition):
        raise refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    wanted, is_unclean = reverted(partition)
    if is_unclean and not is_unclean_allowed:
        raise _invalid("To cancel this reassignment would require an unclean leader election.")
    return wanted


def _check_target(replicas: Sequence[int], image: MetadataImage) -> None:
    if not replicas:
        raise _invalid("The assignment includes no replica.")
    for broker_id in replicas:
        if broker_id not in image.brokers:
            raise _invalid(f"The assignment includes broker {broker_id}, which is not registered.")
    if len(set(replicas)) != len(replicas):
        raise _invalid("The assignment includes a broker more than once.")


def _check_factor(replicas: Sequence[int], partition: PartitionImage) -> None:
    """Raises if the partition would have more replicas, or fewer, than it will have without this request."""
    factor = len(set(partition.replicas).difference(partition.removing_replicas))
    if factor != len(replicas):
        raise refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(replicas)}",
        )


def _invalid(reason: str) -> KafkaError:
    return refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


# ---- ListPartitionReassignments


def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, image: MetadataImage, _: Deciding
) -> Decision[ListPartitionReassignmentsResponse]:
    asked: list[tuple[TopicImage, Iterable[int]]]
    if request.topics is None:
        asked = [(topic, range(len(topic.partitions))) for topic in image.topics.values()]
    else:
        asked = [
            (topic, each.partition_indexes) for each in request.topics if (topic := image.topic(each.name)) is not None
        ]
    topics = [
        OngoingTopicReassignment(name=topic.name, partitions=found)
        for topic, indexes in asked
        if (found := _ongoing(topic, indexes))
    ]
    return Decision(
        [], ListPartitionReassignmentsResponse(error_code=ErrorCode.NONE, error_message=None, topics=topics)
    )


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> list[OngoingPartitionReassignment]:
    return [
        OngoingPartitionReassignment(
            partition_index=index,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
        for index in indexes
        if 0 <= index < len(topic.partitions) and is_reassigning(partition := topic.partitions[index])
    ]
