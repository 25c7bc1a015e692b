"""What a controller may decide about a partition, given what it has decided before, and at whose request."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import AlterPartitionData, AlterPartitionRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.brokers.fencing import UNFENCE
from barnabas.replication.controller.partitions.circumstances import UNCLEAN_LEADER_ELECTION_ENABLE
from barnabas.replication.controller.partitions.partition_changes import RECOVERING
from barnabas.replication.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage

NO_LEADER_CHANGE = -2
NO_STATE_CHANGE = -1
NO_EPOCH = -1
_OF_A_BROKER = (AlterPartitionRequest, BrokerHeartbeatRequest, AllocateProducerIdsRequest)


class Decision(NamedTuple):
    """What is about to be appended to the metadata that make this image, and what asked for it, if anybody did."""

    records: Sequence[MetadataRecord]
    image: MetadataImage
    request: Any = None

    def asked_of(self, topic_id: Uuid, partition_id: int) -> AlterPartitionData | None:
        """Returns what a leader has asked for a partition."""
        return next(
            (each for topic, each in self._asked() if (topic, each.partition_index) == (topic_id, partition_id)), None
        )

    def _asked(self) -> Iterator[tuple[Uuid, AlterPartitionData]]:
        if isinstance(self.request, AlterPartitionRequest):
            for topic in self.request.topics:
                for partition in topic.partitions:
                    yield topic.topic_id, partition


def check_decision(decision: Decision) -> None:
    seen = set()
    if decision.records and isinstance(decision.request, _OF_A_BROKER):
        old_brokers_change_nothing(decision.request, decision.image)
    for record in decision.records:
        if isinstance(record, PartitionChangeRecord):
            topic, key = decision.image.topic_by_id(record.topic_id), (record.topic_id, record.partition_id)
            if topic is not None and record.partition_id < len(topic.partitions) and key not in seen:
                seen.add(key)
                _check(record, topic, decision)


def _check(record: PartitionChangeRecord, topic: TopicImage, decision: Decision) -> None:
    name, before = f"{topic.name}-{record.partition_id}", topic.partitions[record.partition_id]
    replicas = before.replicas if record.replicas is None else record.replicas
    isr = before.isr if record.isr is None else record.isr
    leader = before.leader if record.leader == NO_LEADER_CHANGE else record.leader
    in_sync_are_replicas_and_one_of_them_leads(name, replicas, isr, leader)
    asked = decision.asked_of(record.topic_id, record.partition_id)
    if asked is not None:
        old_leaders_change_nothing(name, before, decision.request.broker_id, asked)
    who_joins_is_active(name, [each for each in isr if each not in before.isr], asked, decision)
    joined = [] if asked is None else [state.broker_id for state in asked.new_isr_with_epochs]
    if leader not in (NO_LEADER, before.leader, *before.isr, *before.eligible_leader_replicas, *joined):
        state = record.leader_recovery_state
        unclean_elections_are_told(name, leader, before.leader_recovery_state if state == NO_STATE_CHANGE else state)
        unclean_elections_are_allowed(topic.name, before, leader, decision.image)


def old_brokers_change_nothing(request: Any, image: MetadataImage) -> None:
    """I16: what a broker sent in an earlier life has no effect in a later one."""
    broker = image.brokers.get(request.broker_id)
    known = None if broker is None else broker.broker_epoch
    assert request.broker_epoch == known, f"I16: {request} has an effect, the broker epoch is {known}"


def old_leaders_change_nothing(name: str, before: PartitionImage, broker_id: int, asked: AlterPartitionData) -> None:
    """I16: who in sync is, is said by the leader of now, about the partition as it is now."""
    found = (broker_id, asked.leader_epoch, asked.partition_epoch)
    known = (before.leader, before.leader_epoch, before.partition_epoch)
    assert found == known, f"I16: {name} is changed by (leader, its epoch, partition epoch) {found}, known is {known}"


def who_joins_is_active(
    name: str, joining: Sequence[int], asked: AlterPartitionData | None, decision: Decision
) -> None:
    """I17: who becomes in sync is unfenced, stays, and lives the life in which it has caught up."""
    unfenced = [
        record.broker_id
        for record in decision.records
        if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced == UNFENCE
    ]
    epochs = {} if asked is None else {state.broker_id: state.broker_epoch for state in asked.new_isr_with_epochs}
    for broker_id in joining:
        broker = decision.image.brokers.get(broker_id)
        assert broker is not None, f"I17: {broker_id}, which is not registered, joins those in sync with {name}"
        assert broker.is_active or broker_id in unfenced, f"I17: {broker} joins those in sync with {name}"
        epoch = epochs.get(broker_id, NO_EPOCH)
        assert epoch in (NO_EPOCH, broker.broker_epoch), (
            f"I17: {broker_id} joins those in sync with {name} in epoch {epoch}, known is {broker.broker_epoch}"
        )


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
