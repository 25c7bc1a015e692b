"""A partition that stores what the leader sends, as it is; nothing is decided here."""

from barnabas.broker.replicas.partition import Partition
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.metadata.image import INTERNAL_TOPICS
from barnabas.storage.log import Log


class FollowerPartition(Partition):
    __slots__ = ("leader_id",)

    def __init__(
        self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, leader_epoch: int, leader_id: int
    ) -> None:
        super().__init__(topic_partition, topic_id, log, leader_epoch)
        self.leader_id = leader_id
        log.note_replicas()

    def append(self, batches: memoryview, now_ms: int) -> None:
        """Stores what the leader has. Raises KafkaStorageError if there is too little space for the records of clients,
        or none at all."""
        if self.topic_partition.topic not in INTERNAL_TOPICS:
            self.log.log_dir.reserve(len(batches), now_ms)
        self.log.append_as_follower(batches, now_ms)

    def follow(self, high_watermark: int, log_start_offset: int) -> None:
        """Takes the leader's offsets, as far as this log has come."""
        log = self.log
        before, log_end_offset = log.high_watermark, log.log_end_offset
        if high_watermark > log_end_offset:
            high_watermark = log_end_offset
        if high_watermark > before:
            log.advance_high_watermark(high_watermark)
            if self._waiters:
                self._wake(self._bytes_between(before, high_watermark), before)
        if log_start_offset > log_end_offset:
            log.truncate_fully_and_start_at(log_start_offset)
        elif log_start_offset > log.log_start_offset:
            log.delete_records(min(log_start_offset, log.high_watermark))

    def truncate_to(self, offset: int) -> None:
        self.log.truncate_to(offset)

    @property
    def fetch_offset(self) -> int:
        """Returns where the next fetch begins: all before it is here and, under `flush.messages=1`, on the disk."""
        log = self.log
        return log.recovery_point if log.config.flush_messages == 1 else log.log_end_offset

    def fail(self, _error: KafkaError) -> None:
        """Answers the fetches that wait: this broker follows no more."""
        self.wake_fetchers()
