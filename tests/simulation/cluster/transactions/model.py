"""What the committed part of a partition says about transactions, batch by batch: the truth that readers are held to.

It is read from the log of whoever leads, up to the high watermark, so nothing in it can be taken back.
"""

from typing import NamedTuple

from barnabas.protocol.batch_header import BatchHeader


class Label(NamedTuple):
    """Which transaction of which client a record is of. Every record says it in its value."""

    client: str
    number: int


class Placed(NamedTuple):
    """A record of a transaction, and what it says: a number that its client gives to no other record."""

    label: Label
    number: int


def value_of(label: Label, number: int) -> bytes:
    return b"%s %d %d" % (label.client.encode(), label.number, number)


def placed_of(value: bytes) -> Placed:
    client, transaction, number = value.decode().split()
    return Placed(Label(client, int(transaction)), int(number))


class Decision(NamedTuple):
    """A marker, and the transaction that it ends in this partition; None if there was none."""

    label: Label | None
    is_commit: bool


class OpenTransaction:
    """What is open of a producer in one partition."""

    def __init__(self, label: Label, first_offset: int) -> None:
        self.label = label
        self.first_offset = first_offset
        self.offsets: list[int] = []


class PartitionModel:
    def __init__(self, name: str) -> None:
        self.name = name
        self.end = 0
        self.records: dict[int, Placed] = {}
        self.outcomes: dict[int, bool] = {}
        """By offset: whether the record is of a transaction that was committed. One that is open has none yet."""
        self.open: dict[int, OpenTransaction] = {}
        """By producer id."""
        self.numbers: dict[Placed, int] = {}
        """Where each record is."""
        self.decided: set[Label] = set()

    @property
    def first_open_offset(self) -> int:
        """Returns the first offset that is not decided; the end if all is."""
        return min((each.first_offset for each in self.open.values()), default=self.end)

    def visible(self, start: int, end: int) -> list[tuple[int, Placed]]:
        """Returns what a reader of committed records must be given between two offsets."""
        return [(offset, self.records[offset]) for offset in range(start, end) if self.outcomes.get(offset)]

    def numbers_of(self, label: Label) -> list[int]:
        return [placed.number for placed in self.records.values() if placed.label == label]

    def undecided(self, start: int, end: int) -> list[int]:
        return [offset for offset in range(start, end) if offset in self.records and offset not in self.outcomes]

    def add_records(self, header: BatchHeader, values: list[tuple[int, bytes]]) -> Label:
        """Adds a batch of a transaction. Returns which it is of."""
        self.end = header.next_offset
        placed = [(offset, placed_of(value)) for offset, value in values]
        label = placed[0][1].label
        transaction = self.open.get(header.producer_id)
        if transaction is None:
            transaction = self.open[header.producer_id] = OpenTransaction(label, header.base_offset)
        for offset, each in placed:
            transaction.offsets.append(offset)
            self.records[offset] = each
        return label

    def add_marker(self, header: BatchHeader, is_commit: bool) -> Decision:
        self.end = header.next_offset
        transaction = self.open.pop(header.producer_id, None)
        if transaction is None:
            return Decision(None, is_commit)
        self.outcomes.update(dict.fromkeys(transaction.offsets, is_commit))
        self.decided.add(transaction.label)
        return Decision(transaction.label, is_commit)
