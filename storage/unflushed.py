"""What of a log is not on disk yet as it should be, and the plan that puts it there.

Closed segments wait to be sealed (data synced, index files written), producer snapshots to be written, the files of
deleted segments to be renamed, a new log's names to become durable. A plan takes all of it; what comes while it is at
work waits for the next.
"""

from barnabas.storage.files import Files
from barnabas.storage.flush import FlushPlan, SegmentSync
from barnabas.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochs
from barnabas.storage.metadata_files import PARTITION_METADATA
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segment import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name

_OTHER_SUFFIXES = (TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
"""Of files that go with a segment and are not always there."""


class Unflushed:
    __slots__ = ("_deleted", "_directory", "_has_durable_names", "_snapshots", "_unsealed")

    def __init__(self, directory: str, segments: list[Segment], *, has_durable_names: bool) -> None:
        self._directory = directory
        self._unsealed = [segment for segment in segments[:-1] if not segment.is_sealed]
        self._snapshots: list[tuple[str, bytes]] = []
        self._deleted: list[tuple[str, ...]] = []
        self._has_durable_names = has_durable_names

    def __bool__(self) -> bool:
        """Whether anything waits that is not just data of the active segment."""
        return bool(self._unsealed or self._deleted)

    def closed(self, segment: Segment) -> None:
        segment.close_indexes()
        self._unsealed.append(segment)

    def snapshot(self, producers: ProducerState) -> None:
        if producers.end_offset > producers.snapshot_offset:
            path = f"{self._directory}/{file_name(producers.end_offset, SNAPSHOT_SUFFIX)}"
            self._snapshots.append((path, producers.to_bytes()))
            producers.snapshot_offset = producers.end_offset
            producers.has_snapshot = True

    def deleted(self, segment: Segment) -> None:
        """It stays among the unsealed if it is: it must not come back torn."""
        others = (f"{self._directory}/{file_name(segment.base_offset, suffix)}" for suffix in _OTHER_SUFFIXES)
        self._deleted.append((*segment.paths, *others))

    def plan(self, files: Files, offset: int, active: Segment | None, leader_epochs: LeaderEpochs) -> FlushPlan:
        """Makes the log durable up to `offset`: its end with the active segment, that segment's start without."""
        plan = FlushPlan(files, self._directory, offset)
        for segment in [*self._unsealed, active] if active is not None else self._unsealed:
            if segment.synced_bytes < segment.size:
                plan.syncs.append(SegmentSync(segment, segment.file(), segment.size))
        plan.sealed = list(self._unsealed)
        plan.writes, plan.snapshots = list(self._snapshots), len(self._snapshots)
        if plan.sealed and leader_epochs.is_dirty:
            plan.writes.append((f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}", leader_epochs.to_bytes()))
            leader_epochs.is_dirty = False
        if not self._has_durable_names:
            plan.metadata_path = f"{self._directory}/{PARTITION_METADATA}"
        plan.deleted = list(self._deleted)
        return plan

    def done(self, plan: FlushPlan, leader_epochs: LeaderEpochs) -> None:
        for sync in plan.syncs:
            sync.segment.synced_bytes = max(sync.segment.synced_bytes, sync.size)
        self._has_durable_names |= plan.metadata_path is not None
        if plan.postponed is None:
            for segment in plan.sealed:
                segment.seal()
            self._snapshots = self._snapshots[plan.snapshots :]
        else:
            leader_epochs.is_dirty = True
        gone = {paths[0] for paths in plan.deleted}
        self._deleted = self._deleted[len(plan.deleted) :]
        self._unsealed = [each for each in self._unsealed if not each.is_sealed and each.path not in gone]

    def failed(self, leader_epochs: LeaderEpochs) -> None:
        """Nothing of the plan counts as done: the next one takes all of it again."""
        leader_epochs.is_dirty = True

    def recovery_point_to_checkpoint(self, recovery_point: int, active: Segment) -> int:
        """Recovery trusts the index files of every segment that ends at this point: it stays inside an unsealed one."""
        if self._unsealed:
            return min(recovery_point, self._unsealed[0].base_offset)
        return recovery_point - 1 if recovery_point > active.base_offset else recovery_point
