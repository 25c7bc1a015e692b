"""Transactions as one log sees them: how they begin, how they end, which were aborted."""

from typing import TYPE_CHECKING

from barnabas.storage.producer_state import CompletedTransaction
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker

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
        now_ms, is_first = log.log_dir.clock.now_ms(), not log.producers.guards
        guard = log.producers.begin_verification(producer_id, producer_epoch, base_sequence, is_v2=is_v2, now_ms=now_ms)
        if is_first and guard is not None:
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
