"""Transactions as one log sees them: how they begin, how they end, which were aborted."""

from typing import TYPE_CHECKING

from barnabas.protocol.batch_header import NO_TIMESTAMP, BatchHeader, header_at, set_offsets
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.log_deadlines import NEVER_MS
from barnabas.storage.producer_state import NO_TRANSACTION, CompletedTransaction
from barnabas.storage.segments.segment import TornTail
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from barnabas.storage.validation import stamp_log_append_time

if TYPE_CHECKING:
    from barnabas.storage.log import Log

_MINUTE_MS = 60_000
_LATE_AFTER_MS = 5 * _MINUTE_MS
"""The time that a coordinator has, after the longest timeout, to end a transaction everywhere."""


class LogTransactions:
    __slots__ = ("_log", "_reported_offset")

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._reported_offset = -1
        """Where the late transaction began that was reported last."""

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_v2: bool
    ) -> VerificationGuard | None:
        """Returns the guard that the append of a transactional batch must bring once the coordinator has agreed; None
        if the partition has an open transaction of that epoch, and nothing is to be asked."""
        log = self._log
        log.check_available()
        now_ms = log.log_dir.clock.now_ms()
        guard = log.producers.begin_verification(producer_id, producer_epoch, base_sequence, is_v2=is_v2, now_ms=now_ms)
        if guard is not None and log.maintenance.deadlines.expiration_ms == NEVER_MS:
            log.maintenance.reschedule()  # a guard that nobody comes back for expires like a producer
        return guard

    def drop_guards(self) -> None:
        """Drops what was verified and not appended: a leader's appends are not those of the next one."""
        self._log.producers.guards.clear()

    def check_marker(self, marker: TransactionMarker) -> None:
        """Raises InvalidProducerEpoch or TransactionCoordinatorFenced if the marker is one of the past. If it may have
        the epoch of the transaction that it ends, what waits to be appended to that one cannot be any more."""
        self._log.check_available()
        self._log.producers.check_marker(marker)
        if not marker.has_own_epoch:
            self._log.producers.guards.pop(marker.producer_id, None)

    def append_marker(self, marker: TransactionMarker, batch: memoryview, leader_epoch: int, now_ms: int) -> AppendInfo:
        """Stores the batch of a marker that was checked. It was built here: nothing of it needs to be read again."""
        log, size = self._log, len(batch)
        log.check_available()
        if size > log.config.segment_bytes:
            log.refuse_size(size)
        header, log_append_time = header_at(batch), NO_TIMESTAMP
        if log.config.is_log_append_time:
            header, log_append_time = stamp_log_append_time(batch, now_ms), now_ms
        offset = log.log_end_offset
        try:
            segment = log.segment_for(size, offset, header.max_timestamp, now_ms)
            set_offsets(batch, offset, leader_epoch)
            segment.append(batch, header, offset, log.config.index_interval_bytes)
        except (OSError, TornTail) as error:
            raise log.append_failed(error) from error
        log.log_end_offset = offset + 1
        self._replay(marker, header, offset)
        log.appended(offset, leader_epoch)
        return AppendInfo(offset, offset, log_append_time, log.log_start_offset, duplicate=False)

    def _replay(self, marker: TransactionMarker, header: BatchHeader, offset: int) -> None:
        """Applies a marker that was appended at this offset, as `Log` does with batches whose records it reads."""
        log = self._log
        if not log.producers.by_id:
            log.maintenance.first_producer_seen()
        first_offset = log.producers.end_transaction(header, marker.coordinator_epoch, offset)
        if first_offset != NO_TRANSACTION and not marker.is_committed:
            self.ended(CompletedTransaction(marker.producer_id, first_offset, offset, is_aborted=True))

    def ended(self, transaction: CompletedTransaction) -> None:
        """Notes the row of an aborted transaction."""
        if transaction.is_aborted:
            log = self._log
            log.aborted.add(log.segments.active.base_offset, log.producers.aborted_row(transaction))

    def report_late(self, now_ms: int) -> None:
        """Warns, once, of a transaction that its coordinator must have forgotten: its last record is older than any
        timeout. By itself it will never end."""
        log = self._log
        producer_id, first_offset = log.producers.transactions.oldest or (-1, -1)
        if producer_id < 0 or first_offset == self._reported_offset:
            return
        silent_ms = now_ms - log.producers.by_id[producer_id].last_timestamp
        if silent_ms > log.log_dir.config.transaction_max_timeout_ms + _LATE_AFTER_MS:
            self._reported_offset = first_offset
            log.log_dir.report.warning(
                f"{log.topic_partition}: the transaction that producer {producer_id} began at offset {first_offset} is "
                f"still open, {silent_ms // _MINUTE_MS} minutes after its last record: nobody reads committed records "
                "behind it until `barnabas transactions abort` ends it",
                topic_partition=str(log.topic_partition),
            )
