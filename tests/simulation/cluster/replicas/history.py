"""What is committed of a partition, batch by batch, as its replicas have said; and what they may never contradict."""

from collections.abc import Iterable
from typing import NamedTuple

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import NO_EPOCH
from barnabas.protocol.batch_header import crc_of, iter_batches
from barnabas.storage.log import Log

_READ_BYTES = 1 << 20


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    producer: tuple[int, int, int]
    """Its id, its epoch, and the sequence number of its first record."""


def batches_of(log: Log, start: int, end: int) -> Iterable[Batch]:
    """Yields what the disk has from one offset to another."""
    offset = max(start, log.log_start_offset)
    while offset < end:
        found = log.read(offset, _READ_BYTES, max_offset=log.log_end_offset)  # to look for the end of less takes longer
        if found is None:
            return
        for _, header in iter_batches(found.file.pread(found.size, found.position)):
            if header.last_offset >= end:
                return
            if header.base_offset >= start:
                producer = (header.producer_id, header.producer_epoch, header.base_sequence)
                yield Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc, producer)
            offset = header.next_offset


def checksums_are_true(log: Log, end: int) -> None:
    """I9: what a disk has up to this offset is what was written."""
    offset = log.log_start_offset
    while offset < end and (found := log.read(offset, _READ_BYTES, max_offset=end)) is not None:
        data = memoryview(found.file.pread(found.size, found.position))
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            assert crc_of(batch) == header.crc, f"I9: {log.topic_partition} has wrong bytes at {header.base_offset}"
            offset = header.next_offset


class History:
    """Of one partition of one topic id. Replicas are numbered as their brokers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.leaders: dict[int, int] = {}
        """Who has appended own batches in each epoch."""
        self.newest_epoch = -1
        """The latest in which somebody was heard to lead."""
        self.end = 0
        self.ends: dict[int, int] = {}
        """Where the log of each replica ends."""
        self.furthest = 0
        """How far any log has ever got."""
        self.durable: dict[int, int] = {}
        """Up to where each replica must have its log after a power cut."""
        self.removed: set[int] = set()
        """Whose log is deleted by right, of which their leader may not have heard."""
        self.is_void = False
        """Whether so much went wrong that nothing is claimed any more."""
        self._by_offset: dict[int, Batch] = {}
        self._sequences: dict[tuple[int, int, int], int] = {}

    def committed_before(self, leader_epoch: int) -> list[Batch]:
        return [batch for batch in self._by_offset.values() if batch.leader_epoch < leader_epoch]

    # ---- what replicas say

    def led(self, broker_id: int, leader_epoch: int) -> None:
        """I8."""
        leader = self.leaders.setdefault(leader_epoch, broker_id)
        assert leader == broker_id, f"I8: {leader} and {broker_id} both lead {self.name} in epoch {leader_epoch}"

    def committed_by_leader(self, broker_id: int, batches: Iterable[Batch]) -> None:
        for batch in batches:
            if batch.base_offset in self._by_offset:
                self.committed_is_for_ever(broker_id, batch)
            else:
                self._commit(broker_id, batch)

    def committed_by_follower(self, broker_id: int, high_watermark: int, batches: Iterable[Batch]) -> None:
        assert high_watermark <= self.end, (
            f"I13: {broker_id} has {high_watermark} of {self.name} as committed, no leader has more than {self.end}"
        )
        for batch in batches:
            self.committed_is_for_ever(broker_id, batch)

    def committed_is_for_ever(self, broker_id: int, batch: Batch) -> None:
        """I9."""
        known = self._by_offset.get(batch.base_offset)
        assert known == batch, f"I9: {broker_id} has {batch} in {self.name}, committed is {known}"

    def _commit(self, broker_id: int, batch: Batch) -> None:
        assert batch.base_offset == self.end, f"I9: {broker_id} commits {batch} of {self.name} after {self.end}"
        if batch.producer[2] >= 0:  # markers have no number
            earlier = self._sequences.setdefault(batch.producer, batch.base_offset)
            assert earlier == batch.base_offset, f"I15: {batch} of {self.name} is at {earlier}, too"
        self._by_offset[batch.base_offset] = batch
        self.end = batch.last_offset + 1

    def elected(self, broker_id: int, leader_epoch: int, found: Iterable[Batch]) -> None:
        """I10: everything that was committed in earlier epochs is there."""
        self.newest_epoch = max(self.newest_epoch, leader_epoch)
        have = set(found)
        for batch in self.committed_before(leader_epoch):
            assert batch in have, f"I10: {broker_id} leads {self.name} in epoch {leader_epoch} without {batch}"

    def joins(self, broker_id: int, leader_epoch: int, end_offset: int) -> None:
        """I10: who is about to be in sync has all that is committed, for it may be elected. One that leads no more, and
        does not know it, may think otherwise: nobody listens to it."""
        assert leader_epoch < self.newest_epoch or end_offset >= self.end, (
            f"I10: {broker_id} is to be in sync with {self.name} and has {end_offset}, {self.end} is committed"
        )

    # ---- what disks have

    def opened(self, broker_id: int, log: Log) -> None:
        """I22: what was durable is there when a log is opened again."""
        durable = self.durable.get(broker_id, 0)
        assert log.log_end_offset >= durable, (
            f"I22: {broker_id} has {self.name} up to {log.log_end_offset}, {durable} was durable"
        )
        records_stay_in_their_topic(self.name, broker_id, log.log_end_offset, self.furthest)
        self.removed.discard(broker_id)
        self.changed(broker_id, log)

    def changed(self, broker_id: int, log: Log) -> None:
        self.ends[broker_id] = log.log_end_offset
        self.furthest = max(self.furthest, log.log_end_offset)
        synced = min(self.durable.get(broker_id, 0), log.log_end_offset)  # a start knows less of it than the disk
        self.durable[broker_id] = max(synced, log.recovery_point)

    def deleted(self, broker_id: int) -> None:
        self.wiped(broker_id)
        self.removed.add(broker_id)

    def wiped(self, broker_id: int) -> None:
        self.ends.pop(broker_id, None)
        self.durable.pop(broker_id, None)

    def in_sync_have(self, high_watermark: int, in_sync: Iterable[int], *, is_durable: bool) -> None:
        """I12, I13."""
        ends = self.durable if is_durable else self.ends
        for broker_id in in_sync:
            end = ends.get(broker_id, 0)
            assert end >= high_watermark or broker_id in self.removed, (
                f"I13: {high_watermark} of {self.name} is committed, and {broker_id}, which is in sync, ends at {end}"
            )


def enough_are_in_sync(name: str, isr: tuple[int, ...], needed: int) -> None:
    """I12."""
    assert len(isr) >= needed, f"I12: {name} commits with {isr} in sync, {needed} are needed"


def only_the_leader_is_asked(partition: LeaderPartition, leader_epoch: int) -> None:
    """I16: a follower is heard by who leads, in the epoch that both know."""
    leads, name = partition.log.listener is partition, partition.topic_partition
    assert leads, f"I16: a follower of {name} is heard by one that led in epoch {partition.leader_epoch}"
    assert leader_epoch in (NO_EPOCH, partition.leader_epoch), (
        f"I16: a follower of {name} in epoch {leader_epoch} is heard by the leader of epoch {partition.leader_epoch}"
    )


def producers_are_cut_with_the_log(log: Log) -> None:
    """I15: a producer whose last batch was cut off may send it again."""
    for producer_id, entry in log.producers.entries():
        last_offset = entry.batches[-1].last_offset if entry.batches else -1
        assert last_offset < log.log_end_offset, (
            f"I15: {log.topic_partition} ends at {log.log_end_offset}, {last_offset} is known of producer {producer_id}"
        )


def records_stay_in_their_topic(name: str, broker_id: int, end: int, furthest: int) -> None:
    """I21: a log that is opened has no more than its topic ever had, or it has another topic's."""
    assert end <= furthest, f"I21: {broker_id} opens {name} with {end} records, nobody has had more than {furthest}"
