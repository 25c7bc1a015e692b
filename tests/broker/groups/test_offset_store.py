"""Committed and pending offsets against the simplest description of them: the whole log, looked at once."""

from collections.abc import Iterator
from random import Random

import pytest

from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.groups.offset_store import OffsetStore
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.stored.group_records import OffsetCommitKey, OffsetCommitValue
from tests.broker.groups.harness import GroupHarness

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


def test_what_goes_with_many_topics_is_looked_for_once_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand offsets took seconds, in which the broker did nothing else."""
    harness = GroupHarness()
    for group_id, topic, index in PARTITIONS:
        key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=0)
        harness.ask(lambda _, key=key, value=value: Decision([(key, value)], None))  # type: ignore[misc]
    looked: list[str] = []
    partitions_of = OffsetStore.partitions_of

    def counted(store: OffsetStore, group_id: str) -> Iterator[tuple[str, int]]:
        looked.append(group_id)
        return partitions_of(store, group_id)

    monkeypatch.setattr(OffsetStore, "partitions_of", counted)
    names = ["orders", *[f"topic-{number}" for number in range(100)]]
    topics = [
        OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for name in names
    ]
    harness.ask(lambda shard: shard.offsets.delete(OffsetDeleteRequest(group_id="a", topics=topics)))
    assert looked == []
    harness.ask(lambda shard: shard.on_topics_deleted(names))
    assert looked == ["a", "b"]
    gone = [
        (key.group, key.partition) for key, _ in harness.records(len(PARTITIONS)) if isinstance(key, OffsetCommitKey)
    ]
    assert gone == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


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
        assert [place for place in PARTITIONS if store.holds(*place) and place in theirs] == [
            place for place in theirs if place[1:] in known | pending
        ], where
        assert store.has_pending(group_id) == bool(pending), where
        assert (group_id in store.groups()) == bool(known | pending), f"{where}: nothing is left of {group_id}"
