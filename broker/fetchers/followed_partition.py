"""One partition that a fetcher follows: where it stands, and what an answer does to its log."""

from enum import Enum
from typing import TYPE_CHECKING

from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.replication.follower.answers import (
    batches_to_append,
    offset_after_reset,
    start_of_batch_around,
    truncation_offset,
)
from barnabas.replication.follower.fetch_session import FetchPosition, Key

if TYPE_CHECKING:
    from barnabas.broker.replicas.follower import FollowerPartition

NOT_ASKED = -1

_new_position = tuple.__new__  # a third of the time that the class takes


class State(Enum):
    FETCHING = "fetching"
    FLUSHING = "flushing"
    """What was appended is to be on the disk before the next fetch acknowledges it."""
    BACKING_OFF = "backing off"
    THROTTLED = "throttled"
    """The quota is exceeded, and more is to be asked for when it is not."""
    RESETTING = "resetting"
    """The leader is asked where its log begins and ends."""
    STOPPED = "stopped"
    """Nothing is asked until the metadata tell of another epoch, or of another log."""


class FollowedPartition:
    __slots__ = ("asked_in", "backoff_ms", "is_in_sync", "key", "leader_epoch", "partition", "state")

    def __init__(self, partition: "FollowerPartition", leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.key: Key = (partition.topic_id, partition.topic_partition.partition)
        self.state = State.FETCHING
        self.backoff_ms = 0
        """The last pause; 0 after a success."""
        self.asked_in = NOT_ASKED
        """The number of the request that named, or will name, the position at which the partition stands."""
        self.is_in_sync = False
        """Whether a throttled partition had all that was committed, when its leader last answered."""

    @property
    def is_durable(self) -> bool:
        """Returns whether a fetch may acknowledge all that is here: fewer than `flush.messages` wait for a flush."""
        log = self.partition.log
        return log.log_end_offset - log.recovery_point < log.config.flush_messages

    @property
    def is_lost(self) -> bool:
        """Returns whether the log takes nothing any more. One whose disk is full may, later."""
        return self.partition.log.is_offline or self.partition.log.is_closed

    def position(self) -> FetchPosition:
        log = self.partition.log
        fetch_offset, latest_epoch = self.partition.fetch_offset, log.leader_epochs.latest
        return _new_position(FetchPosition, (fetch_offset, self.leader_epoch, latest_epoch, log.log_start_offset))

    # ---- what answers do

    def append(self, data: PartitionData, now_ms: int) -> None:
        """Writes the records, all of them or none, and takes the leader's offsets. Raises if they are not in order, or
        if there is no room: the offsets count all the same, because what the leader deletes makes room here."""
        partition, records = self.partition, data.records
        if records:
            assert not isinstance(records, str)
            batches = batches_to_append(memoryview(records), self.leader_epoch)  # type: ignore[arg-type]
            log = partition.log
            if log.log_start_offset == log.log_end_offset:
                self._begin_at(batches)
            try:
                partition.append(batches, now_ms)
            except KafkaStorageError:
                if not self.is_lost:
                    partition.follow(data.high_watermark, data.log_start_offset)
                raise
        partition.follow(data.high_watermark, data.log_start_offset)

    def _begin_at(self, batches: memoryview) -> None:
        """Lets an empty log begin where its first batch does."""
        log = self.partition.log
        offset = start_of_batch_around(log.log_end_offset, batches)
        if offset is not None:
            log.truncate_fully_and_start_at(offset)

    def truncate(self, data: PartitionData) -> int:
        """Cuts the log where it parts from the leader's. Returns the offset."""
        offset = truncation_offset(self.partition.log, data.diverging_epoch)
        self.partition.truncate_to(offset)
        return offset

    def reset(self, leader_start_offset: int, leader_end_offset: int) -> bool:
        """Makes the log end inside the leader's. Returns whether it was changed."""
        log = self.partition.log
        offset, drops_all = offset_after_reset(log.log_end_offset, leader_start_offset, leader_end_offset)
        if drops_all:
            log.truncate_fully_and_start_at(offset)
        elif offset < log.log_end_offset:
            self.partition.truncate_to(offset)
        else:
            return False
        return True
