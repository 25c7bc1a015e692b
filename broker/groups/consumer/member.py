"""A member of a consumer group, as its records describe it (KIP-848).

A member never changes; the next record creates another. Its partitions carry the epoch in which each was assigned, so
that a commit under an older member epoch is still good for a partition that the member has owned all along (KIP-1251).
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum

from barnabas.broker.groups.assignors import Partitions
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)
from barnabas.protocol.types import Uuid

JOIN_GROUP_MEMBER_EPOCH = 0
LEAVE_GROUP_MEMBER_EPOCH = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2

PartitionEpochs = Mapping[Uuid, Mapping[int, int]]
"""The epoch in which each partition was assigned, by topic id and partition. No topic is mapped to nothing."""
NO_PARTITIONS: PartitionEpochs = {}


class MemberState(IntEnum):
    """Numbered as in the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has been asked to give partitions up, and has not said so far that it did."""
    UNRELEASED_PARTITIONS = 2
    """Some of its partitions are still with another member."""
    UNKNOWN = 127
    """A state that a later version of the broker wrote."""


class ConsumerMember(NamedTuple):
    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    """Empty if there is none."""
    server_assignor: str | None = None
    assigned_partitions: PartitionEpochs = NO_PARTITIONS
    partitions_pending_revocation: PartitionEpochs = NO_PARTITIONS
    classic: ClassicMemberMetadata | None = None
    """Set for a member that uses the classic protocol in a consumer group."""

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    @property
    def classic_protocols(self) -> Sequence[ClassicProtocol]:
        return self.classic.supported_protocols if self.classic is not None else ()

    def is_reconciled_to(self, target_assignment_epoch: int) -> bool:
        return self.state == MemberState.STABLE and self.member_epoch == target_assignment_epoch

    def assignment_epoch_of(self, topic_id: Uuid, partition: int) -> int | None:
        """Returns the epoch in which the partition was assigned; None if the partition is not the member's."""
        epoch = self.assigned_partitions.get(topic_id, {}).get(partition)
        if epoch is None:
            epoch = self.partitions_pending_revocation.get(topic_id, {}).get(partition)
        return epoch

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        return self._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if value.state in _KNOWN_STATES else MemberState.UNKNOWN,
            assigned_partitions=_partition_epochs(value.assigned_partitions, value.member_epoch),
            partitions_pending_revocation=_partition_epochs(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> "ConsumerMember":
        """Returns the member on its way out: its partitions are free."""
        return self._replace(
            member_epoch=LEAVE_GROUP_MEMBER_EPOCH,
            previous_member_epoch=LEAVE_GROUP_MEMBER_EPOCH,
            assigned_partitions=NO_PARTITIONS,
            partitions_pending_revocation=NO_PARTITIONS,
        )


_KNOWN_STATES = frozenset(MemberState)


def partitions_of(epochs: PartitionEpochs) -> Partitions:
    return {topic_id: frozenset(partitions) for topic_id, partitions in epochs.items()}


def with_epoch(partitions: Partitions, epoch: int) -> PartitionEpochs:
    return {topic_id: dict.fromkeys(sorted(numbers), epoch) for topic_id, numbers in partitions.items()}


def _partition_epochs(topics: Sequence[TopicPartitions], member_epoch: int) -> PartitionEpochs:
    """Reads the epoch of each partition. Records from before Kafka 4.3 have none: the member's epoch stands in."""
    read = {}
    for topic in topics:
        epochs = topic.assignment_epochs or ()
        if len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        if topic.partitions:
            read[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return read
