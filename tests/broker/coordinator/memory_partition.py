"""A partition in memory, as a coordinator sees it: the test says when appends fail and how far they are committed."""

from collections.abc import Iterable

from barnabas.base.promise import Promise, resolved
from barnabas.broker.coordinator.decision import TransactionalProducer
from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, iter_batches, set_offsets
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.records import NewRecord, iter_records
from barnabas.protocol.types import TopicPartition
from barnabas.storage.producer_state import ProducerState, replay_batch
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker

Stored = tuple[bytes, bytes | None]


class MemoryPartition:
    max_message_bytes = 1_000_000
    leader_epoch = 0
    log_start_offset = 0

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.high_watermark = 0
        self.append_error: KafkaError | None = None
        """Set: appends fail with it, and nothing is written."""
        self.read_error: Exception | None = None
        """Set: reads fail with it."""
        self._commits_at_once = True
        self._producers = ProducerState()
        self._batches: list[tuple[int, bytes]] = []
        """Each with the offset after it."""
        self._waiters: list[tuple[int, Promise[None]]] = []

    # ---- what the coordinator uses

    @property
    def log_end_offset(self) -> int:
        return self._batches[-1][0] if self._batches else 0

    def read(self, offset: int, max_bytes: int) -> bytes:
        if self.read_error is not None:
            raise self.read_error
        data = bytearray()
        for end_offset, batch in self._batches:
            if end_offset > offset and (not data or len(data) + len(batch) <= max_bytes):
                data += batch
        assert data, "nothing is read at the end"
        return bytes(data)

    def append(self, batches: memoryview, now_ms: int, guard: VerificationGuard | None = None) -> int:
        if self.append_error is not None:
            raise self.append_error
        checked = list(iter_batches(batches))
        for _, header in checked:
            if header.producer_id != NO_PRODUCER_ID:
                self._producers.check_own(header, guard)
        for position, header in checked:
            batch = batches[position : position + header.size_bytes]
            base_offset = self.log_end_offset
            set_offsets(batch, base_offset, 0)
            self._batches.append((base_offset + header.last_offset_delta + 1, bytes(batch)))
            if header.producer_id != NO_PRODUCER_ID:
                replay_batch(self._producers, header, batch, base_offset)
        if self._commits_at_once:
            self.commit()
        return self.log_end_offset

    def begin_verification(self, producer: TransactionalProducer) -> VerificationGuard | None:
        return self._producers.begin_verification(
            producer.producer_id, producer.producer_epoch, NO_SEQUENCE, is_v2=producer.is_v2, now_ms=0
        )

    def end_transaction(self, marker: TransactionMarker, now_ms: int) -> int:
        self._producers.check_marker(marker)
        return self.append(memoryview(marker.to_batch(now_ms)), now_ms)

    def when_committed(self, offset: int) -> Promise[None]:
        assert offset > self.high_watermark, "nobody waits for what is committed"
        promise: Promise[None] = Promise()
        self._waiters.append((offset, promise))
        return promise

    def when_flushed(self) -> Promise[None]:
        return resolved(None)

    # ---- what the test says

    @property
    def commits_at_once(self) -> bool:
        """False: what is appended waits for `commit`."""
        return self._commits_at_once

    @commits_at_once.setter
    def commits_at_once(self, value: bool) -> None:
        self._commits_at_once = value
        if value:
            self.commit()

    def commit(self, high_watermark: int | None = None) -> None:
        """Everything that was appended is committed, or what lies below the high watermark that is given."""
        self.high_watermark = self.log_end_offset if high_watermark is None else high_watermark
        due = [promise for offset, promise in self._waiters if offset <= self.high_watermark]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > self.high_watermark]
        for promise in due:
            promise.resolve(None)

    def fail(self, error: KafkaError) -> None:
        """This leader will commit nothing any more."""
        waiters, self._waiters = self._waiters, []
        for _, promise in waiters:
            promise.fail(error)

    def truncate_to_high_watermark(self) -> None:
        """As a follower of another leader that does not have what is not committed."""
        self._batches = [batch for batch in self._batches if batch[0] <= self.high_watermark]
        self._producers = ProducerState()
        for end_offset, data in self._batches:
            ((_, header),) = iter_batches(data)
            if header.producer_id != NO_PRODUCER_ID:
                base_offset = end_offset - header.last_offset_delta - 1
                replay_batch(self._producers, header, memoryview(data), base_offset)

    def forget_waiters(self) -> None:
        self._waiters.clear()

    # ---- what is stored

    def batches(self) -> list[BatchHeader]:
        return [header for _, data in self._batches for _, header in iter_batches(data)]

    def records(self) -> list[Stored]:
        """Keys and values of all records but control records."""
        return [
            (record.key or b"", record.value)
            for _, data in self._batches
            for _, header in iter_batches(data)
            if not header.is_control
            for record in iter_records(data, max_decompressed_bytes=1 << 20)
        ]

    def rewrite(self, records: Iterable[Stored]) -> None:
        """These are all records of the log, and committed."""
        self._batches.clear()
        self.write(*records)

    def write(self, *records: Stored) -> None:
        """Writes past the coordinator, as the leader before would have done it."""
        for key, value in records:
            batch = build_batch([NewRecord(key, value, (), 0)])
            set_offsets(memoryview(batch), self.log_end_offset, 0)
            self._batches.append((self.log_end_offset + 1, bytes(batch)))
        self.high_watermark = self.log_end_offset
