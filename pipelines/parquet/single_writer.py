"""One run's hold on an output folder: a lock where there are locks, and the number of its next commit everywhere.

The lock refuses a second job politely. Where the file system has none, or a run was only thought dead, the commit log
decides: the later run takes the next number, and the earlier one can commit nothing more (see commit_log.py).
"""

import os
import socket
import uuid
from abc import ABC, abstractmethod
from types import TracebackType
from typing import IO, NamedTuple, Self

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.files.output_marks import require_no_other_job
from barnabas.pipelines.shared.position import Topics


class Holder(NamedTuple):
    """The run that wrote the latest commit."""

    run: str
    number: int
    written: str


class SingleWriter(ABC):
    def __init__(self, folder: Folder, job: str) -> None:
        """Takes as `job` a name that is also the output's own subfolder: _archive, _table."""
        self.folder = folder
        self.job = job
        self.own = f"_{job}"
        self.run = uuid.uuid4().hex[:12]
        self.staging = folder.sibling(f".{folder.root.rpartition('/')[2]}.{job}.staging")
        self._lock: IO[str] | None = None
        self._is_new = False
        self._staging_is_needed = False
        """Whether a commit may have been written whose files are still there: the next run must find them."""

    @property
    def own_staging(self) -> str:
        """Returns the folder for files that no reader of the output sees. It is gone when the run ends."""
        return f"{self.staging}/{self.run}"

    @property
    @abstractmethod
    def topics(self) -> Topics:
        """Returns the position of the latest commit."""

    @abstractmethod
    def recover(self) -> None:
        """Finishes the latest commit. It is called before `take_over`, as often as somebody else writes in between."""

    @abstractmethod
    def take_over(self, topics: Topics, lost: int) -> bool:
        """Writes a commit after which no other run can commit. Returns False if another run did: then recover again."""

    @abstractmethod
    def holder(self) -> Holder | None: ...

    def __enter__(self) -> Self:
        require_no_other_job(self.folder, self.job)
        self._is_new = not self.folder.exists("")
        self._lock = self._locked()
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            self._lock.flush()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            if not self._staging_is_needed:
                self.folder.remove(self.own_staging)
            self._leave_no_trace_of_nothing()
        finally:
            if self._lock is not None:
                self._lock.close()

    def _leave_no_trace_of_nothing(self) -> None:
        """Removes what a run that failed before its first commit created to lock the folder."""
        if self._lock is not None and self.folder.names(self.own) == ["lock"]:
            self.folder.remove(f"{self.own}/lock")
            self.folder.remove_empty(self.own)
            if self._is_new:
                self.folder.remove_empty("")

    def check_alone(self) -> None:
        holder = self.holder()
        if holder is not None and holder.run != self.run:
            raise Failure(
                f"another {self.job} job has taken over {self.folder.uri()} ({holder.written}, commit {holder.number});"
                " this one ends, and nothing is lost or written twice"
            )

    def check_unlocked(self) -> None:
        """Raises Failure if another run holds the folder; changes nothing."""
        require_no_other_job(self.folder, self.job)
        if self.folder.exists(f"{self.own}/lock") and (lock := self._locked()) is not None:
            lock.close()

    def _locked(self) -> IO[str] | None:
        try:
            return self.folder.lock(f"{self.own}/lock")
        except BlockingIOError:
            holder = self.folder.read(f"{self.own}/lock").strip() or "another process"
            raise Failure(
                f"{self.folder.uri()} is being written by {holder}: run one {self.job} job at a time"
            ) from None
        except OSError as error:
            raise Failure(f"{self.folder.uri()} cannot be written: {error.strerror}") from error

    def _remove_staging_of_others(self) -> None:
        for name in self.folder.names(self.staging):
            if name != self.run:
                self.folder.remove(f"{self.staging}/{name}")
