"""The partitions that get other leaders, and other in-sync replicas, because a broker comes or goes."""

from collections.abc import Callable, Collection, Iterator

from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.elr import is_elr_enabled
from barnabas.replication.controller.partitions.circumstances import circumstances_of
from barnabas.replication.controller.partitions.directories import directory_of
from barnabas.replication.controller.partitions.partition_changes import Candidates, partition_change
from barnabas.replication.controller.settings import ControllerSettings
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage


def joining_records(
    broker_id: int, image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    """Yields the records by which partitions without a leader get one, now that this broker is active."""
    candidates = Candidates(image.brokers, joining=broker_id)
    return _changes(image, settings, candidates, lambda partition: partition.leader == NO_LEADER)


def leaving_records(
    broker_id: int, image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    """Yields the records by which the broker leaves the leadership and the in-sync replicas of its partitions. It stays
    eligible to lead where nothing can be committed without it: it may come back with all that it had."""
    candidates = Candidates(image.brokers, leaving=broker_id)
    return _changes(image, settings, candidates, lambda partition: broker_id in partition.isr)


def failed_dir_records(
    broker_id: int, failed: Collection[Uuid], image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    """Yields the records by which the broker leaves the partitions that it has in these log dirs, and no others."""
    candidates = Candidates(image.brokers, leaving=broker_id)

    def is_concerned(partition: PartitionImage) -> bool:
        return broker_id in partition.isr and directory_of(partition, broker_id) in failed

    return _changes(image, settings, candidates, is_concerned)


def lost_records(broker_id: int, image: MetadataImage, settings: ControllerSettings) -> Iterator[PartitionChangeRecord]:
    """Yields the records by which a broker is neither in sync nor eligible any more: after an unclean shutdown it may
    miss what it had acknowledged. Without ELR that makes no difference, and it leaves like any other."""
    if not is_elr_enabled(image):
        return leaving_records(broker_id, image, settings)
    candidates = Candidates(image.brokers, leaving=broker_id)

    def is_concerned(partition: PartitionImage) -> bool:
        return broker_id in partition.isr or broker_id in partition.eligible_leader_replicas

    return _changes(image, settings, candidates, is_concerned, lost=broker_id)


def _changes(
    image: MetadataImage,
    settings: ControllerSettings,
    candidates: Candidates,
    is_concerned: Callable[[PartitionImage], bool],
    lost: int | None = None,
) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        concerned = [index for index, partition in enumerate(topic.partitions) if is_concerned(partition)]
        if not concerned:
            continue
        circumstances = circumstances_of(topic, image, settings, candidates)._replace(lost=lost)
        for index in concerned:
            partition = topic.partitions[index]
            isr = tuple(replica for replica in partition.isr if replica != candidates.leaving)
            wanted = partition._replace(isr=isr)
            change = partition_change(topic.topic_id, index, partition, wanted, circumstances)
            if change is not None:
                yield change
