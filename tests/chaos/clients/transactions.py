"""confluent-kafka in transactions: two producers that commit, abort, and die with one open, a reader, and two members
of a group. They have a topic of their own, of which nobody reads what is not committed."""

import threading
from collections.abc import Callable

from barnabas.verification import events
from barnabas.verification.content import Content
from barnabas.verification.recording.producing import Sends
from barnabas.verification.recording.settings import Load, Sending, Settings, TopicChoice
from barnabas.verification.recording.transactions import TransactionalWorker
from tests.chaos.clients.consumers import Consumers
from tests.chaos.clients.given import Commands, Given, Journal, end_on_errors, threads
from tests.chaos.faults.targets import TRANSACTIONAL_IDS

NAME = "transactions"
RECORD_BYTES = 200


class InTransactions:
    def __init__(self, given: Given, journal: Journal) -> None:
        self._given = given
        self._journal = journal
        topic = TopicChoice(given.topic, given.partitions, 3, True)
        load = Load(0, 1, None, len(TRANSACTIONAL_IDS), given.rate, RECORD_BYTES, 1, 2, 1)
        self._settings = Settings(given.bootstrap, {}, topic, load, Sending("all", True, True, "lz4"), given.timeout_s)
        self._content = Content(given.run, RECORD_BYTES)
        self._is_quiet = threading.Event()

    def run(self) -> None:
        senders = threads(*(self._worker_of(number) for number in range(len(TRANSACTIONAL_IDS))))
        consumers = self._consumers()
        consumers.start_reader(f"{NAME}-reader", events.READER)
        consumers.start_group(NAME)
        for word, ends in Commands():
            if word == "quiet":
                self._is_quiet.set()
                for thread in senders:
                    thread.join()
            elif word == "finish":
                consumers.finish(ends[self._given.topic])
            elif word == "read-back":
                self._read_back(ends[self._given.topic])
            self._journal.answer(word)

    def _worker_of(self, number: int) -> Callable[[], None]:
        given = self._given
        sends = Sends(number, given.topic, given.partitions, self._settings, self._journal)
        worker = TransactionalWorker(sends, TRANSACTIONAL_IDS[number], given.timeout_s, self._journal)
        return lambda: worker.run(self._content, self._is_quiet)

    def _consumers(self) -> Consumers:
        return Consumers(self._given, self._content, self._settings, self._journal)

    def _read_back(self, ends: dict[int, int]) -> None:
        """Reads everything again, twice, now that nobody writes any more."""
        consumers = self._consumers()
        for number in (1, 2):
            consumers.start_reader(f"read-back-{number}", events.READ_BACK)
        consumers.finish(ends)


if __name__ == "__main__":
    end_on_errors()
    InTransactions(Given.from_arguments(), Journal()).run()
