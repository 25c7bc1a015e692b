"""What must be true of a broker, whatever happened to it: it hears of everything that clients were told.

- An acknowledged record is read exactly once, at the offset that was told, in the order of its producer. Of a topic
  that is not flushed at once a power cut may take records that were acknowledged before it; it brings nothing twice.
- What a consumer has read once is never another record: an offset has one value, and there is no gap.
- A commit that was acknowledged is what the next fetch of offsets finds, or a later one.
- A group leaves no record out. In a generation a partition has one owner, and a generation that is over stores nothing.
- A producer id is given once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.types import ZERO_UUID, TopicPartition, Uuid

Record = tuple[str, int]
"""The producer's name, and the number that it gave the record."""


class Sent(NamedTuple):
    """What was known when a record was sent: the answer may be older than what has happened since."""

    power_cuts: int
    topic_id: Uuid = ZERO_UUID


class PartitionModel:
    """What is known of one partition."""

    def __init__(self) -> None:
        self.acknowledged: dict[Record, int] = {}
        """With the offset that was told, -1 if none was."""
        self.refused: set[Record] = set()
        self.doubtful: set[Record] = set()
        """Nobody knows whether they are there, and they may be there twice."""
        self.read: list[Record] = []
        """By offset."""
        self.last_read: dict[str, int] = {}
        """The highest number of each producer."""

    def forget_what_was_read(self) -> None:
        self.read.clear()
        self.last_read.clear()


class Oracle:
    def __init__(self, partitions: Iterable[TopicPartition], *, flushed_topics: Sequence[str]) -> None:
        self.partitions = {partition: PartitionModel() for partition in partitions}
        self.flushed_topics = flushed_topics
        self.power_cuts = 0
        self.acknowledged_records = 0
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.covered: dict[tuple[str, TopicPartition], int] = {}
        """Of each group the offset behind the records that it has processed without leaving one out."""
        self.generations: dict[str, int] = {}
        """The newest of each group that has begun."""
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}
        self._producer_ids: set[int] = set()

    def may_have_lost(self, partition: TopicPartition) -> bool:
        """Returns whether something may be gone that was acknowledged."""
        return bool(self.power_cuts) and partition.topic not in self.flushed_topics

    def power_was_cut(self) -> None:
        """What is not flushed at once may be gone: nobody can say any more what must be there."""
        self.power_cuts += 1
        for partition, model in self.partitions.items():
            if partition.topic not in self.flushed_topics:
                model.acknowledged.clear()
                model.forget_what_was_read()

    # ---- producers

    def producer_id_given(self, producer_id: int) -> None:
        assert producer_id not in self._producer_ids, f"I20: producer id {producer_id} was given twice"
        self._producer_ids.add(producer_id)

    def acknowledged(
        self, producer: str, partition: TopicPartition, numbers: list[int], base_offset: int, sent: Sent
    ) -> None:
        model = self.partitions[partition]
        if sent.power_cuts < self.power_cuts and partition.topic not in self.flushed_topics:
            return
        self.acknowledged_records += len(numbers)
        for index, number in enumerate(numbers):
            model.acknowledged[producer, number] = base_offset + index if base_offset >= 0 else -1

    def doubted(self, producer: str, partition: TopicPartition, numbers: Iterable[int]) -> None:
        self.partitions[partition].doubtful.update((producer, number) for number in numbers)

    def refused(self, producer: str, partition: TopicPartition, numbers: list[int], code: ErrorCode) -> None:
        """The broker says that it lost what came before."""
        assert self.may_have_lost(partition), (
            f"I11: {partition} refused {producer}'s {numbers} with {code.name}, though nothing may be lost"
        )
        self.partitions[partition].refused.update((producer, number) for number in numbers)

    # ---- consumers

    def record_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """By one that reads every partition from its start, without leaving anything out."""
        model = self.partitions[partition]
        producer, _ = record = record_in(value)
        assert offset == len(model.read), f"I14: {partition}: read offset {offset} after {len(model.read) - 1}"
        if record not in model.doubtful:
            _check_place(model, record, offset)
        model.last_read[producer] = max(record[1], model.last_read.get(producer, -1))
        model.read.append(record)

    def is_all_read(self) -> bool:
        return not self.missing()

    def missing(self) -> dict[TopicPartition, list[Record]]:
        """The acknowledged records that nobody has read."""
        missing = {}
        for partition, model in self.partitions.items():
            if lost := sorted(set(model.acknowledged) - set(model.read)):
                missing[partition] = lost
        return missing

    # ---- groups

    def commit_acknowledged(self, group: str, partition: TopicPartition, offset: int, before: int) -> None:
        """`before` is what had been acknowledged when the commit was sent."""
        assert offset >= before, f"I19: {group} committed {offset} of {partition}, after {before}"
        key = (group, partition)
        self.committed[key] = max(offset, self.committed.get(key, -1))

    def offset_fetched(self, group: str, partition: TopicPartition, offset: int, before: int) -> None:
        assert offset >= before, f"I19: {group} fetched {offset} of {partition}, and {before} was committed before"

    def assigned(self, group: str, generation: int, partition: TopicPartition, member: str) -> None:
        """I19: a group that has committed nothing may end, and begin anew with its first generation."""
        if any(name == group for name, _ in self.committed):
            owner = self._owners.setdefault((group, generation, partition), member)
            assert owner == member, f"I19: {owner} and {member} have {partition} in {generation} of {group}"
            self.generations[group] = max(generation, self.generations.get(group, -1))

    def generation_has_committed(self, group: str, generation: int, newest: int) -> None:
        """I19: `newest` is the one that had begun when the commit was sent."""
        assert generation >= newest, f"I19: generation {generation} of {group} has committed, after {newest} had begun"

    def last_committed(self, group: str, partition: TopicPartition) -> int:
        return self.committed.get((group, partition), -1)

    def processed(self, group: str, partition: TopicPartition, offset: int) -> None:
        if partition.topic in self.flushed_topics:
            covered = self.covered.get((group, partition), 0)
            assert offset <= covered, f"I19: {group} left out {covered} to {offset - 1} of {partition}"
            self.covered[group, partition] = max(covered, offset + 1)


def record_in(value: bytes) -> Record:
    producer, _, number_text = value.decode().partition(" ")
    return producer, int(number_text)


def _check_place(model: PartitionModel, record: Record, offset: int) -> None:
    assert record not in model.refused, f"I11: {record} was refused, and is there at {offset}"
    last = model.last_read.get(record[0], -1)
    assert record[1] > last, f"I11: {record} comes at {offset}, behind number {last}"
    told = model.acknowledged.get(record, -1)
    assert told in (-1, offset), f"I11: {record} is at {offset}, {told} was told"
