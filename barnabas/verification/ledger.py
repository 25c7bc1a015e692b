"""What is known of every record and every offset, in a few integers each: a history may have millions of them."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from barnabas.verification.events import BadHistory

PAGE_BITS = 12
PAGE_OFFSETS = 1 << PAGE_BITS
EMPTY = -(1 << 62)
SEQUENCE_BITS = 40

# What became of a send: the offset that was acknowledged, or one of these.
PENDING, UNKNOWN, REFUSED, ACKNOWLEDGED_SOMEWHERE = -1, -2, -3, -4
NEVER = -1

# What became of a transaction. One that is open, or that is to be aborted, can never be committed.
OPEN, COMMITTING, ABORTING, COMMITTED, ABORTED, IN_DOUBT, NO_TRANSACTION = range(7)

# Who has read a record, and what was said about it.
SEEN, READ_BACK_SEEN, REPEATED = 1, 2, 4


def record_id(producer: int, sequence: int) -> int:
    return producer << SEQUENCE_BITS | sequence


def producer_and_sequence(identity: int) -> tuple[int, int]:
    return identity >> SEQUENCE_BITS, identity & ((1 << SEQUENCE_BITS) - 1)


class Transactions:
    """The transactions of one producer. One follows the other, so each has the sequences up to the next."""

    def __init__(self, producer: int) -> None:
        self.producer = producer
        self._first_sequences = array("q")
        self.states = bytearray()
        self.began_ms = array("q")

    def __len__(self) -> int:
        return len(self.states)

    def begin(self, first_sequence: int, time_ms: int) -> None:
        if self.states and self.states[-1] <= ABORTING:
            raise BadHistory(f"producer {self.producer} has begun a transaction before its last one has ended")
        self._first_sequences.append(first_sequence)
        self.states.append(OPEN)
        self.began_ms.append(time_ms)

    def ending(self, commit: bool) -> None:
        self._require_one_under_way()
        if commit:
            self.states[-1] = COMMITTING
        elif self.states[-1] == OPEN:  # after a commit that failed, an abort may come too late
            self.states[-1] = ABORTING

    def ended(self, committed: bool | None) -> None:
        self._require_one_under_way()
        if committed and self.states[-1] != COMMITTING:
            raise BadHistory(f"a transaction of producer {self.producer} was committed, and nobody asked for that")
        if committed is None:
            self.states[-1] = IN_DOUBT if self.states[-1] == COMMITTING else ABORTED
        else:
            self.states[-1] = COMMITTED if committed else ABORTED

    def _require_one_under_way(self) -> None:
        if not self.states or self.states[-1] > ABORTING:
            raise BadHistory(f"producer {self.producer} ends a transaction that it has not begun")

    def index_of(self, sequence: int) -> int:
        """Returns which transaction a record is of; -1 for one that was sent before the first."""
        return bisect_right(self._first_sequences, sequence) - 1

    def state_of(self, sequence: int) -> int:
        index = self.index_of(sequence)
        return NO_TRANSACTION if index < 0 else self.states[index]

    def sequences(self, index: int, sent: int) -> range:
        """Returns those of one transaction, when so many records were sent in all."""
        is_last = index + 1 == len(self._first_sequences)
        return range(self._first_sequences[index], sent if is_last else self._first_sequences[index + 1])


class SentRecords:
    """The records of one producer, by their sequence."""

    def __init__(self, producer: int) -> None:
        self.producer = producer
        self.partitions = array("i")
        self.sent_ms = array("q")
        self.answered_ms = array("q")
        self.outcomes = array("q")
        """The offset that was acknowledged, or what else became of the send."""
        self.found_at = array("q")
        """The first offset at which anybody read it, or NEVER."""
        self.flags = bytearray()
        self.transactions = Transactions(producer)

    def __len__(self) -> int:
        return len(self.partitions)

    def add(self, sequence: int, partition: int, time_ms: int) -> None:
        if sequence != len(self.partitions):
            raise BadHistory(
                f"producer {self.producer} sent record {sequence} where {len(self)} was next: "
                "each producer numbers its records from 0 on"
            )
        if len(self.transactions) and self.transactions.states[-1] != OPEN:
            raise BadHistory(f"producer {self.producer} sent record {sequence} after the end of its transaction")
        self.partitions.append(partition)
        self.sent_ms.append(time_ms)
        self.answered_ms.append(NEVER)
        self.outcomes.append(PENDING)
        self.found_at.append(NEVER)
        self.flags.append(0)

    def answer(self, sequence: int, outcome: int, time_ms: int) -> None:
        if not 0 <= sequence < len(self):
            raise BadHistory(f"record {sequence} of producer {self.producer} was answered and never sent")
        if self.outcomes[sequence] != PENDING:
            raise BadHistory(f"record {sequence} of producer {self.producer} was answered twice")
        self.outcomes[sequence] = outcome
        self.answered_ms[sequence] = time_ms


class Pages:
    """The record at each offset of a partition as it was first told. Offsets may begin anywhere and have gaps."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}

    def page(self, number: int) -> "array[int]":
        if (page := self._pages.get(number)) is None:
            page = self._pages[number] = array("q", [EMPTY]) * PAGE_OFFSETS
        return page

    def at(self, offset: int) -> int:
        page = self._pages.get(offset >> PAGE_BITS)
        return EMPTY if page is None else page[offset & (PAGE_OFFSETS - 1)]

    def put(self, offset: int, identity: int) -> None:
        self.page(offset >> PAGE_BITS)[offset & (PAGE_OFFSETS - 1)] = identity

    def between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the offsets from `first` up to `end` that hold something, and what."""
        for number in sorted(self._pages):
            base = number << PAGE_BITS
            for offset in range(max(first, base), min(end, base + PAGE_OFFSETS)):
                if (identity := self._pages[number][offset - base]) != EMPTY:
                    yield offset, identity


class PartitionLedger:
    """What is known of one partition."""

    def __init__(self, index: int, first_offset: int) -> None:
        self.index = index
        self.first_offset = first_offset
        self.pages = Pages()
        self.highest_read = -1
        self.start: int | None = None
        self.end: int | None = None
        self.read_back_to: int | None = None
        """How far a reading back came, the one that came farthest; None if there was none."""

    def is_excused(self, offset: int) -> bool:
        """Returns whether retention may have deleted the offset."""
        return self.start is not None and offset < self.start


class Ledger:
    """All partitions and all records of a history."""

    def __init__(self) -> None:
        self.partitions: list[PartitionLedger] = []
        self.producers: dict[int, SentRecords] = {}

    def partition(self, index: int) -> PartitionLedger:
        if not 0 <= index < len(self.partitions):
            raise BadHistory(f"the topic has no partition {index}: it has {len(self.partitions)}")
        return self.partitions[index]

    def sent_by(self, producer: int) -> SentRecords:
        if (records := self.producers.get(producer)) is None:
            raise BadHistory(f"producer {producer} has sent nothing yet")
        return records

    def find(self, identity: int) -> tuple[SentRecords, int] | None:
        """Returns the records of the producer and the place of this one among them; None if it was never sent."""
        producer, sequence = producer_and_sequence(identity)
        records = self.producers.get(producer)
        return None if records is None or sequence >= len(records) else (records, sequence)

    def was_read(self, partition: PartitionLedger, offset: int, identity: int) -> bool:
        """Returns whether a reader, and not only an acknowledgement, told of this record at this offset."""
        if identity < 0:
            return True
        known = self.find(identity)
        return known is None or known[0].found_at[known[1]] == offset or bool(known[0].flags[known[1]] & REPEATED)
