"""What must be true of a compacted topic: of each key the newest record is there, and nothing that was not sent.

Each key has one producer, which numbers what it sends: the value is that number. A record that was acknowledged may be
gone only when a later one of its key is there.
"""

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from barnabas.output import plural

Finding = tuple[str, str]


class Place(NamedTuple):
    partition: int
    offset: int


class Table:
    """What was sent to each key, what of it was acknowledged, and what was read where."""

    def __init__(self) -> None:
        self._sent: dict[str, set[int]] = {}
        self._acknowledged: dict[str, dict[int, Place]] = {}
        self._partitions: dict[str, int] = {}
        self._places: dict[Place, tuple[str, int]] = {}
        self._found: dict[str, dict[int, Place]] = {}
        self._findings: dict[tuple[Place, Finding], None] = {}
        self._position: dict[tuple[str, int], int] = {}
        self.acknowledged = self.read = 0

    def see(self, words: list[str]) -> None:
        what, partition, *rest = words
        if what in ("read", "found"):
            offset, key, value = rest
            self._read(what, Place(int(partition), int(offset)), key, int(value))
            return
        key, sequence = rest[0], int(rest[1])
        if what == "sent":
            self._sent.setdefault(key, set()).add(sequence)
            self._partitions[key] = int(partition)
        else:
            self.acknowledged += 1
            place = Place(int(partition), int(rest[2]))
            self._acknowledged.setdefault(key, {})[sequence] = place
            self._tell(place, key, sequence)

    def _read(self, what: str, place: Place, key: str, sequence: int) -> None:
        self.read += 1
        last = self._position.get((what, place.partition), -1)
        if place.offset <= last:
            self._find("table-poll-order", place, f"a reader came back here from offset {last}")
        self._position[what, place.partition] = place.offset
        if sequence not in self._sent.get(key, ()) or self._partitions[key] != place.partition:
            self._find("table-phantom", place, f"nobody sent record {sequence} of {key}")
        self._tell(place, key, sequence)
        if what == "found":
            before = self._found.setdefault(key, {})
            if sequence in before:
                self._find("table-duplicate", place, f"record {sequence} of {key} is at {before[sequence].offset}, too")
            elif before and max(before) > sequence:
                self._find("table-order", place, f"record {sequence} of {key} comes after record {max(before)}")
            before[sequence] = place

    def _tell(self, place: Place, key: str, sequence: int) -> None:
        told = self._places.setdefault(place, (key, sequence))
        if told != (key, sequence):
            self._find(
                "table-inconsistent-offset", place, f"it has record {sequence} of {key}, and {told[1]} of {told[0]}"
            )

    def _find(self, slug: str, place: Place, said: str) -> None:
        text = f"compacted partition {place.partition}, offset {place.offset}: {said}"
        self._findings[place, (slug, text)] = None

    def findings(self, sent_again: Container[Place] = ()) -> list[Finding]:
        """Returns what is wrong, now that everything was read back. Where producers have sent something again in a new
        epoch, it may be there twice."""
        found = [
            finding
            for place, finding in self._findings
            if finding[0] not in ("table-order", "table-duplicate") or place not in sent_again
        ]
        return [*found, *self._lost()]

    def _lost(self) -> Iterator[Finding]:
        for key, acknowledged in self._acknowledged.items():
            newest, found = max(acknowledged), self._found.get(key, {})
            if max(found, default=-1) < newest:
                place = acknowledged[newest]
                has = f"the newest that is there is {max(found)}" if found else "none is there"
                said = f"record {newest} of {key} was acknowledged; {has}"
                yield "table-lost-write", f"compacted partition {place.partition}, offset {place.offset}: {said}"

    def compacted(self) -> int:
        """Returns how many acknowledged records compaction has removed."""
        return sum(
            sequence not in self._found.get(key, {})
            for key, acknowledged in self._acknowledged.items()
            for sequence in acknowledged
        )

    def __str__(self) -> str:
        return f"{plural(self.acknowledged, 'record')} of the compacted topic, {self.compacted():,} of them removed"


def table_of(lines: Iterable[list[str]]) -> Table:
    table = Table()
    for words in lines:
        table.see(words)
    return table
