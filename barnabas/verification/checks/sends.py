"""What became of everything that was sent, judged when the whole history is known."""

from collections.abc import Iterator

from barnabas.verification.checks.reads import finding_about
from barnabas.verification.checks.transactions import MissingOfTransactions, may_be_read
from barnabas.verification.findings import Finding, Kind
from barnabas.verification.ledger import (
    ACKNOWLEDGED_SOMEWHERE,
    NEVER,
    PENDING,
    READ_BACK_SEEN,
    REFUSED,
    REPEATED,
    SEEN,
    Ledger,
    PartitionLedger,
    SentRecords,
    record_id,
)


class MissingRecords:
    """Finds acknowledged records that are not there. `excused` counts those that retention may have deleted. Of
    transactions only those that were committed must be there."""

    def __init__(self, ledger: Ledger, of_transactions: MissingOfTransactions) -> None:
        self._ledger = ledger
        self._of_transactions = of_transactions
        self.excused = 0

    def findings(self) -> Iterator[Finding]:
        for sent in self._ledger.producers.values():
            for sequence, position in acknowledged_positions(sent, len(self._ledger.partitions)):
                if sent.flags[sequence] & READ_BACK_SEEN or not may_be_read(sent, sequence):
                    continue
                partition = self._ledger.partitions[sent.partitions[sequence]]
                if partition.is_excused(position):
                    self.excused += 1
                elif not _is_missing(sent.flags[sequence], position, partition):
                    continue
                elif self._of_transactions.is_lost(sent, sequence):
                    yield self._missing(sent, sequence, position, partition)

    def _missing(self, sent: SentRecords, sequence: int, position: int, partition: PartitionLedger) -> Finding:
        offset = sent.outcomes[sequence] if sent.outcomes[sequence] >= 0 else None
        kind = Kind.LOST if partition.highest_read > position else Kind.UNSEEN
        before = (
            "it was read before, and not when everything was read back"
            if sent.flags[sequence] & SEEN
            else ("nobody has read it")
        )
        said = f"{before}; offset {partition.highest_read} was read" if kind is Kind.LOST else before
        identity = record_id(sent.producer, sequence)
        return finding_about(self._ledger, kind, partition.index, offset, identity, None, said)


def acknowledged_positions(sent: SentRecords, partitions: int) -> Iterator[tuple[int, int]]:
    """Yields the sequence and the offset of each acknowledged record. One that was acknowledged without an offset is
    taken to be after the one that was sent before it."""
    last = [-1] * partitions
    for sequence, outcome in enumerate(sent.outcomes):
        if outcome >= 0:
            last[sent.partitions[sequence]] = outcome
            yield sequence, outcome
        elif outcome == ACKNOWLEDGED_SOMEWHERE:
            last[sent.partitions[sequence]] += 1
            yield sequence, last[sent.partitions[sequence]]


def _is_missing(flags: int, position: int, partition: PartitionLedger) -> bool:
    """Returns whether nobody has read a record who should have. As far as a partition was read back, that decides."""
    reached, end = partition.read_back_to, partition.end
    if reached is not None and (position < reached or (end is not None and reached >= end)):
        return True
    return not flags & SEEN


def misplaced(ledger: Ledger) -> Iterator[Finding]:
    """Yields records that are not where their acknowledgement said. A duplicate is a finding already."""
    for sent in ledger.producers.values():
        for sequence, (outcome, found_at) in enumerate(zip(sent.outcomes, sent.found_at)):
            if outcome != found_at and outcome >= 0 and found_at != NEVER and not sent.flags[sequence] & REPEATED:
                yield finding_about(
                    ledger,
                    Kind.INCONSISTENT_OFFSET,
                    sent.partitions[sequence],
                    outcome,
                    record_id(sent.producer, sequence),
                    None,
                    f"it was acknowledged here, and read at offset {found_at}",
                )


def out_of_order(ledger: Ledger) -> Iterator[Finding]:
    """Yields acknowledged records of a producer that come before those it had sent earlier, by what the
    acknowledgements said or by what was read."""
    for sent in ledger.producers.values():
        last_told, last_found = [-1] * len(ledger.partitions), [-1] * len(ledger.partitions)
        for sequence, _ in acknowledged_positions(sent, len(ledger.partitions)):
            partition, told, found = sent.partitions[sequence], sent.outcomes[sequence], sent.found_at[sequence]
            before = None
            if 0 <= told < last_told[partition]:
                before = last_told[partition]
            elif 0 <= found < last_found[partition]:
                before = last_found[partition]
            if before is not None:
                said = f"the one that was sent before it is at offset {before}"
                identity, offset = record_id(sent.producer, sequence), max(told, found)
                yield finding_about(ledger, Kind.SEND_ORDER, partition, offset, identity, None, said)
            last_told[partition] = told if told >= 0 else last_told[partition]
            last_found[partition] = found if found >= 0 else last_found[partition]


def refused_but_stored(ledger: Ledger) -> Iterator[Finding]:
    for sent in ledger.producers.values():
        for sequence, (outcome, found_at) in enumerate(zip(sent.outcomes, sent.found_at)):
            if outcome == REFUSED and found_at != NEVER:
                identity, partition = record_id(sent.producer, sequence), sent.partitions[sequence]
                said = "it was refused with an error after which nothing is stored"
                finding = finding_about(ledger, Kind.REFUSED_BUT_STORED, partition, found_at, identity, None, said)
                yield finding._replace(acknowledged_ms=None)


def stuck_sends(ledger: Ledger) -> Iterator[Finding]:
    for sent in ledger.producers.values():
        for sequence, outcome in enumerate(sent.outcomes):
            if outcome == PENDING:
                identity, partition = record_id(sent.producer, sequence), sent.partitions[sequence]
                said = "the cluster has not answered until the end"
                yield finding_about(ledger, Kind.STUCK_SEND, partition, None, identity, None, said)
