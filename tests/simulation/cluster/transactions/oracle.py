"""What must be true of transactions, whatever happens: it hears of what logs have committed, and of what clients did
and were told.

The invariants have the numbers of the project's list of transactions, and a T before them. What a client of the rules
of version 1 did after a request that was never answered is not judged: such a request may arrive late, and nothing
tells it from one of the next transaction. Version 2 changes the epoch with every transaction, and is always judged.
"""

from collections.abc import Iterable, Mapping

from barnabas.broker.transactions.transaction import ProducerIdAndEpoch
from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.types import TopicPartition
from tests.simulation.cluster.replicas.claims import DataOracle
from tests.simulation.cluster.transactions.model import Label, PartitionModel, Placed, placed_of


class Transaction:
    """What is known of one transaction."""

    def __init__(self, label: Label) -> None:
        self.label = label
        self.is_judged = True
        self.asked_commit = False
        self.told: bool | None = None
        """How it ended, as its client was told."""
        self.decision: bool | None = None
        """How it ended, as the first marker says."""
        self.acknowledged: dict[TopicPartition, dict[int, Placed]] = {}
        """What must be there if it is committed."""
        self.offsets: dict[tuple[str, TopicPartition], int] = {}
        """What it commits of the offsets of groups."""


class TransactionOracle(DataOracle):
    def __init__(self, partitions: Iterable[TopicPartition], given: set[int]) -> None:
        names = list(partitions)
        super().__init__(names, given)
        self.models = {name: PartitionModel(str(name)) for name in names}
        self.transactions: dict[Label, Transaction] = {}
        self.is_void = False
        """Whether more was lost than the settings survive: then nothing is claimed any more but that all goes on."""
        self.is_calm = False
        """Whether nothing goes wrong."""
        self._told: dict[tuple[str, int, int], ProducerIdAndEpoch] = {}
        self._stored: dict[tuple[str, int, int], ProducerIdAndEpoch] = {}
        """What comes after a transaction, by its id and the producer that it has ended with."""
        self.positions: dict[TopicPartition, int] = dict.fromkeys(names, 0)
        self.committed_transactions = 0
        self._stable: dict[tuple[TopicPartition, int], int] = {}
        self._offsets: dict[tuple[str, TopicPartition], int | None] = {}
        """What is committed of each group, as far as anybody can say."""
        self.copiers: dict[str, int] = {}
        """The number that the next record of a copier must have."""

    def begin_anew(self) -> None:
        super().begin_anew()
        self.is_void = True

    # ---- what clients do

    def begun(self, label: Label) -> Transaction:
        transaction = self.transactions[label] = Transaction(label)
        return transaction

    def fenced(self, name: str, number: int) -> None:
        """A client was refused, and no other has its id."""
        if self.is_calm:
            nobody_is_fenced_by_nobody(name, number)

    def goes_on_with(self, transactional_id: str, producer_id: int, epoch: int, told: ProducerIdAndEpoch) -> None:
        """A client whose transaction has ended in this epoch was told what the next begins with."""
        self._goes_on((transactional_id, producer_id, epoch), told, self._told, self._stored)

    def completed(self, transactional_id: str, producer_id: int, epoch: int, stored: ProducerIdAndEpoch) -> None:
        """A coordinator has stored what comes after the transaction that has ended in this epoch."""
        self._goes_on((transactional_id, producer_id, epoch), stored, self._stored, self._told)

    def _goes_on(
        self,
        ended: tuple[str, int, int],
        producer: ProducerIdAndEpoch,
        these: dict[tuple[str, int, int], ProducerIdAndEpoch],
        others: Mapping[tuple[str, int, int], ProducerIdAndEpoch],
    ) -> None:
        these[ended] = producer
        if not self.is_void and ended in others:
            what_was_told_is_stored(ended[0], producer, others[ended])

    def asked(self, transaction: Transaction, is_commit: bool) -> None:
        transaction.asked_commit |= is_commit

    def told(self, transaction: Transaction, is_commit: bool) -> None:
        """The client was told that its transaction has ended like that."""
        if self.is_void:
            return
        transaction.told = is_commit
        if transaction.is_judged:
            what_was_told_is_decided(transaction)
        if is_commit:
            self.committed_transactions += 1
            self._offsets.update(transaction.offsets)

    def records_acknowledged(
        self, transaction: Transaction, partition: TopicPartition, base_offset: int, records: list[Placed]
    ) -> None:
        if base_offset >= 0:
            told = transaction.acknowledged.setdefault(partition, {})
            told.update((base_offset + index, record) for index, record in enumerate(records))

    # ---- what logs have

    def batch_committed(self, partition: TopicPartition, header: BatchHeader, values: list[tuple[int, bytes]]) -> None:
        """A batch of records is below the high watermark."""
        if self.is_void:
            return
        model = self.models[partition]
        before = model.open.get(header.producer_id)
        label = model.add_records(header, values)
        transaction = self.transactions[label]
        if transaction.is_judged:
            nothing_is_added_to_another_transaction(model, before.label if before else None, label)
            nothing_is_added_to_what_has_ended(model, label)
            for offset, _ in values:
                a_record_is_there_once(model, offset)

    def marker_committed(self, partition: TopicPartition, header: BatchHeader, is_commit: bool) -> None:
        """A marker is below the high watermark."""
        if self.is_void:
            return
        model = self.models[partition]
        label, _ = model.add_marker(header, is_commit)
        if label is None:
            return
        transaction = self.transactions[label]
        if transaction.is_judged:
            one_decision(model, transaction, is_commit)
            nobody_commits_for_others(model, transaction, is_commit)
        transaction.decision = is_commit
        if transaction.is_judged:
            what_was_told_is_decided(transaction)
        if is_commit:
            what_was_acknowledged_is_committed(model, transaction.acknowledged.get(partition, {}))
            self._copied(model, transaction)

    def _copied(self, model: PartitionModel, transaction: Transaction) -> None:
        name = transaction.label.client
        if not transaction.is_judged:
            self.copiers.pop(name, None)
        elif (expected := self.copiers.get(name)) is not None:
            numbers = model.numbers_of(transaction.label)
            what_is_copied_goes_on(name, expected, numbers)
            self.copiers[name] = numbers[-1] + 1

    # ---- what readers see

    def read(self, partition: TopicPartition, start: int, next_offset: int, records: list[tuple[int, bytes]]) -> None:
        """A reader of committed records has gone from one offset to another and been given these."""
        if self.is_void:
            return
        model = self.models[partition]
        what_is_read_is_decided(model, start, next_offset)
        exactly_what_was_committed_is_read(model, start, next_offset, records)
        self.positions[partition] = next_offset

    def stable_told(self, partition: TopicPartition, leader_epoch: int, last_stable_offset: int) -> None:
        if self.is_void:
            return
        the_stable_offset_is_before_what_is_open(self.models[partition], last_stable_offset)
        before = self._stable.get((partition, leader_epoch), 0)
        the_stable_offset_does_not_go_back(partition, before, last_stable_offset)
        self._stable[partition, leader_epoch] = last_stable_offset

    # ---- offsets of groups

    def plainly_committed(self, group: str, partition: TopicPartition, offset: int | None) -> None:
        """Was stored outside of a transaction, after what the open transaction has stored. None if it may be stored
        again at any time."""
        self._offsets[group, partition] = offset

    def offsets_told(self, group: str, found: Mapping[TopicPartition, int], last: Transaction | None) -> None:
        """A client that has fenced its predecessor asks where to go on: its last transaction is decided, also if
        nobody was told how."""
        if last is not None and last.told is None and last.decision:
            self._offsets.update(last.offsets)
        for partition, offset in found.items():
            expected = self._offsets.get((group, partition), -1)
            is_judged = last is None or last.is_judged
            if not self.is_void and is_judged and expected is not None:
                offsets_follow_their_transactions(group, partition, expected, offset)
            elif expected is not None:
                self._offsets[group, partition] = offset

    # ---- the end

    def is_read_to_the_end(self) -> bool:
        return self.is_void or all(self.positions[name] >= model.end for name, model in self.models.items())

    def everything_has_ended(self) -> None:
        """Is asked when all clients have ended and the time of their transactions is over."""
        for model in () if self.is_void else self.models.values():
            nothing_stays_open(model)


def one_decision(model: PartitionModel, transaction: Transaction, is_commit: bool) -> None:
    """TI1: one transaction has one end in all partitions."""
    assert transaction.decision in (None, is_commit), (
        f"TI1: {transaction.label} is {_end(is_commit)} in {model.name}, and {_end(not is_commit)} in another"
    )


def exactly_what_was_committed_is_read(
    model: PartitionModel, start: int, end: int, records: list[tuple[int, bytes]]
) -> None:
    """TI2: once, in order, and nothing else."""
    found, expected = [(offset, placed_of(value)) for offset, value in records], model.visible(start, end)
    assert found == expected, (
        f"TI2: from {start} to {end} of {model.name} a reader got {found}, and {expected} is committed"
    )


def a_record_is_there_once(model: PartitionModel, offset: int) -> None:
    """TI2: also where a producer has tried again."""
    first = model.numbers.setdefault(model.records[offset], offset)
    assert first == offset, f"TI2: {model.records[offset]} is at {first} and at {offset} of {model.name}"


def what_was_acknowledged_is_committed(model: PartitionModel, told: Mapping[int, Placed]) -> None:
    """TI2: what a transaction holds is what its client was told that it holds."""
    for offset, record in told.items():
        there = model.records.get(offset)
        assert there == record, f"TI2: {record} was acknowledged at {offset} of {model.name}, where {there} is"
        assert model.outcomes.get(offset), f"TI2: {record} at {offset} of {model.name} was left out of its commit"


def what_is_copied_goes_on(name: str, expected: int, numbers: list[int]) -> None:
    """TI2: nothing is copied twice, and nothing is left out."""
    assert numbers == list(range(expected, expected + len(numbers))), (
        f"TI2: {name} has copied {numbers}, {expected} is next"
    )


def what_was_told_is_decided(transaction: Transaction) -> None:
    """TI3: an end that was acknowledged is the end."""
    told, decision = transaction.told, transaction.decision
    assert None in (told, decision) or told == decision, (
        f"TI3: {transaction.label} was told to be {_end(bool(told))}, and is {_end(bool(decision))}"
    )


def what_is_read_is_decided(model: PartitionModel, start: int, end: int) -> None:
    """TI3: what a reader has passed cannot get another end, for the marker is committed."""
    assert end <= model.end, f"TI3: a reader is at {end} of {model.name}, {model.end} is committed"
    undecided = model.undecided(start, end)
    assert not undecided, f"TI3: a reader has passed {undecided} of {model.name}, which may still be aborted"


def nobody_commits_for_others(model: PartitionModel, transaction: Transaction, is_commit: bool) -> None:
    """TI4: only a client's own request commits its transaction."""
    assert transaction.asked_commit or not is_commit, (
        f"TI4: {transaction.label} is committed in {model.name}, and nobody has asked for it"
    )


def nothing_is_added_to_another_transaction(model: PartitionModel, before: Label | None, label: Label) -> None:
    """TI4: what is sent in one epoch changes nothing of another."""
    assert before in (None, label), f"TI4: a batch of {label} is in {before} in {model.name}"


def nothing_is_added_to_what_has_ended(model: PartitionModel, label: Label) -> None:
    """TI5: a record that comes after the end of its transaction would hang, or be part of the next one."""
    assert label not in model.decided, f"TI5: a batch of {label} comes after its end in {model.name}"


def nothing_stays_open(model: PartitionModel) -> None:
    """TI5."""
    hanging = {producer_id: each.label for producer_id, each in model.open.items()}
    assert not hanging, f"TI5: in {model.name} transactions hang: {hanging}"


def the_stable_offset_is_before_what_is_open(model: PartitionModel, last_stable_offset: int) -> None:
    """TI6."""
    first = model.first_open_offset
    assert last_stable_offset <= first, f"TI6: {last_stable_offset} of {model.name} is stable, {first} is not decided"


def the_stable_offset_does_not_go_back(partition: TopicPartition, before: int, now: int) -> None:
    """TI6: in one epoch of a leader."""
    assert now >= before, f"TI6: the stable offset of {partition} goes back from {before} to {now}"


def offsets_follow_their_transactions(group: str, partition: TopicPartition, expected: int, found: int) -> None:
    """TI7."""
    assert found == expected, f"TI7: {group} has {found} of {partition} committed, by its transactions it is {expected}"


def what_was_told_is_stored(transactional_id: str, one: ProducerIdAndEpoch, other: ProducerIdAndEpoch) -> None:
    """TI9: what a producer goes on with is what its coordinator goes on with, whoever that is by then."""
    assert one == other, f"TI9: of what comes after a transaction of {transactional_id}, {one} and {other} are said"


def nobody_is_fenced_by_nobody(name: str, number: int) -> None:
    """TI9."""
    raise AssertionError(f"TI9: {name} is fenced in transaction {number}, and nobody else has its id")


def _end(is_commit: bool) -> str:
    return "committed" if is_commit else "aborted"
