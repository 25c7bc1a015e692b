"""A partition of this broker as a coordinator uses it."""

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import TransactionalProducer
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.batch_header import NO_SEQUENCE
from barnabas.protocol.types import TopicPartition
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker


class CoordinatorReplica:
    """Implements `CoordinatorPartition`."""

    __slots__ = ("_log", "_partition")

    def __init__(self, partition: LeaderPartition) -> None:
        self._partition = partition
        self._log = partition.log

    @property
    def topic_partition(self) -> TopicPartition:
        return self._partition.topic_partition

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def max_message_bytes(self) -> int:
        return self._log.config.max_message_bytes

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = self._log.read(offset, max_bytes, max_offset=self._log.log_end_offset)
        assert found is not None, "there is something before the end"
        try:
            return found.read()
        except OSError as error:
            raise self._log.log_dir.failed(error) from error

    def append(self, batches: memoryview, now_ms: int, guard: VerificationGuard | None = None) -> int:
        return self._partition.append_as_coordinator(batches, now_ms, guard).last_offset + 1

    def begin_verification(self, producer: TransactionalProducer) -> VerificationGuard | None:
        return self._partition.begin_verification(
            producer.producer_id, producer.producer_epoch, NO_SEQUENCE, is_v2=producer.is_v2
        )

    def end_transaction(self, marker: TransactionMarker, now_ms: int) -> int:
        return self._partition.end_transaction(marker, now_ms).last_offset + 1

    def when_committed(self, offset: int) -> Promise[None]:
        return self._partition.when_committed(offset)

    def when_flushed(self) -> Promise[None]:
        return self._partition.when_flushed()
