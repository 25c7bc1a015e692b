"""One node's disk: the metadata log, its snapshots and `quorum-state`, each as it is in memory and as it is durable.

A kill keeps what was written. A power cut keeps what was synced, and of the rest as much as chance will have it.
"""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.quorum.log_view import BOOTSTRAP_SNAPSHOT, Batch, OffsetAndEpoch
from barnabas.replication.quorum.voters import ReplicaKey, VoterSet


class StoredBatch(NamedTuple):
    """A batch with its values: a number for each record, 0 for a control record."""

    batch: Batch
    values: tuple[int, ...]

    @property
    def end_offset(self) -> int:
        return self.batch.end_offset


class Snapshot(NamedTuple):
    """What a snapshot holds: a hash of all that was applied, and the voters."""

    id: OffsetAndEpoch
    state: int
    voters: VoterSet
    kraft_version: int

    @property
    def size(self) -> int:
        return 100


class Piece(NamedTuple):
    """A part of a snapshot that is on the way."""

    snapshot: Snapshot
    length: int

    def __len__(self) -> int:
        return self.length


class LogImage(NamedTuple):
    start: OffsetAndEpoch
    batches: list[StoredBatch]

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.start.offset

    def epoch_at(self, end_offset: int) -> int:
        """Returns the epoch of the record before this offset, -1 if it is not in this log."""
        if end_offset == self.start.offset:
            return self.start.epoch
        for stored in reversed(self.batches):
            if stored.batch.base_offset < end_offset <= stored.end_offset:
                return stored.batch.epoch
        return -1


class Disk:
    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.log = LogImage(BOOTSTRAP_SNAPSHOT, [])
        self.durable = self.log
        self.quorum_state: QuorumStateData | None = None
        self.snapshots: dict[OffsetAndEpoch, Snapshot] = {}
        self._syncs = 0
        self._synced = 0

    # ---- the log

    def append(self, stored: Sequence[StoredBatch]) -> None:
        assert not stored or stored[0].batch.base_offset == self.log.end_offset, "a log has no holes"
        self.log = LogImage(self.log.start, [*self.log.batches, *stored])

    def truncate(self, end_offset: int) -> None:
        self.log = LogImage(self.log.start, [found for found in self.log.batches if found.end_offset <= end_offset])
        assert self.log.end_offset == end_offset, "a log is cut between batches"

    def begin_sync(self) -> tuple[int, LogImage]:
        self._syncs += 1
        return self._syncs, self.log

    def end_sync(self, begun: tuple[int, LogImage]) -> None:
        number, image = begun
        if number > self._synced:
            self._synced, self.durable = number, self._from(image, self.log.start)

    def read(self, offset: int, batches_max: int) -> list[StoredBatch]:
        batches = self.log.batches
        first = len(batches)
        while first and batches[first - 1].batch.end_offset > offset:
            first -= 1
        return batches[first : first + batches_max]

    # ---- snapshots

    def store_snapshot(self, snapshot: Snapshot) -> None:
        self.snapshots = {**self.snapshots, snapshot.id: snapshot}

    def begin_at(self, snapshot: Snapshot) -> None:
        """Begins the log again at the end of a snapshot; both are durable."""
        self.snapshots = {snapshot.id: snapshot}
        self.log = self.durable = LogImage(snapshot.id, [])
        self._synced = self._syncs = self._syncs + 1

    def delete_before(self, start: OffsetAndEpoch) -> None:
        """Deletes the log behind a snapshot, which is durable."""
        self.log = self._from(self.log, start)
        self.durable = self._from(self.durable, start)

    @staticmethod
    def _from(image: LogImage, start: OffsetAndEpoch) -> LogImage:
        return LogImage(start, [stored for stored in image.batches if stored.end_offset > start.offset])

    # ---- the end of a process

    def cut_power(self, random: Random) -> None:
        """Loses what was not synced, or some of it, from the end."""
        durable, log = self.durable, self.log
        is_longer = log.start == durable.start and log.batches[: len(durable.batches)] == durable.batches
        if is_longer:
            kept = random.randint(len(durable.batches), len(log.batches))
            survivor = LogImage(log.start, log.batches[:kept])
        else:
            survivor = durable if random.random() < 0.7 else log
        self.recover(survivor)

    def recover(self, image: LogImage) -> None:
        """Opens the log as it was found, and syncs it."""
        self.log = self.durable = image
        self._synced = self._syncs = self._syncs + 1
