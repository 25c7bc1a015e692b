"""confluent-kafka: a producer, a reader, two members of a classic group, and readers of the compacted topic."""

import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.verification import events
from barnabas.verification.content import Content
from barnabas.verification.recording.producing import ProducerWorker, Sends, drop
from barnabas.verification.recording.reading import Reading
from barnabas.verification.recording.settings import Load, Sending, Settings, TopicChoice
from barnabas.verification.recording.tape import now_ms
from tests.chaos.clients.consumers import Consumers
from tests.chaos.clients.given import Commands, Given, Journal, Table, end_on_errors, threads

NAME = "librdkafka"
RECORD_BYTES = 200
TABLE_PAUSE_S = 0.1


class Librdkafka:
    def __init__(self, given: Given, journal: Journal) -> None:
        self._given = given
        self._journal = journal
        topic = TopicChoice(given.topic, given.partitions, 3, True)
        load = Load(0, 1, None, 1, given.rate, RECORD_BYTES, 1, 2, 1)
        self._settings = Settings(given.bootstrap, {}, topic, load, Sending("all", True, False, "lz4"), given.timeout_s)
        self._content = Content(given.run, RECORD_BYTES)
        self._is_quiet = threading.Event()

    def run(self) -> None:
        given = self._given
        sends = Sends(given.producer, given.topic, given.partitions, self._settings, self._journal)
        worker = ProducerWorker(sends, given.timeout_s)
        senders = threads(lambda: worker.run(self._content, self._is_quiet), self._send_to_table)
        consumers = self._consumers()
        consumers.start_reader(f"{NAME}-reader", events.READER)
        consumers.start_group(NAME)
        consumers.start(lambda: self._read_table("read", consumers.reading))
        for word, ends in Commands():
            if word == "quiet":
                self._is_quiet.set()
                for thread in senders:
                    thread.join()
            elif word == "finish":
                consumers.finish(ends[given.topic])
            elif word == "read-back":
                self._read_back(ends)
            self._journal.answer(word)

    def _consumers(self) -> Consumers:
        return Consumers(self._given, self._content, self._settings, self._journal)

    def _read_back(self, ends: dict[str, dict[int, int]]) -> None:
        """Reads everything again, twice, now that nobody writes any more."""
        consumers = self._consumers()
        for number in (1, 2):
            consumers.start_reader(f"read-back-{number}", events.READ_BACK)
        self._read_table("found", consumers.reading, ends[self._given.table])
        consumers.finish(ends[self._given.topic])

    # ---- the compacted topic

    def _send_to_table(self) -> None:
        table = Table(NAME, self._given, self._journal)
        timeout_ms = int(2000 * self._given.timeout_s)
        settings = self._settings.client_properties(enable_idempotence=True, message_timeout_ms=timeout_ms, linger_ms=5)
        while not self._is_quiet.is_set():
            client = Producer(settings)
            try:
                self._send_versions(table, client)
                client.flush(self._given.timeout_s)
            except KafkaException as error:  # it has failed for good, and the next one goes on
                self._journal.record(events.ClientError(now_ms(), f"{NAME}-table", error.args[0].name()))
                drop(client)

    def _send_versions(self, table: Table, client: Any) -> None:

        def produce(topic: str, key: bytes, value: bytes, partition: int, answered: Any) -> None:
            def delivered(error: Any, message: Any) -> None:
                answered(None if error is not None else message.offset())

            client.produce(topic, value, key, partition, on_delivery=delivered)

        while not self._is_quiet.is_set():
            table.send(produce)
            client.poll(TABLE_PAUSE_S)

    def _read_table(self, what: str, reading: Reading, ends: dict[int, int] | None = None) -> None:
        """Reads the compacted topic from its beginning, to these ends or until it is over."""
        properties = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
        client: Any = Consumer(self._settings.client_properties(auto_offset_reset="earliest") | properties)
        partitions = range(self._given.table_partitions)
        client.assign([TopicPartition(self._given.table, index, 0) for index in partitions])
        deadline = time.monotonic() + self._given.timeout_s
        open_ends = dict(ends or {})
        try:
            while not reading.is_over.is_set() and (ends is None or (open_ends and time.monotonic() < deadline)):
                if (message := client.poll(0.1)) is None:
                    continue
                if message.error() is None:
                    key, value = message.key().decode(), message.value().decode()
                    self._journal.table(what, message.partition(), message.offset(), key, value)
                    position = message.offset() + 1
                elif message.error().name() == "_PARTITION_EOF":
                    position = message.offset()
                else:
                    continue
                if position >= open_ends.get(message.partition(), position + 1):
                    del open_ends[message.partition()]
        except KafkaException as error:
            self._journal.record(events.ClientError(now_ms(), f"{NAME}-table", error.args[0].name()))
        finally:
            client.close()


if __name__ == "__main__":
    end_on_errors()
    Librdkafka(Given.from_arguments(), Journal()).run()
