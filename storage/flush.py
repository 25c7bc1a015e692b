"""Group commit: everybody who waits for the disk at the same time shares one fsync.

Rules:
- A log has at most one plan at work. Whoever asks meanwhile joins the next one, which starts when this one is done.
- A plan starts at the end of the loop's turn, so that all appends of that turn are in it.
- The data come first. Then index files, snapshots and leader epochs of closed segments; the recovery point that is
  checkpointed stays below a segment until these are durable too. A full disk postpones them; it loses nothing.
- Names come before removals: the file whose name carries the log end offset must be durable before the last segment
  that could tell it otherwise is renamed. Segments are removed one by one, oldest first: after a crash those that came
  back are followed without a gap by those that stayed, and a gap always means loss. They are synced like any other
  before they go: one that came back torn would look as if the log ended there.
- A failed fsync is never tried again: the kernel may have dropped the pages and would report success. The dir goes
  offline.
"""

import errno
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.protocol.errors import KafkaStorageError
from barnabas.storage.files import File, Files, install_file
from barnabas.storage.seams import Clock, Workers
from barnabas.storage.segment import DELETED_SUFFIX, Segment

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)

Then = Callable[[BaseException | None], None]


class SegmentSync(NamedTuple):
    segment: Segment
    file: File
    size: int


class FlushPlan:
    """What one flush does, fixed on the loop's thread and carried out in a worker."""

    __slots__ = (
        "_done",
        "_files",
        "_lock",
        "deleted",
        "directory",
        "metadata_path",
        "offset",
        "postponed",
        "sealed",
        "snapshots",
        "syncs",
        "writes",
    )

    def __init__(self, files: Files, directory: str, offset: int) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._done = False
        self.directory = directory
        self.offset = offset
        """The log is durable up to here once the plan is done."""
        self.syncs: list[SegmentSync] = []
        self.sealed: list[Segment] = []
        self.writes: list[tuple[str, bytes]] = []
        """Producer snapshots, as many as `snapshots` says, and leader epochs."""
        self.snapshots = 0
        self.metadata_path: str | None = None
        """The log is new: its directory's name and this file must become durable with its first bytes."""
        self.deleted: list[tuple[str, ...]] = []
        """The files of deleted segments, oldest first."""
        self.postponed: OSError | None = None

    def run(self) -> None:
        """Once: a second caller waits for the first. So a broker that stops takes over a plan no worker has begun."""
        with self._lock:
            if not self._done:
                self._sync_data()
                self._write_files()
                self._sync_names()
                self._rename_deleted()
                self._done = True

    def cancel(self) -> None:
        """Waits if it is at work; if it is not, it never will be."""
        with self._lock:
            self._done = True

    def _sync_data(self) -> None:
        for sync in self.syncs:
            sync.file.sync()

    def _write_files(self) -> None:
        try:
            for segment in self.sealed:
                for path, data in segment.index_files():
                    install_file(self._files, path, data)
            for path, data in self.writes:
                install_file(self._files, path, data)
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            self.postponed = error

    def _sync_names(self) -> None:
        has_new_name = any(sync.segment.synced_bytes < 0 for sync in self.syncs)
        if has_new_name or self.sealed or self.writes or self.deleted:
            self._files.sync_dir(self.directory)
        if self.metadata_path is not None:
            if self._files.exists(self.metadata_path):
                self._files.open(self.metadata_path).sync()
            self._files.sync_dir(self.directory)
            self._files.sync_dir(self.directory.rpartition("/")[0])

    def _rename_deleted(self) -> None:
        for number, paths in enumerate(self.deleted):
            if number:
                self._files.sync_dir(self.directory)
            for path in paths:
                try:
                    self._files.rename(path, path + DELETED_SUFFIX)
                except FileNotFoundError:
                    pass  # not every segment has every file


class Flushable(Protocol):
    log_end_offset: int
    recovery_point: int

    def flush_plan(self, *, with_active: bool) -> FlushPlan | None: ...

    def flush_done(self, plan: FlushPlan, error: BaseException | None) -> BaseException | None:
        """What those who waited are told."""
        ...


class GroupCommit:
    __slots__ = ("_clock", "_is_starting", "_log", "_waiting", "_workers", "plan")

    def __init__(self, log: Flushable, clock: Clock, workers: Workers) -> None:
        self._log = log
        self._clock = clock
        self._workers = workers
        self._waiting: list[tuple[int, Then]] = []
        self._is_starting = False
        self.plan: FlushPlan | None = None

    def flush(self, then: Then) -> None:
        """Calls back when everything appended so far is durable; at once if it is already."""
        if self._log.log_end_offset <= self._log.recovery_point:
            then(None)
            return
        self._waiting.append((self._log.log_end_offset, then))
        self.start_soon()

    def start_soon(self) -> None:
        if self.plan is None and not self._is_starting:
            self._is_starting = True
            self._clock.call_soon(self._start)

    def _start(self) -> None:
        self._is_starting = False
        plan = self._log.flush_plan(with_active=bool(self._waiting)) if self.plan is None else None
        if plan is not None:
            self.plan = plan
            self._workers.run(plan.run, lambda _, error: self._done(plan, error))

    def _done(self, plan: FlushPlan, error: BaseException | None) -> None:
        if self.plan is not plan:
            return  # the log was closed meanwhile, which took care of it
        self.plan = None
        error = self._log.flush_done(plan, error)
        waiting, self._waiting = self._waiting, []
        for offset, then in waiting:
            if error is not None or offset <= plan.offset:
                then(error)
            else:
                self._waiting.append((offset, then))
        if self._waiting:
            self.start_soon()

    def cancel(self) -> None:
        """The log is deleted. Whoever waits is told so."""
        plan, self.plan = self.plan, None
        if plan is not None:
            plan.cancel()
        waiting, self._waiting = self._waiting, []
        for _, then in waiting:
            then(KafkaStorageError("the log was deleted"))

    def finish(self) -> None:
        """Waits for the plan at work, or does it: nothing of this log may run when its directory is given up."""
        plan = self.plan
        if plan is not None:
            try:
                plan.run()
            except OSError as error:
                self._done(plan, error)
            else:
                self._done(plan, None)
