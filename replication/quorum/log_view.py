"""What the quorum knows of the metadata log on this node's disk: offsets and epochs, and no bytes.

Rules:
- What is appended is durable only when a sync has ended that began after it. A sync that began before a truncation
  says nothing about what stands in its place now.
- The log begins at 0, or at the end of a snapshot that is on the disk.
- Offsets and epochs are compared as pairs, the epoch first: a longer log of older epochs is behind a shorter new one.
"""

from collections.abc import Sequence

from barnabas.protocol.named_tuple import NamedTuple


class OffsetAndEpoch(NamedTuple):
    """The end of a log or of a snapshot, with the epoch of the last record before it."""

    offset: int
    epoch: int

    def is_up_to_date_with(self, other: "OffsetAndEpoch") -> bool:
        return (self.epoch, self.offset) >= (other.epoch, other.offset)


BOOTSTRAP_SNAPSHOT = OffsetAndEpoch(0, 0)
"""Holds only what `format` wrote. Each node has its own, and none is served."""


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    epoch: int
    control: Sequence[object] = ()
    """The control records, if it is a control batch; the first stands at `base_offset`."""


class LogSync(NamedTuple):
    end_offset: int
    generation: int


class LogView:
    __slots__ = ("_epochs", "_generation", "end_offset", "snapshots", "start_offset", "synced_offset")

    def __init__(self, start: OffsetAndEpoch = BOOTSTRAP_SNAPSHOT, batches: Sequence[Batch] = ()) -> None:
        """Takes as `start` where the log begins, which is the end of a snapshot if it is not 0. The batches are synced
        when the log is opened: a killed process may have left some of them in the page cache."""
        self.start_offset = start.offset
        self.end_offset = start.offset
        self._epochs = [(start.epoch, start.offset)]
        """Each epoch with its first offset. The first row stands for the last record before the log's start."""
        self.snapshots: dict[OffsetAndEpoch, int] = {}
        """The durable snapshots with their sizes in bytes, oldest first. The shell keeps at least the latest."""
        self._generation = 0
        for batch in batches:
            self.append(batch)
        self.synced_offset = self.end_offset

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self._epochs[-1][0])

    @property
    def is_synced(self) -> bool:
        return self.synced_offset == self.end_offset

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return next(reversed(self.snapshots), None)

    # ---- changes

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.end_offset, "a log has no holes"
        assert batch.epoch >= self._epochs[-1][0], "epochs do not go back"
        if batch.epoch > self._epochs[-1][0]:
            self._epochs.append((batch.epoch, batch.base_offset))
        self.end_offset = batch.end_offset

    def begin_sync(self) -> LogSync:
        return LogSync(self.end_offset, self._generation)

    def synced(self, sync: LogSync) -> None:
        """Notes the end of a sync."""
        if sync.generation == self._generation:
            self.synced_offset = max(self.synced_offset, sync.end_offset)

    def truncate_to(self, end_offset: int) -> None:
        assert self.start_offset <= end_offset <= self.end_offset
        while len(self._epochs) > 1 and self._epochs[-1][1] >= end_offset:
            self._epochs.pop()
        self.end_offset = end_offset
        self.synced_offset = min(self.synced_offset, end_offset)
        self._generation += 1

    def reset_to(self, snapshot: OffsetAndEpoch) -> None:
        """Begins again at the end of a snapshot that another node has sent."""
        self.start_offset = self.end_offset = self.synced_offset = snapshot.offset
        self._epochs = [(snapshot.epoch, snapshot.offset)]
        self._generation += 1

    def delete_before(self, offset: int) -> None:
        """Notes that the log begins later now. A durable snapshot must end there (KAFKA-14238)."""
        assert self.start_offset <= offset <= self.end_offset
        snapshot = next((found for found in self.snapshots if found.offset == offset), None)
        assert snapshot is not None, "the log is deleted behind a snapshot only"
        later = [(epoch, start) for epoch, start in self._epochs if start >= offset]
        self._epochs = [(snapshot.epoch, offset), *later]
        self.start_offset = offset

    # ---- comparing

    @property
    def base_epoch(self) -> int:
        """Returns the epoch of the first record, or of the snapshot before it."""
        return self._epochs[0][0]

    def epoch_at(self, end_offset: int) -> int:
        """Returns the epoch of the last record before this offset, which is in the log or at its start."""
        return next((epoch for epoch, start in reversed(self._epochs) if start < end_offset), self.base_epoch)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Returns the largest epoch that is not above this one, with its end."""
        end_offset = self.end_offset
        for found, start in reversed(self._epochs):
            if found <= epoch:
                return OffsetAndEpoch(end_offset, found)
            end_offset = start
        return OffsetAndEpoch(self.start_offset, self.base_epoch)

    def truncation_point(self, diverging: OffsetAndEpoch) -> int:
        """Returns where this log, a follower's, is to be cut when the leader's parts from it. Where it has nothing of
        the leader's epoch, it is cut to the end of the epoch before, and the next fetch compares that one."""
        own = self.end_of_epoch(diverging.epoch)
        return min(diverging.offset, own.offset) if own.epoch == diverging.epoch else own.offset
