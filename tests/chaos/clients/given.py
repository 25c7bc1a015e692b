"""What all clients of a run are told, and how they write down what happens."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from barnabas.verification.events import Event
from barnabas.verification.history import line_of
from barnabas.verification.recording.tape import Tape

LOOK_AGAIN_S = 0.05
TABLE_KEYS = 10


class Given(NamedTuple):
    bootstrap: str
    run: str
    topic: str
    partitions: int
    table: str
    table_partitions: int
    producer: int
    rate: float
    timeout_s: float

    @classmethod
    def from_arguments(cls) -> "Given":
        return cls(**json.loads(sys.argv[1]))


class Journal(Tape):
    """Writes events to standard output, one at a time, and judges nothing: the other clients know the rest."""

    def __init__(self) -> None:
        super().__init__(None)
        self._turn = threading.Lock()
        self.read = 0
        """How often records were read, all consumers together."""

    def record(self, event: Event) -> None:
        self._write(line_of(event))
        self.read += len(getattr(event, "records", ()))

    def table(self, *words: object) -> None:
        self._write(" ".join(map(str, ("table", *words))))

    def _write(self, text: str) -> None:
        with self._turn:
            sys.stdout.write(f"{time.monotonic_ns()} {text}\n")
            sys.stdout.flush()

    def answer(self, word: str) -> None:
        with self._turn:
            sys.stdout.write(f"!{word}\n")
            sys.stdout.flush()

    def wait_until_read(self, names: dict[str, dict[int, int]], ends: dict[int, int], timeout_s: float) -> None:
        """Waits until all of these positions have come to the ends, or nothing was read for so long."""
        deadline, before = time.monotonic() + timeout_s, -1
        while time.monotonic() < deadline:
            if all(positions.get(index, 0) >= end for positions in names.values() for index, end in ends.items()):
                return
            if self.read > before:
                deadline, before = time.monotonic() + timeout_s, self.read
            time.sleep(LOOK_AGAIN_S)


class Commands:
    """What the run asks for, and the offsets that come with it."""

    def __iter__(self) -> Iterator[tuple[str, dict[str, dict[int, int]]]]:
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            given = json.loads(rest or "{}")
            yield word, {topic: {int(index): end for index, end in ends.items()} for topic, ends in given.items()}


class Table:
    """Sends the next version of one key after the other to the compacted topic."""

    def __init__(self, client: str, given: Given, journal: Journal) -> None:
        self._client = client
        self._given = given
        self._journal = journal
        self._next = 0

    def send(self, produce: Callable[[str, bytes, bytes, int, Callable[[int | None], None]], Any]) -> None:
        """Sends one record with this function: topic, key, value, partition, and what to call with its offset."""
        sequence, key = self._next, self._next % TABLE_KEYS
        self._next += 1
        name = f"{self._client}-{key}"
        self._journal.table("sent", key % self._given.table_partitions, name, sequence)

        def answered(offset: int | None) -> None:
            if offset is not None:
                self._journal.table("acknowledged", key % self._given.table_partitions, name, sequence, offset)

        value = str(sequence).encode()
        produce(self._given.table, name.encode(), value, key % self._given.table_partitions, answered)


def threads(*works: Callable[[], None]) -> list[threading.Thread]:
    """Starts threads. An error in one is written to stderr, and ends the process: the run sees that."""
    started = [threading.Thread(target=work, daemon=True) for work in works]
    for thread in started:
        thread.start()
    return started


def end_on_errors() -> None:
    def end(hook: Any) -> None:
        sys.__excepthook__(hook.exc_type, hook.exc_value, hook.exc_traceback)
        sys.stderr.flush()
        import os

        os._exit(1)

    threading.excepthook = end
