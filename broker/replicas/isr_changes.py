"""Asks the controller for changes of in-sync replicas (AlterPartition).

Rules:
- One request is under way at a time; what leaders ask for meanwhile goes with the next one.
- A request that failed as a whole is sent again after a moment, for ever: only the controller can say what is so.
- A partition that was refused waits for the metadata if these must tell more than the leader knows (another epoch,
  another leader, a deleted topic); goes back to what is committed if a follower cannot join; and is asked for again
  after anything else.
"""

from collections.abc import Iterable

from barnabas.base.environment import Clock
from barnabas.base.promise import Promise
from barnabas.broker.cluster.lifecycle import BrokerLifecycle
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.controller.channel import ControllerChannel, own_context
from barnabas.replication.isr import IsrChange

_RETRY_MS = 50
_CANNOT_JOIN = frozenset((ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED))
_METADATA_TELL = frozenset(
    (
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)

Key = tuple[Uuid, int]
Wanted = dict[Key, tuple[LeaderPartition, IsrChange]]


class IsrChanges:
    def __init__(self, lifecycle: BrokerLifecycle, controller: ControllerChannel, clock: Clock) -> None:
        self._lifecycle = lifecycle
        self._controller = controller
        self._clock = clock
        self._wanted: Wanted = {}
        self._is_scheduled = False
        """Whether a request is under way, or will be in a moment."""
        self._is_closed = False

    def propose(self, partition: LeaderPartition, change: IsrChange) -> None:
        self._wanted[partition.topic_id, partition.topic_partition.partition] = (partition, change)
        self._send_later(0)

    def close(self) -> None:
        """Asks for nothing any more."""
        self._is_closed = True
        self._wanted.clear()

    def _send_later(self, delay_ms: int) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._clock.call_later(delay_ms, self._send)

    def _send(self) -> None:
        """Sends what is still wanted: the metadata may have told more since."""
        wanted = {
            key: (partition, change)
            for key, (partition, change) in self._wanted.items()
            if partition.in_sync.proposed is change
        }
        self._wanted = {}
        if not wanted or self._is_closed:
            self._is_scheduled = False
            return
        request = AlterPartitionRequest(
            broker_id=self._lifecycle.node_id,
            broker_epoch=self._lifecycle.broker_epoch,
            topics=_topics(wanted, self._lifecycle),
        )
        answered = self._controller.submit(request, own_context(request))
        answered.when_done(lambda answer: self._answered(wanted, answer))

    def _answered(self, wanted: Wanted, answer: Promise[AlterPartitionResponse]) -> None:
        self._is_scheduled = False
        if answer.error is not None:
            self._wanted = wanted | self._wanted
            return self._send_later(_RETRY_MS)
        for topic in answer.value.topics:
            for told in topic.partitions:
                if (asked := wanted.pop((topic.topic_id, told.partition_index), None)) is not None:
                    self._told(*asked, told)
        if self._wanted:
            self._send_later(0)

    def _told(self, partition: LeaderPartition, change: IsrChange, told: AlteredPartition) -> None:
        if told.error_code == ErrorCode.NONE:
            if told.leader_epoch == partition.leader_epoch:
                partition.on_isr_committed(change, tuple(told.isr), told.partition_epoch)
        elif told.error_code in _CANNOT_JOIN:
            partition.on_isr_refused(change)
        elif told.error_code not in _METADATA_TELL and partition.in_sync.proposed is change:
            self.propose(partition, change)


def _topics(wanted: Wanted, lifecycle: BrokerLifecycle) -> list[AlterPartitionTopic]:
    by_topic: dict[Uuid, list[AlterPartitionData]] = {}
    for (topic_id, index), (_, change) in wanted.items():
        by_topic.setdefault(topic_id, []).append(_partition(index, change, lifecycle))
    return [AlterPartitionTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic.items()]


def _partition(index: int, change: IsrChange, lifecycle: BrokerLifecycle) -> AlterPartitionData:
    return AlterPartitionData(
        partition_index=index,
        leader_epoch=change.leader_epoch,
        new_isr=change.isr,
        new_isr_with_epochs=list(_with_epochs(change, lifecycle)),
        partition_epoch=change.partition_epoch,
    )


def _with_epochs(change: IsrChange, lifecycle: BrokerLifecycle) -> Iterable[BrokerState]:
    for broker_id, epoch in zip(change.isr, change.broker_epochs):
        is_leader = broker_id == lifecycle.node_id
        yield BrokerState(broker_id=broker_id, broker_epoch=lifecycle.broker_epoch if is_leader else epoch)
