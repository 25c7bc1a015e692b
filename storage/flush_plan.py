"""What one flush of a log writes and syncs, and in which order.

Rules:
- The data come first. Then index files, snapshots and leader epochs of closed segments; the recovery point that is
  checkpointed stays below a segment until these are durable too. A full disk postpones them; it loses nothing.
- Names come before removals: the file whose name carries the log end offset must be durable before the last segment
  that shows it otherwise is renamed. Segments are removed one by one, oldest first: after a crash those that came
  back are followed without a gap by those that stayed, and a gap always means loss. They are synced like any other
  before they go: one that came back torn would look as if the log ended there.
- A failed fsync is never tried again: the kernel may have dropped the pages and would report success. The dir goes
  offline. A plan that found no descriptor for a file or a directory is tried again: that comes before the fsync.
"""

import errno
import threading
from collections.abc import Callable, Iterable, Iterator

from barnabas.base.files import TEMPORARY_SUFFIX, File, Files, write_file
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.segments.file_cache import OUT_OF_DESCRIPTORS
from barnabas.storage.segments.segment import DELETED_SUFFIX, Segment

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


class SegmentSync(NamedTuple):
    segment: Segment
    file: File
    size: int


class FlushPlan:
    """The steps of one flush, fixed on the loop's thread and carried out in a worker."""

    __slots__ = (
        "_done",
        "_error",
        "_files",
        "_lock",
        "_temporaries",
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
        self._error: OSError | None = None
        self._temporaries: list[str] = []
        self.directory = directory
        self.offset = offset
        """The log is durable up to here once the plan is done."""
        self.syncs: list[SegmentSync] = []
        self.sealed: list[Segment] = []
        self.writes: list[tuple[str, bytes]] = []
        """Producer snapshots, as many as `snapshots` says, then transaction indexes and leader epochs."""
        self.snapshots = 0
        self.metadata_path: str | None = None
        """Set if the log is new: its directory's name and this file must become durable with its first bytes."""
        self.deleted: list[tuple[str, ...]] = []
        """The files of deleted segments, oldest first."""
        self.postponed: OSError | None = None

    def run(self) -> None:
        """Runs the plan once: a second caller waits for the first, and hears how it failed. A stopping broker runs what
        no worker has begun."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if not self._done:
                try:
                    self._run()
                except OSError as error:
                    if error.errno not in OUT_OF_DESCRIPTORS:
                        self._error = error
                    raise
                self._done = True

    def _run(self) -> None:
        self.sync_data()
        self.write_files(sync=True)
        self.install_files()
        self.sync_names()
        self.rename_deleted()

    def cancel(self) -> None:
        """Waits for the plan if it is at work; otherwise it will never run."""
        with self._lock:
            self._done = True

    def sync_data(self) -> None:
        for sync in self.syncs:
            sync.file.sync()

    def write_files(self, *, sync: bool) -> None:
        """Writes files beside those they replace. One that replaces none is not trusted before the plan is done."""
        try:
            for path, data, is_trusted in self._files_to_write():
                if is_trusted or self._files.exists(path):
                    self._temporaries.append(path)
                    path += TEMPORARY_SUFFIX
                write_file(self._files, path, data, sync=sync)
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise
            self.postponed = error

    def _files_to_write(self) -> Iterator[tuple[str, bytes, bool]]:
        """Yields path, contents, and whether a start would trust the file as it stands there, whole or not."""
        for segment in self.sealed:
            for path, data in segment.index_files():
                yield path, data, segment.is_trusted
        for path, data in self.writes:
            yield path, data, False

    def install_files(self) -> None:
        if self.postponed is None:
            for path in self._temporaries:
                self._files.rename(path + TEMPORARY_SUFFIX, path)

    def sync_names(self) -> None:
        has_new_name = any(sync.segment.synced_bytes < 0 for sync in self.syncs)
        if has_new_name or self.sealed or self.writes or self.deleted:
            self._files.sync_dir(self.directory)
        if self.metadata_path is not None:
            if self._files.exists(self.metadata_path):
                self._files.open(self.metadata_path).sync()
            self._files.sync_dir(self.directory)
            self._files.sync_dir(self.directory.rpartition("/")[0])

    def rename_deleted(self) -> None:
        """Renames the files of deleted segments: first the log, durably. A segment that a power cut brings back must
        have its other files; without its transaction index, aborted records would seem committed."""
        for log_path, *others in self.deleted:
            self._rename_deleted(log_path)
            self._files.sync_dir(self.directory)
            for path in others:
                self._rename_deleted(path)

    def _rename_deleted(self, path: str) -> None:
        try:
            self._files.rename(path, path + DELETED_SUFFIX)
        except FileNotFoundError:
            pass  # not every segment has every file


def run_each(plans: Iterable[FlushPlan]) -> dict[FlushPlan, OSError]:
    """Runs one plan after the other. Returns those that failed."""
    failed: dict[FlushPlan, OSError] = {}
    for plan in plans:
        try:
            plan.run()
        except OSError as error:
            failed[plan] = error
    return failed


def run_together(files: Files, plans: Iterable[FlushPlan]) -> dict[FlushPlan, OSError]:
    """Syncs the whole disk twice instead of each log's files one by one: for a stop with many logs. Returns those that
    failed.

    Syncing the whole disk reports no errors. So the data are synced once more by themselves: that reports them, and
    costs little by then.
    """
    good = list(plans)
    failed: dict[FlushPlan, OSError] = {}

    def each(step: Callable[[FlushPlan], None]) -> None:
        for plan in good:
            try:
                step(plan)
            except OSError as error:
                failed[plan] = error
        good[:] = [plan for plan in good if plan not in failed]

    each(lambda plan: plan.write_files(sync=False))
    files.sync_all()
    each(FlushPlan.sync_data)
    each(FlushPlan.install_files)
    files.sync_all()
    each(FlushPlan.rename_deleted)
    return failed
