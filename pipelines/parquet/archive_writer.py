"""One run's hold on an archive: takes over from the run before, and commits files one batch at a time.

A batch is committed in four steps, and whatever dies between them is finished or forgotten by the next run:

1. its files are written to a staging folder beside the archive, which no reader of the archive sees;
2. a commit record names them, and the offset to continue with: from here on the batch is archived;
3. each file is moved to its place: a reader sees more of the batch with every move, and nothing twice;
4. the staging folder of the batch goes.
"""

import errno

from barnabas.pipelines.parquet.archive_log import ArchivedFile, ArchiveLog, Commit, State
from barnabas.pipelines.parquet.single_writer import Holder, SingleWriter
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.position import Topics

FOLD_EVERY = 100


class ArchiveWriter(SingleWriter):
    def __init__(self, folder: Folder) -> None:
        super().__init__(folder, "archive")
        self.log = ArchiveLog(folder)
        self._latest: Commit | None = None

    @property
    def state(self) -> State:
        return self._latest.state if self._latest else State()

    @property
    def topics(self) -> Topics:
        return self.state.topics

    def batch_staging(self) -> str:
        """Returns where the next commit's files are prepared."""
        return f"{self.own_staging}/{self._next_number()}"

    def recover(self) -> None:
        self._latest = self.log.latest()
        if self._latest is not None:
            self._settle(self._latest)

    def take_over(self, topics: Topics, lost: int) -> bool:
        """Takes over with a commit that has no files."""
        self._check_one_file_system()
        begun = self.log.append(self.run, self._latest, (), topics, lost)
        if begun is None:
            return False
        self._latest = begun
        self._remove_staging_of_others()
        return True

    def holder(self) -> Holder | None:
        latest = self.log.latest()
        return Holder(latest.run, latest.number, latest.written) if latest else None

    def commit(self, files: tuple[ArchivedFile, ...], topics: Topics, lost: int) -> Commit:
        """Commits files; `staged` of each is below `batch_staging()`."""
        staged = self.batch_staging()
        self.folder.sync(f"{staged}/{file.staged}" for file in files)
        self._staging_is_needed = True
        done = self.log.append(self.run, self._latest, files, topics, lost)
        if done is None:
            self._staging_is_needed = False
            self.check_alone()
            raise AssertionError("the number of a commit is taken, but not by another run")
        self._latest = done
        self._settle(done)
        self._staging_is_needed = False
        self.folder.remove(staged)
        if done.number % FOLD_EVERY == 0:
            self.log.fold()
        return done

    def _settle(self, commit: Commit) -> None:
        """Moves the files of a commit to their places. It may have been done before, wholly or in part."""
        staged = f"{self.staging}/{commit.run}/{commit.number}"
        for file in commit.files:
            if not self.folder.exists(file.path):
                self._move(f"{staged}/{file.staged}", file.path)
        self.folder.sync(file.path for file in commit.files)

    def _move(self, source: str, target: str) -> None:
        try:
            self.folder.move(source, target)
        except (FileNotFoundError, FileExistsError):
            if not self.folder.exists(target):  # else a run that took over has moved it in this moment
                raise Failure(
                    f"{target} is committed, but neither in {self.folder.uri()} nor at {source}: it was removed;"
                    " archive to another --output"
                ) from None

    def _check_one_file_system(self) -> None:
        """Moves a file, because that is what has to work."""
        probe, target = f"{self.own_staging}/probe", f"{self.own}/{self.run}.probe"
        try:
            self.folder.create(probe, "")
            self.folder.move(probe, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise Failure(
                    f"{self.staging}, where files are prepared, cannot be written: {error.strerror}"
                ) from error
            raise Failure(
                f"{self.folder.uri()} is a file system of its own, and files are prepared beside it: name a folder"
                f" in it, for example {self.folder.uri()}/{self.job}"
            ) from None
        self.folder.remove(target)

    def _next_number(self) -> int:
        return self._latest.number + 1 if self._latest else 1
