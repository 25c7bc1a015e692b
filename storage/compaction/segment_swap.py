"""Puts one cleaned segment in the place of those it was built from, so that a crash at any point leaves a good log.

The order, Kafka's: `.cleaned` files are complete and durable; they become `.swap`; the old files become `.deleted`,
oldest first; `.swap` goes from the new ones' names, and from the transaction index only when its log has its own
durably, because alone it would be taken for an old segment's. Names are synced between these steps. After a crash
`.swap` without `.cleaned` beside it is taken for the segment (`unfinished_files.py`), anything before that leaves the
old ones as they are.

Readers never meet a name that is not there: the new segment is read under its `.swap` name from before the old ones
are renamed, and takes its own name in one turn of the loop. What waits in sockets holds its file open.

Blocking calls run in workers, under a lock: giving the directory up waits for the one at work and lets no other begin.
Nothing more is needed: work that was left half done is finished when the log is opened next.
"""

import threading
from collections.abc import Callable, Sequence

from barnabas.base.promise import Promise
from barnabas.storage.checkpoints import Checkpoint
from barnabas.storage.log_dir import LogDir
from barnabas.storage.opening.unfinished_files import CLEANED_SUFFIX, SWAP_SUFFIX, remove_unfinished
from barnabas.storage.segments.file_cache import OUT_OF_DESCRIPTORS
from barnabas.storage.segments.segment import DELETED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, Segment

_RETRY_MS = 100


class SegmentSwap:
    __slots__ = (
        "_checkpoint",
        "_directory",
        "_install",
        "_is_cancelled",
        "_lock",
        "_log_dir",
        "_names",
        "_outcome",
        "is_installed",
        "new",
        "old",
    )

    def __init__(self, log_dir: LogDir, old: Sequence[Segment], new: Segment, checkpoint: Checkpoint | None) -> None:
        """Takes `new` with its final paths, while it stands in `.cleaned` files. `checkpoint` must be durable before a
        name changes: it says that everything in the old segments was durable, so gaps in their place are no loss."""
        self._log_dir = log_dir
        self.old = list(old)
        self.new = new
        self._directory = new.path.rpartition("/")[0]
        self._names = (*new.paths, new.path.removesuffix(LOG_SUFFIX) + TXN_INDEX_SUFFIX)
        self._checkpoint = checkpoint
        self._install: Callable[[], None]
        self._outcome: Promise[None] = Promise()
        self._lock = threading.Lock()
        self._is_cancelled = False
        self.is_installed = False
        """From here on there is no way back."""

    def run(self, install: Callable[[], None]) -> Promise[None]:
        """Runs the swap. Calls `install` when the new segment is to be read in the place of the old ones."""
        self._install = install
        self._in_worker(self._prepare, self._prepared)
        return self._outcome

    def _in_worker(self, step: Callable[[], None], then: Callable[[], None]) -> None:
        def done(job: Promise[None]) -> None:
            if self._is_cancelled:
                return
            if self.is_installed and isinstance(job.error, OSError) and job.error.errno in OUT_OF_DESCRIPTORS:
                self._log_dir.clock.call_later(_RETRY_MS, self._in_worker, step, then)  # it may be done twice
            elif job.error is not None:
                self._outcome.fail(job.error)
            else:
                then()

        self._log_dir.workers.run(lambda: self._unless_cancelled(step)).when_done(done)

    def cancel(self) -> None:
        """Cancels the swap: nothing of it runs when this returns, and its promise is never settled."""
        with self._lock:
            self._is_cancelled = True

    def finish(self) -> None:
        """Completes the swap at once, or undoes it if nothing was installed: the log stays in use. Blocks."""
        self.cancel()
        if self.is_installed:
            self._retire()
            self._take_names()
            self._sync_names()
        remove_unfinished(self._log_dir.files, self._directory)

    def _unless_cancelled(self, step: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_cancelled:
                step()

    def _prepare(self) -> None:
        """Raises, and has renamed nothing, if a file that every segment has is not there: others are to go for it."""
        for path in self.new.paths:
            self._log_dir.files.file_size(path + CLEANED_SUFFIX)
        if self._checkpoint is not None:
            self._log_dir.write(self._checkpoint)
        for path in self._names:
            if self._log_dir.files.exists(path + CLEANED_SUFFIX):
                self._log_dir.files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        self._log_dir.files.sync_dir(self._directory)

    def _prepared(self) -> None:
        self.new.set_suffix(SWAP_SUFFIX)
        self.is_installed = True
        self._install()
        self._in_worker(self._retire, self._retired)

    def _retire(self) -> None:
        for paths in self._retired_paths():
            for path in paths:
                try:
                    self._log_dir.files.rename(path, path + DELETED_SUFFIX)
                except FileNotFoundError:
                    pass  # not every segment has every file
            self._log_dir.files.sync_dir(self._directory)

    def _retired_paths(self) -> list[list[str]]:
        """Returns the paths of each old segment.

        The producer snapshot at the first one's start stays: a segment still begins there."""
        groups = []
        for segment in self.old:
            stem = segment.path.removesuffix(LOG_SUFFIX)
            paths = [*segment.paths, stem + TXN_INDEX_SUFFIX]
            if segment.base_offset != self.new.base_offset:
                paths.append(stem + SNAPSHOT_SUFFIX)
            groups.append(paths)
        return groups

    def _retired(self) -> None:
        try:
            self._take_names()
        except OSError as error:
            self._outcome.fail(error)
            return
        self._in_worker(self._sync_names, lambda: self._outcome.resolve(None))

    def _take_names(self) -> None:
        *paths, _ = self._names
        for path in paths:
            if self._log_dir.files.exists(path + SWAP_SUFFIX):
                self._log_dir.files.rename(path + SWAP_SUFFIX, path)
            self._log_dir.cache.forget(path + SWAP_SUFFIX)
            self._log_dir.cache.forget(path)
        self.new.set_suffix("")

    def _sync_names(self) -> None:
        self._log_dir.files.sync_dir(self._directory)
        transaction_index = self._names[-1]
        if self._log_dir.files.exists(transaction_index + SWAP_SUFFIX):
            self._log_dir.files.rename(transaction_index + SWAP_SUFFIX, transaction_index)
            self._log_dir.files.sync_dir(self._directory)

    def retired_files(self) -> list[str]:
        """Returns the files to be removed when no reader can need them any more."""
        return [path + DELETED_SUFFIX for paths in self._retired_paths() for path in paths]
