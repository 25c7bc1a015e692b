"""What an archive holds: its commits, in order, each with the files it added.

    archive = ArchiveLog(open_folder(spark, "/data/archive"))
    for commit in archive.commits():
        for file in commit.files: ...

Offsets of a partition ascend from commit to commit. A commit is what it says from the moment it exists; its files may
take a moment longer to be in their places, so a reader that works through commits while the archive is written asks
`settled()` first, or stops before the last one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.pipelines.shared.files.commit_log import CommitLog, Record
from barnabas.pipelines.shared.files.folder import Folder
from barnabas.pipelines.shared.position import TopicState, merged, topics_from_json, topics_to_json

COMMITS = "_archive/commits"


@dataclass(frozen=True)
class ArchivedFile:
    """Records of one partition, ascending by offset. There may be gaps, and other files may hold what is between."""

    path: str
    """The path below the archive: topic=orders/date=2025-11-16/0-00000000000000000042.parquet"""
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    size_bytes: int
    staged: str = ""
    """Where it was prepared, below the staging folder; of use only to finish the commit."""


@dataclass(frozen=True)
class State:
    """The whole archive as of one commit."""

    topics: Mapping[str, TopicState] = field(default_factory=dict)
    records: int = 0
    files: int = 0
    size_bytes: int = 0
    lost: int = 0
    """Offsets that were deleted before they could be archived."""


class OffsetRange(NamedTuple):
    first_offset: int
    last_offset: int
    records: int
    next_offset: int
    """Where the next commit continues: after last_offset, or after offsets that have no record."""


@dataclass(frozen=True)
class Commit:
    number: int
    run: str
    """Which run of the job wrote it."""
    written: str
    files: tuple[ArchivedFile, ...]
    lost: int
    state: State

    def ranges(self) -> dict[tuple[str, int], OffsetRange]:
        """Returns what this commit added, by topic and partition."""
        found: dict[tuple[str, int], OffsetRange] = {}
        for file in self.files:
            key = (file.topic, file.partition)
            after = self.state.topics[file.topic].next_offsets[file.partition]
            known = found.get(key, OffsetRange(file.first_offset, file.last_offset, 0, after))
            found[key] = OffsetRange(
                min(known.first_offset, file.first_offset),
                max(known.last_offset, file.last_offset),
                known.records + file.records,
                after,
            )
        return found


class ArchiveLog:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._log = CommitLog(folder, COMMITS)

    def latest(self) -> Commit | None:
        record = self._log.latest()
        return None if record is None else _commit(record, _state(record["state"]))

    def commits(self) -> Iterator[Commit]:
        """Yields all commits, from the first on, without those of runs that only began."""
        state = State()
        for record in self._log.records():
            state = _advanced(state, record)
            if record["files"]:
                yield _commit(record, state)

    def settled(self, commit: Commit) -> bool:
        """Says whether all files of a commit are in their places. Those of every commit but the latest are."""
        return all(self.folder.exists(file.path) for file in commit.files)

    def append(
        self,
        run: str,
        before: Commit | None,
        files: tuple[ArchivedFile, ...],
        topics: Mapping[str, TopicState],
        lost: int,
    ) -> Commit | None:
        """Writes the commit after `before`; `topics` holds those that changed. Returns None if another run has written
        it."""
        record = {
            "number": before.number + 1 if before else 1,
            "run": run,
            "written": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "files": [asdict(file) for file in files],
            "topics": topics_to_json(topics),
            "lost": lost,
        }
        state = _advanced(before.state if before else State(), record)
        whole = {**record, "state": {**vars(state), "topics": topics_to_json(state.topics)}}
        return _commit(record, state) if self._log.append(whole) else None

    def fold(self) -> None:
        self._log.fold(_slim)


def _slim(record: Record) -> Record:
    files = [{key: value for key, value in file.items() if key != "staged"} for file in record["files"]]
    return {**{key: value for key, value in record.items() if key != "state"}, "files": files}


def _advanced(state: State, record: Record) -> State:
    return State(
        merged(state.topics, topics_from_json(record["topics"])),
        state.records + sum(file["records"] for file in record["files"]),
        state.files + len(record["files"]),
        state.size_bytes + sum(file["size_bytes"] for file in record["files"]),
        state.lost + record["lost"],
    )


def _commit(record: Record, state: State) -> Commit:
    files = tuple(ArchivedFile(**file) for file in record["files"])
    return Commit(record["number"], record["run"], record["written"], files, record["lost"], state)


def _state(found: Record) -> State:
    return State(**{**found, "topics": topics_from_json(found["topics"])})
