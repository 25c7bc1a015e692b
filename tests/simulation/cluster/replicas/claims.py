"""What may be demanded of each partition, after what has happened to the disks of its replicas.

Rules:
- The *holders* of a partition are the brokers whose disks have all that is committed: those in sync and those who are
  eligible to lead, as long as nothing has happened to their disks. Nothing is committed without them.
- A wiped disk holds nothing. A power cut takes the end of what is not flushed at once.
- While a holder is left nothing may be lost: only a holder may be elected, unless the topic prefers a leader to its
  records.
- Where none is left, or somebody else was elected, nothing is claimed until all is mended: an old leader may still
  show what the others have lost. A partition with one replica has nobody else, and begins anew at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from barnabas.protocol.types import ZERO_UUID, TopicPartition, Uuid
from barnabas.replication.metadata.image import NO_LEADER, ImageChanges, MetadataImage, PartitionImage, TopicImage
from tests.simulation.scenarios.oracle import Oracle, Record, Sent, record_in


class DataOracle(Oracle):
    """Of partitions that are claimed together. Producer ids are given by all brokers together."""

    def __init__(self, partitions: Iterable[TopicPartition], given: set[int]) -> None:
        names = list(partitions)
        super().__init__(names, flushed_topics=[name.topic for name in names])
        self._producer_ids = given  # I20
        self.is_suspended = False
        self.losses = 0
        self.topic_ids: dict[str, Uuid] = {name.topic: ZERO_UUID for name in names}
        self.past_ids: set[Uuid] = set()
        self._gone: set[tuple[TopicPartition, Record]] = set()
        """What was acknowledged of topics that were deleted since."""
        self.committed_end: Callable[[TopicPartition, Uuid], int | None] = lambda partition, topic_id: None
        """Says what leaders have committed; None if nothing is claimed of it."""

    def may_have_lost(self, partition: TopicPartition) -> bool:
        return bool(self.losses)

    def begin_anew(self) -> None:
        """Forgets everything: what comes from now on is checked."""
        self.power_cuts += 1  # answers to what was sent before do not count
        self.committed.clear()
        self.covered.clear()
        for model in self.partitions.values():
            model.acknowledged.clear()
            model.forget_what_was_read()

    def created(self, topic: str, topic_id: Uuid) -> None:
        """A topic that was deleted and created again begins anew: its records are gone by right."""
        if self.topic_ids[topic] != ZERO_UUID:
            self._gone.update(
                (name, record) for name, model in self.partitions.items() for record in model.acknowledged
            )
            self.past_ids.add(self.topic_ids[topic])
            self.begin_anew()
            self.is_suspended, self.losses = False, 0
        self.topic_ids[topic] = topic_id

    def suspend(self) -> None:
        self.losses += 1
        self.is_suspended = True
        self.begin_anew()

    def resume(self) -> None:
        self.is_suspended = False
        self.begin_anew()

    def acknowledged(
        self, producer: str, partition: TopicPartition, numbers: list[int], base_offset: int, sent: Sent
    ) -> None:
        if not self.is_suspended and sent == (self.power_cuts, self.topic_ids[partition.topic]):
            end = self.committed_end(partition, sent.topic_id)
            what_is_acknowledged_is_committed(partition, base_offset + len(numbers), end)
            super().acknowledged(producer, partition, numbers, base_offset, sent)

    def refused(self, producer: str, partition: TopicPartition, numbers: list[int], code: object) -> None:
        assert self.losses, f"I11: {partition} refused {producer}'s {numbers} with {code}, though nothing may be lost"

    def record_read(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        if not self.is_suspended:
            super().record_read(partition, offset, value)
            records_do_not_cross_topic_ids(partition, self.partitions[partition].read[-1], self._gone)

    def read_nearby(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """Hears of what was read from any replica, while nothing may be lost."""
        end, read = self.committed_end(partition, self.topic_ids[partition.topic]), self.partitions[partition].read
        assert end is None or offset < end, f"I14: {offset} of {partition} is read, {end} is committed"
        if offset < len(read):
            assert record_in(value) == read[offset], f"I14: {offset} of {partition} is {value!r} and {read[offset]}"

    def commit_acknowledged(self, group: str, partition: TopicPartition, offset: int, before: int) -> None:
        if not self.losses:
            super().commit_acknowledged(group, partition, offset, before)

    def offset_fetched(self, group: str, partition: TopicPartition, offset: int, before: int) -> None:
        if not self.losses:
            super().offset_fetched(group, partition, offset, before)

    def assigned(self, group: str, generation: int, partition: TopicPartition, member: str) -> None:
        if not self.losses:
            super().assigned(group, generation, partition, member)

    def generation_has_committed(self, group: str, generation: int, newest: int) -> None:
        if not self.losses:
            super().generation_has_committed(group, generation, newest)

    def processed(self, group: str, partition: TopicPartition, offset: int) -> None:
        if not self.losses:
            super().processed(group, partition, offset)


def what_is_acknowledged_is_committed(partition: TopicPartition, end_offset: int, committed: int | None) -> None:
    """I12: enough replicas have it at this moment."""
    assert committed is None or end_offset <= committed, (
        f"I12: {partition} is acknowledged up to {end_offset}, {committed} is committed"
    )


def records_do_not_cross_topic_ids(
    partition: TopicPartition, record: Record, gone: set[tuple[TopicPartition, Record]]
) -> None:
    """I21: what was acknowledged is sent no more, so it is in the topic that was deleted only."""
    assert (partition, record) not in gone, f"I21: {record} was in a topic {partition.topic} that was deleted"


class Claims:
    def __init__(
        self, oracles: Iterable[DataOracle], internal: Mapping[str, Sequence[DataOracle]], flushed: Iterable[str]
    ) -> None:
        """Takes the oracles that suffer when something is lost of an internal topic."""
        self.by_partition: dict[TopicPartition, DataOracle] = {
            partition: oracle for oracle in oracles for partition in oracle.partitions
        }
        self.oracles = list(dict.fromkeys(self.by_partition.values()))
        self.holders: dict[TopicPartition, set[int]] = {}
        self._known: dict[TopicPartition, PartitionImage] = {}
        self._internal = internal
        self._flushed = frozenset(flushed)
        self._end_offset = 0

    def oracles_of(self, partition: TopicPartition) -> Sequence[DataOracle]:
        oracle = self.by_partition.get(partition)
        return self._internal.get(partition.topic, ()) if oracle is None else (oracle,)

    def known(self, partition: TopicPartition) -> PartitionImage:
        """Returns what the metadata said last."""
        return self._known[partition]

    # ---- disks

    def power_was_cut(self, broker_id: int) -> None:
        for partition in self.holders:
            if partition.topic not in self._flushed:
                self._lost(partition, broker_id)

    def disk_was_wiped(self, broker_id: int) -> None:
        for partition in self.holders:
            self._lost(partition, broker_id)

    def disk_was_damaged(self, broker_id: int, partition: TopicPartition) -> None:
        self._lost(partition, broker_id)

    def others_hold(self, partition: TopicPartition, broker_id: int) -> bool:
        """Returns whether somebody else's disk has all of the partition."""
        return bool(self.holders.get(partition, set()) - {broker_id})

    def would_lose(self, broker_id: int) -> bool:
        """Returns whether a wiped disk would take the last copy of something that has several."""
        return any(
            holders == {broker_id} and len(self._known[partition].replicas) > 1
            for partition, holders in self.holders.items()
        )

    def _lost(self, partition: TopicPartition, broker_id: int) -> None:
        holders = self.holders[partition]
        if broker_id in holders:
            holders.discard(broker_id)
            if not holders:
                self._suspend(partition)

    def _suspend(self, partition: TopicPartition) -> None:
        for oracle in self.oracles_of(partition):
            oracle.suspend()
            if len(self._known[partition].replicas) == 1:
                self._resume(oracle)

    def all_is_mended(self) -> None:
        for oracle in self.oracles:
            if oracle.is_suspended:
                self._resume(oracle)

    def _resume(self, oracle: DataOracle) -> None:
        oracle.resume()
        for partition in oracle.partitions:
            self.holders[partition] = _in_charge(self._known[partition])

    # ---- metadata

    def published(self, image: MetadataImage, changes: ImageChanges | None = None) -> None:
        """Hears of every image, from every broker; each is news once. Without changes all of it may be news."""
        if image.end_offset <= self._end_offset:
            return
        self._end_offset = image.end_offset
        topics = image.topics.values() if changes is None else [after for _, after in changes.topics if after]
        for topic in topics:
            self._created(topic)
            for index, now in enumerate(topic.partitions):
                partition = TopicPartition(topic.name, index)
                if self._known.get(partition) != now and self.oracles_of(partition):
                    self._changed(partition, self._known.get(partition), now)
                    self._known[partition] = now

    def _created(self, topic: TopicImage) -> None:
        for index in range(len(topic.partitions)):
            partition = TopicPartition(topic.name, index)
            oracle = self.by_partition.get(partition)
            if oracle is not None and oracle.topic_ids[topic.name] != topic.topic_id:
                oracle.created(topic.name, topic.topic_id)
                for each in oracle.partitions:
                    self._known.pop(each, None)
                    self.holders.pop(each, None)

    def _changed(self, partition: TopicPartition, known: PartitionImage | None, now: PartitionImage) -> None:
        holders = self.holders.setdefault(partition, set(now.isr))
        if known is None:
            return
        if now.leader not in (NO_LEADER, known.leader) and now.leader not in holders:
            self._suspend(partition)
            holders.clear()
        old, new = _in_charge(known), _in_charge(now)
        if new:
            holders.intersection_update(new)
            holders.update(new - old)


def _in_charge(partition: PartitionImage) -> set[int]:
    return {*partition.isr, *partition.eligible_leader_replicas}
