"""Numbered records, one file each: the writer that creates number n decides what n is, and none can change it.

A writer must know record n - 1 to write n. So two writers cannot both continue: one creates n, the other finds it
taken and knows that it is no longer alone. A newcomer writes a record of its own before anything else, and from then on
nothing that an earlier writer has prepared can be committed any more.

Old records are folded, many into one file, so that the folder stays small; a folded record is the record without what
only its successor needs.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder

FOLD = 500
FORMAT = 1

Record = dict[str, Any]


class _Part(NamedTuple):
    """A file of the log, and the numbers it holds."""

    first: int
    last: int
    name: str


class CommitLog:
    def __init__(self, folder: Folder, path: str) -> None:
        self._folder = folder
        self._path = path

    def latest(self) -> Record | None:
        """Returns the newest record: whole, because it is never folded."""
        while parts := self._parts():
            try:
                return self._read(parts[-1])[-1]
            except FileNotFoundError:
                continue  # dropped by a writer that has gone on since
        return None

    def append(self, record: Record) -> bool:
        """Returns False if another writer has written this number."""
        line = json.dumps({"format": FORMAT, **record}, separators=(",", ":"))
        return self._folder.create(self._single(record["number"]), line + "\n")

    def records(self) -> Iterator[Record]:
        """Yields records in order, while others may write and fold."""
        done = 0
        while True:
            waiting = [part for part in self._parts() if part.last > done]
            try:
                for part in waiting:
                    for record in self._read(part):
                        if record["number"] > done:
                            done = record["number"]
                            yield record
                return
            except FileNotFoundError:
                continue  # folded between the listing and the reading

    def fold(self, slim: Callable[[Record], Record], size: int = FOLD) -> None:
        """Folds the oldest records once there are twice as many as one fold holds."""
        parts = self._parts()
        folded_to = max((part.last for part in parts if part.first < part.last), default=0)
        singles = [part for part in parts if part.first == part.last]
        waiting = [part for part in singles if part.last > folded_to]
        if len(waiting) >= 2 * size:
            chosen = waiting[:size]
            lines = (json.dumps(slim(record), separators=(",", ":")) for part in chosen for record in self._read(part))
            folded_to = chosen[-1].last
            self._folder.create(f"{self._path}/{chosen[0].first:012}-{folded_to:012}.jsonl", "\n".join(lines) + "\n")
        for part in singles:
            if part.last <= folded_to:
                self._folder.remove(f"{self._path}/{part.name}")

    def drop(self, before: int) -> None:
        """Removes records that nobody needs any more."""
        for part in self._parts():
            if part.last < before:
                self._folder.remove(f"{self._path}/{part.name}")

    def _parts(self) -> list[_Part]:
        found = []
        for name in self._folder.names(self._path):
            stem, _, suffix = name.partition(".")
            first, _, last = stem.partition("-")
            if suffix in ("json", "jsonl") and first.isdecimal():
                found.append(_Part(int(first), int(last or first), name))
        return sorted(found, key=lambda part: (part.first, -part.last))

    def _read(self, part: _Part) -> list[Record]:
        lines = self._folder.read(f"{self._path}/{part.name}").splitlines()
        records: list[Record] = [json.loads(line) for line in lines]
        for record in records:
            if record["format"] != FORMAT:
                raise Failure(f"{self._folder.uri(self._path)}/{part.name} was written by another version of Barnabas")
        return records

    def _single(self, number: int) -> str:
        return f"{self._path}/{number:012}.json"
