"""What a controller may decide about a partition, given what it has decided before."""

from collections.abc import Sequence

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.partitions.circumstances import UNCLEAN_LEADER_ELECTION_ENABLE
from barnabas.replication.controller.partitions.partition_changes import RECOVERING
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage

NO_LEADER_CHANGE = -2
NO_STATE_CHANGE = -1


def check_decisions(records: Sequence[MetadataRecord], image: MetadataImage) -> None:
    """Checks what is about to be appended to the metadata that make this image."""
    seen = set()
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            topic, key = image.topic_by_id(record.topic_id), (record.topic_id, record.partition_id)
            if topic is not None and record.partition_id < len(topic.partitions) and key not in seen:
                seen.add(key)
                _check(record, topic, image)


def _check(record: PartitionChangeRecord, topic: TopicImage, image: MetadataImage) -> None:
    name, before = f"{topic.name}-{record.partition_id}", topic.partitions[record.partition_id]
    replicas = before.replicas if record.replicas is None else record.replicas
    isr = before.isr if record.isr is None else record.isr
    leader = before.leader if record.leader == NO_LEADER_CHANGE else record.leader
    in_sync_are_replicas_and_one_of_them_leads(name, replicas, isr, leader)
    if leader not in (NO_LEADER, before.leader, *before.isr, *before.eligible_leader_replicas):
        state = record.leader_recovery_state
        unclean_elections_are_told(name, leader, before.leader_recovery_state if state == NO_STATE_CHANGE else state)
        unclean_elections_are_allowed(topic.name, before, leader, image)


def in_sync_are_replicas_and_one_of_them_leads(
    name: str, replicas: Sequence[int], isr: Sequence[int], leader: int
) -> None:
    """I17."""
    assert set(isr) <= set(replicas), f"I17: in sync with {name} are {isr}, its replicas are {replicas}"
    assert leader == NO_LEADER or leader in isr, f"I17: {name} is led by {leader}, in sync are {isr}"


def unclean_elections_are_told(name: str, leader: int, recovery_state: int) -> None:
    """I18: leaders are elected from those in sync or eligible, or the record says that they must recover."""
    assert recovery_state == RECOVERING, f"I18: {leader} leads {name}, and was neither in sync nor eligible"


def unclean_elections_are_allowed(topic: str, before: PartitionImage, leader: int, image: MetadataImage) -> None:
    """I18: the topic wants them, or it is the last leader, and nobody who is eligible is left."""
    is_wanted = image.config(ResourceType.TOPIC, topic).get(UNCLEAN_LEADER_ELECTION_ENABLE) == "true"
    assert is_wanted or leader in before.last_known_elr, f"I18: {leader} leads {topic} uncleanly after {before}"
