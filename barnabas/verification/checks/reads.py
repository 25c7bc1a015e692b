"""What a single read tells: a record that nobody sent, one that was altered, one at two offsets, two at one offset.

All readers together pass here a few times for every record, so the loop of `polled` looks at what is as expected
itself, and calls something only for what is new or wrong.
"""

from collections.abc import Callable

from barnabas.verification.events import FOREIGN, PRODUCERS_MAX, SEQUENCES_MAX, BadHistory, Polled
from barnabas.verification.findings import Finding, Findings, Kind
from barnabas.verification.ledger import (
    EMPTY,
    NEVER,
    PAGE_BITS,
    PAGE_OFFSETS,
    REPEATED,
    SEQUENCE_BITS,
    Ledger,
    PartitionLedger,
    SentRecords,
    producer_and_sequence,
    record_id,
)

FoundFirst = Callable[[SentRecords, int, int, Polled], None]
"""Hears of each record of a transaction when somebody has read it for the first time."""


class Reads:
    def __init__(self, ledger: Ledger, findings: Findings, found_first: FoundFirst) -> None:
        self._ledger = ledger
        self._findings = findings
        self._found_first = found_first
        self._said: set[tuple[Kind, int, int, int]] = set()
        self.is_shared = True
        self.foreign = 0

    def polled(self, event: Polled, flag: int) -> None:
        """Notes what was read, with the flag that says by whom."""
        partition = self._ledger.partition(event.partition)
        producers = self._ledger.producers
        number, page = -1, partition.pages.page(partition.first_offset >> PAGE_BITS)
        for offset, producer, sequence in event.records:
            if offset >> PAGE_BITS != number:
                number = offset >> PAGE_BITS
                page = partition.pages.page(number)
            if page[offset & (PAGE_OFFSETS - 1)] != producer << SEQUENCE_BITS | sequence:
                self._told_anew(partition, event, offset, producer, sequence)
            sent = producers.get(producer)
            if sent is not None and sequence < len(sent.flags):
                sent.flags[sequence] |= flag
                if sent.found_at[sequence] != offset:
                    self._found(sent, sequence, partition, event, offset)
            if offset > partition.highest_read:
                partition.highest_read = offset
        for offset in event.corrupt:
            self._corrupt(partition, event, offset)

    def acknowledged(self, sent: SentRecords, sequence: int, offset: int, time_ms: int) -> None:
        """Notes that an acknowledgement tells of a record at an offset."""
        partition = self._ledger.partition(sent.partitions[sequence])
        identity = record_id(sent.producer, sequence)
        if (told := partition.pages.at(offset)) == EMPTY:
            partition.pages.put(offset, identity)
        elif told != identity:
            self._inconsistent(partition, offset, told, identity, time_ms)

    def _told_anew(self, partition: PartitionLedger, event: Polled, offset: int, producer: int, sequence: int) -> None:
        """Judges a record at an offset where nobody told of it before."""
        if offset < 0 or not (FOREIGN <= producer < PRODUCERS_MAX and 0 <= sequence < SEQUENCES_MAX):
            raise BadHistory(f"no record can be number {sequence} of producer {producer} at offset {offset}")
        identity = record_id(producer, sequence)
        if (told := partition.pages.at(offset)) != EMPTY:
            self._inconsistent(partition, offset, told, identity, event.time_ms)
            return
        partition.pages.put(offset, identity)
        known = self._ledger.find(identity)
        if producer == FOREIGN:
            self.foreign += 1
        if known is None and (producer != FOREIGN or not self.is_shared):
            said = "is not of this run" if producer == FOREIGN else "was never sent"
            self._add(Kind.PHANTOM, partition, offset, identity, event.time_ms, f"{event.consumer} read what {said}")
        elif known is not None and known[0].partitions[known[1]] != partition.index:
            said = f"{event.consumer} read what was sent to partition {known[0].partitions[known[1]]}"
            self._add(Kind.PHANTOM, partition, offset, identity, event.time_ms, said)

    def _found(self, sent: SentRecords, sequence: int, partition: PartitionLedger, event: Polled, offset: int) -> None:
        """Notes where a record was found for the first time, or judges that it was found a second time."""
        if sent.partitions[sequence] != partition.index:
            return
        if (first := sent.found_at[sequence]) == NEVER:
            sent.found_at[sequence] = offset
            if len(sent.transactions):
                self._found_first(sent, sequence, offset, event)
            return
        sent.flags[sequence] |= REPEATED
        identity = record_id(sent.producer, sequence)
        said = f"{event.consumer} read it here, and it is at offset {first} too"
        self._add(Kind.DUPLICATE, partition, offset, identity, event.time_ms, said)

    def _inconsistent(self, partition: PartitionLedger, offset: int, told: int, identity: int, time_ms: int) -> None:
        self._add(Kind.INCONSISTENT_OFFSET, partition, offset, identity, time_ms, f"it was also told as {name(told)}")

    def _corrupt(self, partition: PartitionLedger, event: Polled, offset: int) -> None:
        identity = partition.pages.at(offset)
        said = f"{event.consumer} read it altered"
        self._add(Kind.CORRUPT, partition, offset, identity, event.time_ms, said)

    def _add(self, kind: Kind, partition: PartitionLedger, offset: int, identity: int, time_ms: int, said: str) -> None:
        """Adds a finding, unless another reader has found the same."""
        if (kind, partition.index, offset, identity) not in self._said:
            self._said.add((kind, partition.index, offset, identity))
            self._findings.add(finding_about(self._ledger, kind, partition.index, offset, identity, time_ms, said))


def finding_about(
    ledger: Ledger, kind: Kind, partition: int, offset: int | None, identity: int, time_ms: int | None, said: str
) -> Finding:
    """Returns a finding with what is known of the record."""
    finding = Finding(kind, said, partition, offset, time_ms=time_ms)
    if identity == EMPTY:
        return finding
    producer, sequence = producer_and_sequence(identity)
    finding = finding._replace(producer=producer, sequence=sequence)
    if (known := ledger.find(identity)) is None:
        return finding
    sent = known[0]
    answered_ms = sent.answered_ms[sequence]
    return finding._replace(
        sent_ms=sent.sent_ms[sequence], acknowledged_ms=None if answered_ms == NEVER else answered_ms
    )


def name(identity: int) -> str:
    producer, sequence = producer_and_sequence(identity)
    return "a foreign record" if producer == FOREIGN else f"record {sequence} of producer {producer}"
