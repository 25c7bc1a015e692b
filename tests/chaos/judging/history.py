"""The histories of all clients as one, in the order of the clock that they share."""

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path

from barnabas.verification.history import read_events
from barnabas.verification.judge import Verdict, judge

_TABLE = "table "


def merged(journals: Iterable[Path]) -> Iterator[str]:
    """Yields what all clients wrote, each line without its time."""
    for _, _, text in heapq.merge(*(_lines(number, path) for number, path in enumerate(journals))):
        yield text


def _lines(number: int, path: Path) -> Iterator[tuple[int, int, str]]:
    """Yields the lines of one client with their time. A clock that stands still leaves them in their order."""
    with path.open() as file:
        for line in file:
            stamp, _, text = line.rstrip("\n").partition(" ")
            yield int(stamp), number, text


def verdict_of(begin: str, lines: Iterable[str], bounds: Iterable[str]) -> Verdict:
    """Judges the events among these lines, between the event that begins the history and those that end it."""

    def events() -> Iterator[str]:
        yield begin
        yield from (line for line in lines if not line.startswith(_TABLE))
        yield from bounds

    return judge(read_events(events()))


def table_lines(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yields the words of each line about the compacted topic."""
    return (line.split(" ")[1:] for line in lines if line.startswith(_TABLE))
