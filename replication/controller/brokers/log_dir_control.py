"""Decides on the log dirs of brokers: those that have failed, and which replica lies in which (KIP-858).

Rules:
- A broker says in its heartbeats which of its dirs have failed. It leaves what it leads there, and the in-sync replicas
  of what it follows there, like a broker that goes; and it has a dir less. Its other dirs are not concerned. The dir is
  back when the broker registers it again, which it does at its next start.
- AssignReplicasToDirs says where replicas lie. One that lies in a dir that has failed leaves the in-sync replicas with
  that: the broker may have chosen the dir just before it failed.
- A replica that was in a dir which its broker has no more, and is in another one now, began anew there: whatever it was
  eligible for, it is not any more. Kafka lets it be.
- A partition without a leader may get one because its replica is in a dir that works. Kafka waits for the next event.
Every partition stands or falls alone.
"""

from collections.abc import Sequence

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.brokers.moving import failed_dir_records
from barnabas.replication.controller.cluster_control import check_broker_epoch
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.partitions.circumstances import circumstances_of
from barnabas.replication.controller.partitions.directories import are_known, assigned, directory_of, is_online
from barnabas.replication.controller.partitions.partition_changes import Candidates, partition_change
from barnabas.replication.controller.settings import ControllerSettings, Deciding
from barnabas.replication.metadata.image import METADATA_VERSION, BrokerImage, MetadataImage, PartitionImage, TopicImage


def failed_records(
    broker_id: int, offline: Sequence[Uuid], image: MetadataImage, settings: ControllerSettings
) -> list[MetadataRecord]:
    """Returns the records that take failed log dirs from a broker; none if they are known to have failed."""
    broker = image.brokers[broker_id]
    failed = [directory for directory in broker.log_dirs if directory in offline]
    if not failed or not are_known(image):
        return []
    records: list[MetadataRecord] = [*failed_dir_records(broker_id, failed, image, settings)]
    left = [directory for directory in broker.log_dirs if directory not in failed]
    if left:  # a record cannot say that none is; the broker is about to end then
        records.append(
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch, log_dirs=left)
        )
    return records


def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, image: MetadataImage, deciding: Deciding
) -> Decision[AssignReplicasToDirsResponse]:
    if not are_known(image):
        raise refused(ErrorCode.UNSUPPORTED_VERSION, f"The cluster's {METADATA_VERSION} knows no log dirs.")
    check_broker_epoch(request.broker_id, request.broker_epoch, image)
    assignment = _Assignment(image.brokers[request.broker_id], image, deciding.settings)
    results = [assignment.directory(asked) for asked in request.directories]
    return Decision(assignment.records, AssignReplicasToDirsResponse(directories=results))


class _Assignment:
    """What one request makes of the partitions that it names."""

    def __init__(self, broker: BrokerImage, image: MetadataImage, settings: ControllerSettings) -> None:
        self.records: list[PartitionChangeRecord] = []
        self._broker = broker
        self._image = image
        self._settings = settings

    def directory(self, asked: AssignedDirectory) -> DirectoryResult:
        return DirectoryResult(id=asked.id, topics=[self._topic(asked.id, topic) for topic in asked.topics])

    def _topic(self, directory: Uuid, asked: AssignedTopic) -> TopicResult:
        topic = self._image.topic_by_id(asked.topic_id)
        results = []
        for index in (partition.partition_index for partition in asked.partitions):
            code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._assign(directory, topic, index)
            results.append(PartitionResult(partition_index=index, error_code=code))
        return TopicResult(topic_id=asked.topic_id, partitions=results)

    def _assign(self, directory: Uuid, topic: TopicImage, index: int) -> ErrorCode:
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = topic.partitions[index]
        if self._broker.broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if (change := self._change(directory, topic, index, partition)) is not None:
            self.records.append(change)
        return ErrorCode.NONE

    def _change(
        self, directory: Uuid, topic: TopicImage, index: int, partition: PartitionImage
    ) -> PartitionChangeRecord | None:
        broker, brokers = self._broker, self._image.brokers
        broker_id, lost = broker.broker_id, None
        candidates, wanted = Candidates(brokers), assigned(partition, broker_id, directory)
        if not is_online(broker, directory):
            candidates = Candidates(brokers, leaving=broker_id)
            wanted = wanted._replace(isr=tuple(replica for replica in partition.isr if replica != broker_id))
        elif directory != (before := directory_of(partition, broker_id)) and not is_online(broker, before):
            lost = broker_id
        circumstances = circumstances_of(topic, self._image, self._settings, candidates)._replace(lost=lost)
        return partition_change(topic.topic_id, index, partition, wanted, circumstances)
