"""What the log remembers of each producer id, so that a retried batch is stored once (KIP-98).

Rules, Kafka's:
- The epoch and the last five batches of each producer are kept. A batch that repeats the sequence range of one of
  them is answered with the offsets it got the first time.
- Within an epoch sequences follow one another without a gap, 2**31 - 1 is followed by 0; a new epoch begins at 0.
- A producer nobody remembers (its records are deleted, its id expired) may begin with any sequence.
- An epoch below the last seen one is fenced. The broker's own records carry no sequences: only epochs are checked.
- The state is rebuilt from the latest `.snapshot` (`producer_snapshot.py`) and the batches after it.
- A transaction is ongoing until its marker is appended, and unstable until that marker is below the high watermark.
"""

from collections.abc import Iterable, Iterator

from barnabas.protocol.batch_header import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from barnabas.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.records import ControlType, control_type_of, coordinator_epoch_of, iter_records
from barnabas.storage.segments.transaction_index import AbortedTransaction
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker
from barnabas.storage.transactions.unstable import UnstableTransactions

BATCHES_RETAINED = 5
SEQUENCE_MAX = 2**31 - 1
NO_TRANSACTION = -1
PRODUCER_EPOCH_MAX = 2**15 - 1
_MARKER_BYTES_MAX = 1 << 20


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_sequence",
        "last_timestamp",
        "producer_epoch",
    )

    def __init__(
        self,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        batches: tuple[BatchMetadata, ...] = (),
        last_timestamp: int = NO_TIMESTAMP,
        coordinator_epoch: int = -1,
        current_txn_first_offset: int = NO_TRANSACTION,
    ) -> None:
        self.producer_epoch = producer_epoch
        self.batches = batches
        self.last_sequence = batches[-1].last_sequence if batches else NO_SEQUENCE
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset

    def begin_epoch(self, producer_epoch: int) -> None:
        self.producer_epoch = producer_epoch
        self.batches = ()
        self.last_sequence = NO_SEQUENCE

    def follows(self, header: BatchHeader) -> bool:
        """Returns whether this is the usual case: the next batch of the same epoch, in the open transaction or, without
        one, in none."""
        return (
            header.producer_epoch == self.producer_epoch
            and header.base_sequence == (self.last_sequence + 1) & SEQUENCE_MAX
            and (self.current_txn_first_offset != NO_TRANSACTION) == (header.attributes & TRANSACTIONAL_FLAG != 0)
        )

    def has_open_transaction(self, producer_epoch: int) -> bool:
        """Returns whether a transaction of this epoch is under way: a newer epoch has another one to ask for."""
        return self.current_txn_first_offset != NO_TRANSACTION and self.producer_epoch == producer_epoch

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        if header.producer_epoch != self.producer_epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of its marker."""
    is_aborted: bool


class ProducerState:
    __slots__ = ("by_id", "end_offset", "guards", "has_snapshot", "snapshot_offset", "transactions")

    def __init__(self, offset: int = 0) -> None:
        self.by_id: dict[int, ProducerEntry] = {}
        self.end_offset = offset
        """The state is that of the log up to here."""
        self.snapshot_offset = offset
        """The end of what a snapshot holds: there is nothing to save while the two are equal."""
        self.has_snapshot = False
        self.transactions = UnstableTransactions()
        self.guards: dict[int, VerificationGuard] = {}
        """The guards of producers whose transactions are being verified, on the leader; no snapshot holds them."""

    @property
    def had_transactions(self) -> bool:
        """Returns whether any producer that is remembered has ended a transaction."""
        return any(entry.coordinator_epoch >= 0 for entry in self.by_id.values())

    def entries(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self.by_id.items())

    # ---- checks

    def check(self, header: BatchHeader, guard: VerificationGuard | None = None) -> BatchMetadata | None:
        """Returns the earlier batch that a client's repeats, None if it may be appended. Raises if it may not."""
        entry = self.by_id.get(header.producer_id)
        if entry is not None:
            if entry.follows(header):
                return None
            if (duplicate := entry.duplicate_of(header)) is not None:
                return duplicate
            _check_epoch(entry, header.producer_id, header.producer_epoch)
        if header.is_transactional:
            self._check_guard(entry, header, guard)
            self._check_asked(entry, header)
        if entry is not None:
            _check_sequence(entry, header)
            _check_transaction(entry, header)
        return None

    def check_own(self, header: BatchHeader, guard: VerificationGuard | None = None) -> None:
        """Raises if a batch that the broker itself wrote may not be appended. It has no sequences."""
        entry = self.by_id.get(header.producer_id)
        if entry is not None:
            _check_epoch(entry, header.producer_id, header.producer_epoch)
        if header.is_control:
            return
        if header.is_transactional:
            self._check_guard(entry, header, guard)
        elif entry is not None:
            _check_transaction(entry, header)

    def _check_guard(self, entry: ProducerEntry | None, header: BatchHeader, guard: VerificationGuard | None) -> None:
        """Raises unless the batch goes on with an open transaction, or was verified as the first of one."""
        if entry is not None and entry.has_open_transaction(header.producer_epoch):
            return
        if guard is None or self.guards.get(header.producer_id) is not guard:
            raise InvalidTxnState(f"the batch of producer {header.producer_id} is not part of an ongoing transaction")

    def _check_asked(self, entry: ProducerEntry | None, header: BatchHeader) -> None:
        """Raises if a batch with a lower sequence is to come first."""
        guard = self.guards.get(header.producer_id)
        if guard is None:
            return
        first_sequence = guard.lowest_sequence
        if guard.is_v2 and (entry is None or not entry.batches):
            first_sequence = 0  # with an epoch for each transaction nobody comes with a history that was deleted
        if header.base_sequence > first_sequence:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} begins its transaction with sequence {header.base_sequence}, not with "
                f"{first_sequence}"
            )

    def check_marker(self, marker: TransactionMarker) -> None:
        """Raises if the marker is one of the past. By the rules of transaction.version 2 it has a new epoch, or repeats
        the marker that ended the transaction: refusing that would keep its coordinator asking for ever (KAFKA-19999).
        """
        entry = self.by_id.get(marker.producer_id)
        if entry is None:
            return
        _check_epoch(entry, marker.producer_id, marker.producer_epoch)
        is_later_one = entry.has_open_transaction(marker.producer_epoch)
        if is_later_one and marker.has_own_epoch and marker.producer_epoch != PRODUCER_EPOCH_MAX:
            raise InvalidProducerEpoch(
                f"producer {marker.producer_id} with epoch {marker.producer_epoch} has begun a later transaction"
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"coordinator epoch {marker.coordinator_epoch} is older than {entry.coordinator_epoch}"
            )

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_v2: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Returns the guard that the producer's next append must bring if the coordinator agrees; None if the partition
        has an open transaction of that epoch."""
        entry = self.by_id.get(producer_id)
        if entry is not None:
            _check_epoch(entry, producer_id, producer_epoch)
            if entry.has_open_transaction(producer_epoch):
                return None
        guard = self.guards.get(producer_id)
        if guard is None:
            guard = VerificationGuard(producer_epoch, base_sequence, is_v2=is_v2, created_ms=now_ms)
            self.guards[producer_id] = guard
        else:
            guard.asked_again(producer_epoch, base_sequence, is_v2=is_v2)
        return guard

    # ---- changes

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Applies a data batch that was appended at this offset, or found there."""
        entry = self.by_id.get(header.producer_id)
        if entry is None:
            entry = self.by_id[header.producer_id] = ProducerEntry()
        if entry.producer_epoch != header.producer_epoch:
            entry.begin_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        entry.last_sequence = header.last_sequence
        batch = BatchMetadata(entry.last_sequence, base_offset + delta, delta, header.max_timestamp)
        entry.batches = (*entry.batches[1 - BATCHES_RETAINED :], batch)
        entry.last_timestamp = header.max_timestamp
        if header.is_transactional:
            self.guards.pop(header.producer_id, None)
            if entry.current_txn_first_offset == NO_TRANSACTION:
                entry.current_txn_first_offset = base_offset
                self.transactions.begin(base_offset, header.producer_id)

    def end_transaction(self, header: BatchHeader, coordinator_epoch: int, offset: int) -> int:
        """Applies a COMMIT or ABORT marker that was appended at this offset, or found there. Its epoch may be new;
        sequences then start from 0. Returns where the transaction began, -1 if there was none."""
        entry = self.by_id.get(header.producer_id)
        if entry is None:
            entry = self.by_id[header.producer_id] = ProducerEntry()
        if entry.producer_epoch != header.producer_epoch:
            entry.begin_epoch(header.producer_epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        guard = self.guards.get(header.producer_id)
        if guard is not None and not (guard.is_v2 and guard.producer_epoch == header.producer_epoch):
            del self.guards[header.producer_id]
        first_offset = entry.current_txn_first_offset
        if first_offset != NO_TRANSACTION:
            entry.current_txn_first_offset = NO_TRANSACTION
            self.transactions.end(first_offset, offset)
        return first_offset

    def aborted_row(self, transaction: CompletedTransaction) -> AbortedTransaction:
        """Returns what the transaction index says of an aborted transaction."""
        first = self.transactions.first_ongoing_offset
        stable = transaction.last_offset + 1 if first is None else first
        return AbortedTransaction(transaction.first_offset, transaction.producer_id, transaction.last_offset, stable)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        expired = [key for key, entry in self.by_id.items() if _is_expired(entry, now_ms, expiration_ms)]
        for producer_id in expired:
            del self.by_id[producer_id]
        self.guards = {key: guard for key, guard in self.guards.items() if now_ms - guard.created_ms < expiration_ms}
        return len(expired)

    # ---- snapshots

    def load(self, offset: int, entries: Iterable[tuple[int, ProducerEntry]], now_ms: int, expiration_ms: int) -> None:
        self.by_id = {key: entry for key, entry in entries if not _is_expired(entry, now_ms, expiration_ms)}
        self.end_offset = self.snapshot_offset = offset
        self.has_snapshot = True
        ongoing = ((entry.current_txn_first_offset, producer_id) for producer_id, entry in self.by_id.items())
        self.transactions = UnstableTransactions(each for each in ongoing if each[0] != NO_TRANSACTION)


def end_transaction(
    producers: ProducerState, header: BatchHeader, marker: memoryview, offset: int
) -> CompletedTransaction | None:
    """Applies a control batch at this offset. Returns the transaction that it ended, if there was one.

    A batch without records once held a marker that compaction removed: it changes nothing.
    """
    for record in iter_records(marker, max_decompressed_bytes=_MARKER_BYTES_MAX):
        first_offset = producers.end_transaction(header, coordinator_epoch_of(record), offset)
        if first_offset != NO_TRANSACTION:
            is_aborted = control_type_of(record) == ControlType.ABORT
            return CompletedTransaction(header.producer_id, first_offset, offset, is_aborted)
        return None
    return None


def replay_batch(
    producers: ProducerState, header: BatchHeader, batch: memoryview, base_offset: int
) -> CompletedTransaction | None:
    """Applies a batch of a producer that was appended at this offset, or found there. Nothing is checked."""
    if header.is_control:
        return end_transaction(producers, header, batch, base_offset)
    producers.update(header, base_offset)
    return None


def _check_epoch(entry: ProducerEntry, producer_id: int, producer_epoch: int) -> None:
    if producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpoch(
            f"producer {producer_id} has epoch {producer_epoch}, but {entry.producer_epoch} was seen"
        )


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    if header.producer_epoch != entry.producer_epoch:
        if header.base_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"epoch {header.producer_epoch} of producer {header.producer_id} begins with {header.base_sequence}"
            )
        return
    if header.base_sequence != (entry.last_sequence + 1) & SEQUENCE_MAX:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} sends sequence {header.base_sequence} after {entry.last_sequence}"
        )


def _check_transaction(entry: ProducerEntry, header: BatchHeader) -> None:
    if entry.current_txn_first_offset != NO_TRANSACTION and not header.is_transactional:
        raise InvalidTxnState(f"producer {header.producer_id} writes outside its transaction, which is open")


def _is_expired(entry: ProducerEntry, now_ms: int, expiration_ms: int) -> bool:
    return entry.current_txn_first_offset == NO_TRANSACTION and now_ms - entry.last_timestamp >= expiration_ms
