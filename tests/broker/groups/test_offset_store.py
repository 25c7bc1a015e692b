"""Committed and pending offsets against the simplest description of them: the whole log, looked at once."""

from random import Random

import pytest

from barnabas.broker.groups.offset_store import OffsetStore
from barnabas.protocol.stored.group_records import OffsetCommitKey, OffsetCommitValue

PARTITIONS = [(group_id, topic, index) for group_id in ("a", "b") for topic in ("orders", "bills") for index in (0, 1)]
NO_PRODUCER = -1
Partition = tuple[str, str, int]


class WholeLog:
    """Every record that was written, and how each transaction has ended."""

    def __init__(self) -> None:
        self.records: list[tuple[Partition, int, bool, bool | None]] = []
        """Partition, producer id, whether it is a tombstone, and whether it counts: None while that is open."""

    def end(self, producer_id: int, *, is_committed: bool) -> None:
        self.records = [
            (partition, owner, is_tombstone, is_committed if owner == producer_id and counts is None else counts)
            for partition, owner, is_tombstone, counts in self.records
        ]

    def committed(self, partition: Partition) -> int | None:
        """Returns the offset of the record that a compaction would leave, if it is no tombstone."""
        for offset, (where, _, is_tombstone, counts) in reversed(list(enumerate(self.records))):
            if where == partition and counts:
                return None if is_tombstone else offset
        return None

    def is_pending(self, partition: Partition) -> bool:
        since_tombstone: list[bool | None] = []
        for where, _, is_tombstone, counts in self.records:
            if where == partition:
                since_tombstone = [] if is_tombstone else [*since_tombstone, counts]
        return None in since_tombstone


@pytest.mark.parametrize("seed", range(30))
def test_what_is_in_force_is_what_compaction_would_keep(seed: int) -> None:
    random, store, log = Random(seed), OffsetStore(), WholeLog()
    for _ in range(120):
        partition, producer_id = random.choice(PARTITIONS), random.randrange(3)
        key = OffsetCommitKey(group=partition[0], topic=partition[1], partition=partition[2])
        offset = len(log.records)
        stored = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0), offset
        match random.choice(("plain", "pending", "pending", "tombstone", "end")):
            case "plain":
                log.records.append((partition, NO_PRODUCER, False, True))
                store.put(key, stored)
            case "pending":
                log.records.append((partition, producer_id, False, None))
                store.put_pending(key, stored, producer_id)
            case "tombstone":
                log.records.append((partition, NO_PRODUCER, True, True))
                store.remove(key)
            case _:
                is_committed = random.random() < 0.7
                log.end(producer_id, is_committed=is_committed)
                store.end_transaction(producer_id, is_committed=is_committed)
        _compare(store, log, f"seed={seed} after record {offset}")


def _compare(store: OffsetStore, log: WholeLog, where: str) -> None:
    for partition in PARTITIONS:
        group_id, topic, index = partition
        stored = store.committed(group_id).get(topic, {}).get(index)
        assert (None if stored is None else stored[1]) == log.committed(partition), f"{where}: {partition}"
        assert store.is_pending(*partition) == log.is_pending(partition), f"{where}: {partition}"
    for group_id in ("a", "b"):
        theirs = [partition for partition in PARTITIONS if partition[0] == group_id]
        known = {partition[1:] for partition in theirs if log.committed(partition) is not None}
        pending = {partition[1:] for partition in theirs if log.is_pending(partition)}
        assert sorted(store.partitions_of(group_id)) == sorted(known | pending), f"{where}: each is named once"
        assert store.has_pending(group_id) == bool(pending), where
        assert (group_id in store.groups()) == bool(known | pending), f"{where}: nothing is left of {group_id}"
