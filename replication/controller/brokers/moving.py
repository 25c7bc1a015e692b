"""The partitions that get other leaders, and other in-sync replicas, because a broker comes or goes."""

from collections.abc import Iterator

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.partition_changes import Candidates, Election, partition_change
from barnabas.replication.controller.settings import ControllerSettings
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, TopicImage

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"


def joining_records(
    broker_id: int, image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    """Yields the records by which partitions without a leader get one, now that this broker is active."""
    candidates = Candidates(image.brokers, joining=broker_id)
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == NO_LEADER:
                election = _election(topic, image, settings)
                if (change := partition_change(topic.topic_id, index, partition, candidates, election)) is not None:
                    yield change


def leaving_records(
    broker_id: int, image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    """Yields the records by which the broker leaves the leadership and the in-sync replicas of its partitions."""
    candidates = Candidates(image.brokers, leaving=broker_id)
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if broker_id in partition.isr or broker_id == partition.leader:
                election = _election(topic, image, settings)
                if (change := partition_change(topic.topic_id, index, partition, candidates, election)) is not None:
                    yield change


def _election(topic: TopicImage, image: MetadataImage, settings: ControllerSettings) -> Election:
    text = image.config(ResourceType.TOPIC, topic.name).get(UNCLEAN_LEADER_ELECTION_ENABLE)
    unclean = settings.unclean_leader_election_enable if text is None else text.strip().lower() == "true"
    return Election.UNCLEAN if unclean else Election.ONLINE
