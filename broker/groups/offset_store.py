"""The offsets of one partition's groups: those that are committed, and those that wait for the end of a transaction.

Rules, Kafka's:
- Of two commits for one partition the one that lies further back in the log is in force, also if it belongs to a
  transaction that was committed earlier or later than the other: compaction keeps that one, and memory and what a load
  makes of the compacted log must not differ (KAFKA-14505).
- Several transactions may hold a pending offset for the same partition.
- A tombstone removes what was committed and what is pending.
"""

from collections.abc import Iterator, Mapping

from barnabas.protocol.stored.group_records import OffsetCommitKey, OffsetCommitValue

StoredOffset = tuple[OffsetCommitValue, int]
"""What was committed, and the offset of the record that says so."""
TopicOffsets = dict[str, dict[int, StoredOffset]]
"""Offsets by topic and partition."""
NO_OFFSETS: Mapping[str, dict[int, StoredOffset]] = {}

_Partition = tuple[str, int]


class OffsetStore:
    __slots__ = ("_committed", "_open", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, TopicOffsets] = {}
        self._pending: dict[int, dict[tuple[str, str, int], StoredOffset]] = {}
        """What transactions under way have written for a group, topic and partition, by producer id."""
        self._open: dict[str, dict[_Partition, set[int]]] = {}
        """The producers of these transactions, by group and partition."""

    # ---- look

    def committed(self, group_id: str) -> Mapping[str, dict[int, StoredOffset]]:
        return self._committed.get(group_id, NO_OFFSETS)

    def is_pending(self, group_id: str, topic: str, index: int) -> bool:
        return (topic, index) in self._open.get(group_id, ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._open

    def holds(self, group_id: str, topic: str, index: int) -> bool:
        """Returns whether something of the partition is committed or pending."""
        return index in self.committed(group_id).get(topic, ()) or self.is_pending(group_id, topic, index)

    def groups(self) -> set[str]:
        return {*self._committed, *self._open}

    def partitions_of(self, group_id: str) -> Iterator[_Partition]:
        """Yields each partition of which something is committed or pending."""
        committed = self.committed(group_id)
        for topic, offsets in committed.items():
            for index in offsets:
                yield topic, index
        for topic, index in self._open.get(group_id, ()):
            if index not in committed.get(topic, ()):
                yield topic, index

    # ---- replay

    def put(self, key: OffsetCommitKey, stored: StoredOffset) -> None:
        self._committed.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = stored

    def put_pending(self, key: OffsetCommitKey, stored: StoredOffset, producer_id: int) -> None:
        self._pending.setdefault(producer_id, {})[key.group, key.topic, key.partition] = stored
        self._open.setdefault(key.group, {}).setdefault((key.topic, key.partition), set()).add(producer_id)

    def remove(self, key: OffsetCommitKey) -> None:
        """Removes what is committed, and what is pending in any transaction."""
        topics = self._committed.get(key.group, {})
        offsets = topics.get(key.topic, {})
        offsets.pop(key.partition, None)
        if not offsets:
            topics.pop(key.topic, None)
        if not topics:
            self._committed.pop(key.group, None)
        for producer_id in self._open.get(key.group, {}).get((key.topic, key.partition), set()).copy():
            pending = self._pending[producer_id]
            del pending[key.group, key.topic, key.partition]
            if not pending:
                del self._pending[producer_id]
            self._close(key.group, key.topic, key.partition, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Replays a marker: what the transaction wrote counts from now on, or is dropped."""
        for (group_id, topic, index), stored in self._pending.pop(producer_id, {}).items():
            self._close(group_id, topic, index, producer_id)
            if is_committed:
                offsets = self._committed.setdefault(group_id, {}).setdefault(topic, {})
                before = offsets.get(index)
                if before is None or before[1] < stored[1]:
                    offsets[index] = stored

    def _close(self, group_id: str, topic: str, index: int, producer_id: int) -> None:
        partitions = self._open[group_id]
        producers = partitions[topic, index]
        producers.remove(producer_id)
        if not producers:
            del partitions[topic, index]
        if not partitions:
            del self._open[group_id]
