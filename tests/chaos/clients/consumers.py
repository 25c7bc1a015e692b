"""Consumers of confluent-kafka that begin together, and stop when all of them have come to the end of their topic."""

import threading
from collections.abc import Callable

from barnabas.verification import events
from barnabas.verification.content import Content
from barnabas.verification.recording.reading import Member, Reader, Reading
from barnabas.verification.recording.settings import Settings
from barnabas.verification.recording.tape import now_ms
from tests.chaos.clients.given import Given, Journal, threads

MEMBERS = (1, 2)


class Consumers:
    def __init__(self, given: Given, content: Content, settings: Settings, journal: Journal) -> None:
        self._given = given
        self._journal = journal
        self.reading = Reading(given.topic, [0] * given.partitions, content, settings, journal)
        self._positions: dict[str, dict[int, int]] = {}
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Starts something else that ends when the reading is over."""
        self._threads += threads(work)

    def start_reader(self, name: str, role: str) -> None:
        reader = Reader(name, role, self.reading)
        self._positions[name] = reader.positions
        self.start(reader.run)

    def start_group(self, name: str) -> None:
        positions = self._positions[name] = {}
        for number in MEMBERS:
            self.start(Member(f"{name}-{number}", name, positions, self.reading).run)

    def finish(self, ends: dict[int, int]) -> None:
        """Lets everybody read to these ends, and stops them."""
        self._journal.wait_until_read(self._positions, ends, self._given.timeout_s)
        self.reading.is_over.set()
        for thread in self._threads:
            thread.join()
        for name, reached in self._positions.items():
            for index in ends:
                self._journal.record(events.Ended(now_ms(), name, index, reached.get(index, 0)))
