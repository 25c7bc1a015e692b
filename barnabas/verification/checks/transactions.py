"""Of a transaction all is read or nothing, and nothing before it is to be committed.

A transaction that was committed with an answer has its records in the partitions for ever; who misses one finds a lost
write. One that nobody asked to commit, or that was aborted, is read by nobody. Where the answer to a commit was lost,
both is right; but not a part of it.
"""

from collections.abc import Iterator

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.verification.checks.reads import finding_about
from barnabas.verification.events import Polled
from barnabas.verification.findings import Finding, Kind
from barnabas.verification.ledger import (
    ABORTED,
    ABORTING,
    COMMITTED,
    COMMITTING,
    NEVER,
    OPEN,
    Ledger,
    SentRecords,
    record_id,
)

NEVER_COMMITTED = (OPEN, ABORTING, ABORTED)


class EarlyRead(NamedTuple):
    """A record that somebody read while nobody had asked for the commit of its transaction."""

    sent: SentRecords
    sequence: int
    offset: int
    consumer: str
    time_ms: int


class EarlyReads:
    """Notes who reads before a commit, and finds it wrong when the transaction is committed in the end: if it is not,
    the same is an aborted read."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._reads: list[EarlyRead] = []

    def found(self, sent: SentRecords, sequence: int, offset: int, event: Polled) -> None:
        if sent.transactions.state_of(sequence) == OPEN:
            self._reads.append(EarlyRead(sent, sequence, offset, event.consumer, event.time_ms))

    def findings(self) -> Iterator[Finding]:
        for read in self._reads:
            if may_be_read(read.sent, read.sequence):
                said = f"{read.consumer} read it when nobody had asked for the commit of its transaction"
                partition, identity = read.sent.partitions[read.sequence], record_id(read.sent.producer, read.sequence)
                yield finding_about(self._ledger, Kind.OPEN_READ, partition, read.offset, identity, read.time_ms, said)


def aborted_reads(ledger: Ledger) -> Iterator[Finding]:
    for sent, index, state in transactions(ledger):
        if state not in NEVER_COMMITTED:
            continue
        what = "nobody has asked to commit its transaction" if state == OPEN else "its transaction was aborted"
        for sequence in sent.transactions.sequences(index, len(sent)):
            if (offset := sent.found_at[sequence]) != NEVER:
                identity = record_id(sent.producer, sequence)
                yield finding_about(
                    ledger, Kind.ABORTED_READ, sent.partitions[sequence], offset, identity, None, f"{what}; it was read"
                )


def may_be_read(sent: SentRecords, sequence: int) -> bool:
    """Returns whether a record is of no transaction, or of one that was or may have been committed."""
    return sent.transactions.state_of(sequence) not in NEVER_COMMITTED


class MissingOfTransactions:
    """The records that are not there of transactions that may have been committed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._missing: dict[tuple[int, int], list[int]] = {}

    def is_lost(self, sent: SentRecords, sequence: int) -> bool:
        """Notes a record that is not there. Returns whether that alone is wrong."""
        index = sent.transactions.index_of(sequence)
        if index < 0:
            return True
        self._missing.setdefault((sent.producer, index), []).append(sequence)
        return sent.transactions.states[index] == COMMITTED

    def torn(self) -> Iterator[Finding]:
        for (producer, index), missing in self._missing.items():
            sent = self._ledger.producers[producer]
            sequences = sent.transactions.sequences(index, len(sent))
            there = [sequence for sequence in sequences if sent.found_at[sequence] != NEVER]
            if there:
                first = there[0]
                said = (
                    f"of the {len(sequences):,} records of its transaction {len(missing):,} are missing, and record "
                    f"{first} is at offset {sent.found_at[first]} of partition {sent.partitions[first]}"
                )
                identity = record_id(producer, missing[0])
                yield finding_about(self._ledger, Kind.TORN, sent.partitions[missing[0]], None, identity, None, said)


def stuck_transactions(ledger: Ledger) -> Iterator[Finding]:
    for sent, index, state in transactions(ledger):
        if state in (COMMITTING, ABORTING):
            asked = "commit" if state == COMMITTING else "abort"
            said = (
                f"the cluster has not answered until the end: transaction {index} of producer {sent.producer}, {asked}"
            )
            yield Finding(Kind.STUCK_TRANSACTION, said, time_ms=sent.transactions.began_ms[index])


def outcomes(ledger: Ledger) -> dict[str, int]:
    """Returns how many transactions were committed, how many never were, and of how many nobody knows."""
    states = [state for _, _, state in transactions(ledger)]
    if not states:
        return {}
    committed, aborted = states.count(COMMITTED), sum(state in NEVER_COMMITTED for state in states)
    return {"committed": committed, "aborted": aborted, "in_doubt": len(states) - committed - aborted}


def transactions(ledger: Ledger) -> Iterator[tuple[SentRecords, int, int]]:
    """Yields each transaction: whose, its number, its state."""
    for sent in ledger.producers.values():
        for index, state in enumerate(sent.transactions.states):
            yield sent, index, state
