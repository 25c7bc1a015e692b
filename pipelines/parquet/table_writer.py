"""Versions of a table: each written whole, then pointed to; none is ever changed.

    OUT/versions/v12/*.parquet      a version
    OUT/current                     a symbolic link to the latest one, where the file system has links
    OUT/_current.json               the same everywhere, with its figures
    OUT/_table/commits              which version holds what, and the position in the topic

A commit makes a version the latest. The two pointers follow it, and the next run sets them if this one dies before.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from barnabas.pipelines.parquet.single_writer import Holder, SingleWriter
from barnabas.pipelines.shared.files.commit_log import CommitLog, Record
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.position import Topics, merged, topics_from_json, topics_to_json

COMMITS_KEPT = 10


@dataclass(frozen=True)
class Version:
    """A commit, which says what the table is from then on."""

    number: int = 0
    run: str = ""
    written: str = ""
    path: str | None = None
    """None as long as nothing was read."""
    rows: int = 0
    size_bytes: int = 0
    lost: int = 0
    """Offsets that were deleted before they could be read."""
    topics: Topics = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    """Paths of the versions that are still there, the latest first."""

    def to_json(self) -> Record:
        return {**vars(self), "topics": topics_to_json(self.topics)}


def _version(record: Mapping[str, Any]) -> Version:
    values = {name: value for name, value in record.items() if name != "format"}
    return Version(**{**values, "topics": topics_from_json(record["topics"]), "kept": tuple(record["kept"])})


class TableWriter(SingleWriter):
    def __init__(self, folder: Folder, keep: int) -> None:
        super().__init__(folder, "table")
        self.keep = keep
        self.log = CommitLog(folder, f"{self.own}/commits")
        self.latest = Version()

    @property
    def topics(self) -> Topics:
        return self.latest.topics

    def next_path(self) -> str:
        """Returns where the next version is written: no other run, dead or alive, writes there."""
        return f"versions/v{self.latest.number + 1}"

    def read(self) -> Version:
        record = self.log.latest()
        return Version() if record is None else _version(record)

    def recover(self) -> None:
        self.latest = self.read()
        self._point()

    def take_over(self, topics: Topics, lost: int) -> bool:
        if not self._append(replace(self.latest, topics=merged(self.topics, topics), lost=self.latest.lost + lost)):
            return False
        self._remove_staging_of_others()
        self._remove_old()
        return True

    def holder(self) -> Holder | None:
        latest = self.read()
        return Holder(latest.run, latest.number, latest.written) if latest.number else None

    def commit(self, files: Sequence[str], topics: Topics, *, rows: int, size_bytes: int) -> None:
        """Commits `files`, which are those in `next_path()`."""
        path = self.next_path()
        self.folder.sync(f"{path}/{name}" for name in files)
        kept = (path, *self.latest.kept)[: self.keep]
        version = replace(
            self.latest, path=path, rows=rows, size_bytes=size_bytes, topics=merged(self.topics, topics), kept=kept
        )
        if not self._append(version):
            self.check_alone()
            raise AssertionError("the number of a commit is taken, but not by another run")
        self._point()
        self._remove_old()

    def _append(self, version: Version) -> bool:
        """Appends it as the next commit, of this run."""
        written = datetime.now(UTC).isoformat(timespec="milliseconds")
        next_ = replace(version, number=self.latest.number + 1, run=self.run, written=written)
        if not self.log.append(next_.to_json()):
            return False
        self.latest = next_
        return True

    def _point(self) -> None:
        if self.latest.path is not None:
            told = {"path": self.latest.path, "rows": self.latest.rows, "written": self.latest.written}
            told["topics"] = topics_to_json(self.latest.topics)
            self.folder.replace("_current.json", json.dumps(told, indent=1) + "\n")
            self.folder.link("current", self.latest.path)

    def _remove_old(self) -> None:
        for name in self.folder.names("versions"):
            if f"versions/{name}" not in self.latest.kept:
                self.folder.remove(f"versions/{name}")
        self.log.drop(before=self.latest.number - COMMITS_KEPT)
