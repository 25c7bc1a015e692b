"""Decides on AlterPartition: a leader adds replicas to those in sync, or takes them out.

Rules:
- Only the leader speaks, in its leader epoch and about the partition as it is: a request that knows less than the
  controller is refused, and one that knows more says that this controller is not the active one any more.
- Who joins must be able to: registered under the epoch that the leader has seen, unfenced, and not about to stop
  (KIP-841, KIP-903). Otherwise a broker could be in sync that has just been fenced, or that has lost its disk. Ours:
  its log dir must not have failed. Kafka leaves that to the follower, which fetches no more.
- A leader that recovers from an unclean election is alone in sync until it says that it has recovered.
- A change may complete a reassignment, and by that change the leader: NEW_LEADER_ELECTED, and the record is written.
Every partition stands or falls alone.
"""

from collections.abc import Sequence

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.cluster_control import check_broker_epoch
from barnabas.replication.controller.decision import Decision
from barnabas.replication.controller.partitions.circumstances import circumstances_of
from barnabas.replication.controller.partitions.directories import directory_of, is_online
from barnabas.replication.controller.partitions.partition_changes import (
    RECOVERED,
    RECOVERING,
    Candidates,
    Circumstances,
    partition_change,
)
from barnabas.replication.controller.settings import Deciding
from barnabas.replication.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas.replication.metadata.image_delta import merged

VERSION_WITH_BROKER_EPOCHS = 3
_NOT_CHECKED = -1
"""The broker epoch of a replica whose leader does not know it."""


def alter_partition(
    request: AlterPartitionRequest, image: MetadataImage, deciding: Deciding
) -> Decision[AlterPartitionResponse]:
    check_broker_epoch(request.broker_id, request.broker_epoch, image)
    if deciding.context.api_version < VERSION_WITH_BROKER_EPOCHS:
        _take_any_epoch(request)
    records: list[PartitionChangeRecord] = []
    topics = [_altered_topic(request.broker_id, asked, image, deciding, records) for asked in request.topics]
    return Decision(records, AlterPartitionResponse(topics=topics))


def _take_any_epoch(request: AlterPartitionRequest) -> None:
    for topic in request.topics:
        for asked in topic.partitions:
            asked.new_isr_with_epochs = [BrokerState(broker_id=replica) for replica in asked.new_isr]


def _altered_topic(
    leader: int,
    asked: AlterPartitionTopic,
    image: MetadataImage,
    deciding: Deciding,
    records: list[PartitionChangeRecord],
) -> AlteredTopic:
    """Adds the records of the partitions that stand to `records`."""
    topic = image.topic_by_id(asked.topic_id)
    if topic is None:
        altered = [_refused(data, ErrorCode.UNKNOWN_TOPIC_ID) for data in asked.partitions]
    else:
        circumstances = circumstances_of(topic, image, deciding.settings, Candidates(image.brokers))
        altered = [_altered(leader, data, topic, image, circumstances, records) for data in asked.partitions]
    return AlteredTopic(topic_id=asked.topic_id, partitions=altered)


def _altered(
    leader: int,
    asked: AlterPartitionData,
    topic: TopicImage,
    image: MetadataImage,
    circumstances: Circumstances,
    records: list[PartitionChangeRecord],
) -> AlteredPartition:
    index = asked.partition_index
    if not 0 <= index < len(topic.partitions):
        return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.partitions[index]
    if (code := _why_refused(leader, asked, partition, image)) != ErrorCode.NONE:
        return _refused(asked, code)
    isr = tuple(state.broker_id for state in asked.new_isr_with_epochs)
    wanted = partition._replace(isr=isr, leader_recovery_state=asked.leader_recovery_state)
    change = partition_change(topic.topic_id, index, partition, wanted, circumstances)
    if change is not None:
        records.append(change)
        partition = merged(partition, change)
        if partition.leader != leader:
            return _refused(asked, ErrorCode.NEW_LEADER_ELECTED)
    return AlteredPartition(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _refused(asked: AlterPartitionData, code: ErrorCode) -> AlteredPartition:
    return AlteredPartition(partition_index=asked.partition_index, error_code=code)


def _why_refused(leader: int, asked: AlterPartitionData, partition: PartitionImage, image: MetadataImage) -> ErrorCode:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_possible(asked, partition):
        return ErrorCode.INVALID_REQUEST
    if not _are_eligible(asked.new_isr_with_epochs, partition, image):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_possible(asked: AlterPartitionData, partition: PartitionImage) -> bool:
    isr = [state.broker_id for state in asked.new_isr_with_epochs]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return False
    if asked.leader_recovery_state == RECOVERING:
        return len(isr) == 1 and partition.leader_recovery_state == RECOVERING
    return asked.leader_recovery_state == RECOVERED


def _are_eligible(states: Sequence[BrokerState], partition: PartitionImage, image: MetadataImage) -> bool:
    for state in states:
        broker = image.brokers.get(state.broker_id)
        if broker is None or not broker.is_active or state.broker_epoch not in (_NOT_CHECKED, broker.broker_epoch):
            return False
        if not is_online(broker, directory_of(partition, state.broker_id)):
            return False
    return True
