"""Takes snapshots of the committed image, after so many bytes of log or so much time, on leaders and followers alike.

The two latest snapshots are kept, and the log from the older one on: a bad sector can cost one of them.
"""

from collections.abc import Sequence
from typing import Protocol

from barnabas.base.environment import Environment, Timer
from barnabas.base.promise import Promise
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.metadata.batches import QuorumVoter
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.loader import MetadataLoader
from barnabas.replication.metadata.log import MetadataLog
from barnabas.replication.metadata.snapshots import SnapshotId, list_snapshots, write_snapshot

SNAPSHOTS_KEPT = 2


class SnapshotSettings(NamedTuple):
    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    max_snapshot_interval_ms: int = 60 * 60 * 1000
    """0: time alone is no reason for a snapshot."""


class SnapshotOwner(Protocol):
    """Who knows the voters, and what becomes of the log before a snapshot."""

    def voters_at(self, end_offset: int) -> Sequence[QuorumVoter]:
        """Returns the voters that a snapshot up to this offset must name; none if they are configured."""
        ...

    def on_snapshots(self, kept: Sequence[SnapshotId]) -> None:
        """Hears which snapshots there are now, the oldest first."""
        ...


class Snapshotter:
    def __init__(
        self,
        log: MetadataLog,
        loader: MetadataLoader,
        environment: Environment,
        settings: SnapshotSettings,
        owner: SnapshotOwner,
        end_offset: int,
    ) -> None:
        """Takes as `end_offset` that of the snapshot which was loaded; 0 if there was none."""
        self._log = log
        self._loader = loader
        self._environment = environment
        self._settings = settings
        self._owner = owner
        self._end_offset = end_offset
        self._is_writing = False
        self._is_closed = False
        self._timer: Timer | None = None

    def schedule(self) -> None:
        """Takes a snapshot if it is due, or sets a timer; called after each commit."""
        interval_ms = self._settings.max_snapshot_interval_ms
        if self._is_closed:
            return
        if self._log.bytes_since_snapshot >= self._settings.max_record_bytes_between_snapshots:
            self.take()
        elif self._timer is None and interval_ms > 0 and self._loader.image.end_offset > self._end_offset:
            self._timer = self._environment.clock.call_later(interval_ms, self.take)

    def take(self) -> None:
        """Writes a snapshot in a worker: the image it holds cannot change meanwhile."""
        self._cancel_timer()
        image, now_ms = self._loader.image, self._environment.clock.now_ms()
        if self._is_writing or self._is_closed or image.end_offset <= self._end_offset:
            return
        if self._loader.is_within_transaction:
            return  # a start from there would never see its first records; the next commit asks again
        self._is_writing = True
        self._log.bytes_since_snapshot = 0
        self._log.roll(now_ms)
        voters = self._owner.voters_at(image.end_offset)
        self._environment.workers.run(lambda: self._write(image, voters, now_ms)).when_done(self._taken)

    def _write(self, image: MetadataImage, voters: Sequence[QuorumVoter], now_ms: int) -> list[SnapshotId]:
        """Writes a snapshot, and removes old ones. Returns those that are left, the oldest first."""
        files, path = self._environment.files, self._log.path
        write_snapshot(files, path, image, voters, now_ms=now_ms)
        snapshots = list_snapshots(files, path)
        for snapshot_id in snapshots[:-SNAPSHOTS_KEPT]:
            files.remove(f"{path}/{snapshot_id.file_name}")
        return snapshots[-SNAPSHOTS_KEPT:]

    def _taken(self, kept: Promise[list[SnapshotId]]) -> None:
        report, path = self._environment.report, self._log.path
        self._is_writing = False
        if self._is_closed:
            return
        if kept.error is not None:
            report.warning(f"no snapshot of the metadata could be written: {kept.error}", directory=path)
            return
        self._end_offset = kept.value[-1].end_offset
        report.info(f"metadata snapshot taken at offset {self._end_offset}", directory=path)
        self._owner.on_snapshots(kept.value)
        self.schedule()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        self._is_closed = True
        self._cancel_timer()
