"""Transactions as one log sees them: how they begin, how they end, which were aborted."""

from typing import TYPE_CHECKING

from barnabas.storage.producer_state import CompletedTransaction
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker

if TYPE_CHECKING:
    from barnabas.storage.log import Log


class LogTransactions:
    __slots__ = ("_log",)

    def __init__(self, log: "Log") -> None:
        self._log = log

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
        """Raises InvalidProducerEpoch or TransactionCoordinatorFenced if the marker is one of the past."""
        self._log.check_available()
        self._log.producers.check_marker(marker)

    def ended(self, transaction: CompletedTransaction) -> None:
        """Notes the row of an aborted transaction."""
        if transaction.is_aborted:
            log = self._log
            log.aborted.add(log.segments.active.base_offset, log.producers.aborted_row(transaction))
