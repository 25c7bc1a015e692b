"""Puts one cleaned segment in the place of those it was made from, so that a crash at any point leaves a good log.

The order, Kafka's: `.cleaned` files are complete and durable; they become `.swap`; the old files become `.deleted`,
oldest first; `.swap` goes from the new ones' names. Names are synced between these steps. After a crash `.swap` without
`.cleaned` beside it is taken for the segment (`leftovers.py`), anything before that leaves the old ones as they are.

Readers never meet a name that is not there: the new segment is read under its `.swap` name from before the old ones
are renamed, and takes its own name in one turn of the loop. What waits in sockets holds its file open.

Blocking calls run in workers, under a lock: whoever gives the directory up waits for the one at work and lets no other
begin. Nothing more is needed: what was left half done is finished when the log is opened next.
"""

import threading
from collections.abc import Callable, Sequence

from barnabas.storage.flush import Then
from barnabas.storage.leftovers import CLEANED_SUFFIX, SWAP_SUFFIX
from barnabas.storage.log_dir import Checkpoint, LogDir
from barnabas.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, Segment


class SegmentSwap:
    __slots__ = (
        "_checkpoint",
        "_directory",
        "_install",
        "_is_cancelled",
        "_lock",
        "_log_dir",
        "_names",
        "_then",
        "is_installed",
        "new",
        "old",
    )

    def __init__(
        self,
        log_dir: LogDir,
        old: Sequence[Segment],
        new: Segment,
        *,
        checkpoint: Checkpoint | None,
        install: Callable[["SegmentSwap"], None],
        then: Then,
    ) -> None:
        """`new` has its final paths and stands in `.cleaned` files. `checkpoint` must be durable before a name changes:
        it says that everything the old segments held was durable, so that gaps in the new one's place are no loss."""
        self._log_dir = log_dir
        self.old = list(old)
        self.new = new
        self._directory = new.path.rpartition("/")[0]
        self._names = (*new.paths, new.path.removesuffix(LOG_SUFFIX) + TXN_INDEX_SUFFIX)
        self._checkpoint = checkpoint
        self._install = install
        self._then = then
        self._lock = threading.Lock()
        self._is_cancelled = False
        self.is_installed = False
        """From here on there is no way back."""

    def start(self) -> None:
        self._log_dir.workers.run(lambda: self._unless_cancelled(self._prepare), self._prepared)

    def cancel(self) -> None:
        """Returns when nothing of it runs any more; `then` is not called."""
        with self._lock:
            self._is_cancelled = True

    def _unless_cancelled(self, step: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_cancelled:
                step()

    def _prepare(self) -> None:
        if self._checkpoint is not None:
            self._log_dir.write(self._checkpoint)
        for path in self._names:
            if self._log_dir.files.exists(path + CLEANED_SUFFIX):
                self._log_dir.files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        self._log_dir.files.sync_dir(self._directory)

    def _prepared(self, _: None, error: BaseException | None) -> None:
        if self._ends_with(error):
            return
        self.new.set_suffix(SWAP_SUFFIX)
        self.is_installed = True
        self._install(self)
        self._log_dir.workers.run(lambda: self._unless_cancelled(self._retire), self._retired)

    def _retire(self) -> None:
        for paths in self._retired_paths():
            for path in paths:
                try:
                    self._log_dir.files.rename(path, path + DELETED_SUFFIX)
                except FileNotFoundError:
                    pass  # not every segment has every file
            self._log_dir.files.sync_dir(self._directory)

    def _retired_paths(self) -> list[list[str]]:
        """Of each old segment. The producer snapshot at the first one's start stays: a segment still begins there."""
        groups = []
        for segment in self.old:
            stem = segment.path.removesuffix(LOG_SUFFIX)
            paths = [*segment.paths, stem + TXN_INDEX_SUFFIX]
            if segment.base_offset != self.new.base_offset:
                paths.append(stem + SNAPSHOT_SUFFIX)
            groups.append(paths)
        return groups

    def _retired(self, _: None, error: BaseException | None) -> None:
        if self._ends_with(error):
            return
        try:
            for path in self._names:
                if self._log_dir.files.exists(path + SWAP_SUFFIX):
                    self._log_dir.files.rename(path + SWAP_SUFFIX, path)
                self._log_dir.cache.forget(path + SWAP_SUFFIX)
                self._log_dir.cache.forget(path)
        except OSError as raised:
            self._ends_with(raised)
            return
        self.new.set_suffix("")
        self._log_dir.workers.run(lambda: self._unless_cancelled(self._sync_names), self._synced)

    def _sync_names(self) -> None:
        self._log_dir.files.sync_dir(self._directory)

    def _synced(self, _: None, error: BaseException | None) -> None:
        if not self._ends_with(error):
            self._then(None)

    def _ends_with(self, error: BaseException | None) -> bool:
        if error is not None and not self._is_cancelled:
            self._then(error)
        return error is not None or self._is_cancelled

    def retired_files(self) -> list[str]:
        """What is to be removed when nobody may want to look at it any more."""
        return [path + DELETED_SUFFIX for paths in self._retired_paths() for path in paths]
