"""kafka-python: a producer, two members of a classic group, and a producer to the compacted topic."""

import logging
import threading
import time
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from barnabas.verification import events
from barnabas.verification.content import Content
from barnabas.verification.recording.tape import now_ms
from tests.chaos.clients.given import Commands, Given, Journal, Table, end_on_errors, threads

NAME = "kafka-python"
RECORD_BYTES = 200
POLL_MS = 100
TABLE_EVERY = 10
RECORDS_AT_ONCE = 500


class KafkaPython:
    def __init__(self, given: Given, journal: Journal) -> None:
        self._given = given
        self._journal = journal
        self._content = Content(given.run, RECORD_BYTES)
        self._is_quiet = threading.Event()
        self._is_over = threading.Event()
        self._positions: dict[int, int] = {}

    def run(self) -> None:
        senders = threads(self._send)
        members = threads(*(Member(number, self).run for number in (1, 2)))
        for word, ends in Commands():
            if word == "quiet":
                self._is_quiet.set()
                for thread in senders:
                    thread.join()
            elif word == "finish":
                self._finish(members, ends[self._given.topic])
            self._journal.answer(word)

    def _finish(self, members: list[threading.Thread], ends: dict[int, int]) -> None:
        self._journal.wait_until_read({NAME: self._positions}, ends, self._given.timeout_s)
        self._is_over.set()
        for thread in members:
            thread.join()
        for index in ends:
            self._journal.record(events.Ended(now_ms(), NAME, index, self._positions.get(index, 0)))

    # ---- sending

    def _send(self) -> None:
        client = KafkaProducer(
            bootstrap_servers=self._given.bootstrap.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            delivery_timeout_ms=int(2000 * self._given.timeout_s),
            reconnect_backoff_max_ms=1000,
        )
        table = Table(NAME, self._given, self._journal)
        sequence, begun = 0, time.monotonic()
        while not self._is_quiet.is_set():
            self._send_one(client, sequence)
            sequence += 1
            if sequence % TABLE_EVERY == 0:
                table.send(lambda *words: self._send_to_table(client, *words))
            self._is_quiet.wait(max(begun + sequence / self._given.rate - time.monotonic(), 0))
        try:
            client.flush(self._given.timeout_s)
        except KafkaError as error:
            self._journal.record(events.ClientError(now_ms(), NAME, type(error).__name__))
        client.close(timeout=1)

    def _send_one(self, client: Any, sequence: int) -> None:
        number, journal = self._given.producer, self._journal
        partition = (sequence + number) % self._given.partitions
        key, value = self._content.key(number, sequence), self._content.value(number, sequence)
        journal.record(events.Sent(now_ms(), number, sequence, partition))

        def failed(error: BaseException) -> None:
            journal.record(events.Failed(now_ms(), number, sequence, type(error).__name__, False))

        try:
            sent = client.send(self._given.topic, value, key=key, partition=partition)
        except KafkaError as error:
            failed(error)
            return
        sent.add_callback(
            lambda told: journal.record(
                events.Acknowledged(now_ms(), number, sequence, told.offset if told.offset >= 0 else None)
            )
        )
        sent.add_errback(failed)

    def _send_to_table(self, client: Any, topic: str, key: bytes, value: bytes, partition: int, answered: Any) -> None:
        try:
            sent = client.send(topic, value, key=key, partition=partition)
        except KafkaError:
            return
        sent.add_callback(lambda told: answered(told.offset if told.offset >= 0 else None))


class Member:
    """Reads as a member of a group, and commits what it has read."""

    def __init__(self, number: int, run: KafkaPython) -> None:
        self._name = f"{NAME}-{number}"
        self._given = run._given
        self._content = run._content
        self._journal = run._journal
        self._positions = run._positions
        self._is_over = run._is_over

    def run(self) -> None:
        self._journal.record(events.Consumer(now_ms(), self._name, events.MEMBER, NAME))
        client = KafkaConsumer(
            bootstrap_servers=self._given.bootstrap.split(","),
            group_id=NAME,
            client_id=self._name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            reconnect_backoff_max_ms=1000,
            partition_assignment_strategy=[RangePartitionAssignor],
            max_poll_records=RECORDS_AT_ONCE,
        )
        client.subscribe([self._given.topic], listener=Listener(self, client))
        while not self._is_over.is_set():
            try:
                self._read(client)
            except KafkaError as error:
                self._note(error)
        client.close(autocommit=False)

    def _read(self, client: Any) -> None:
        polled = client.poll(timeout_ms=POLL_MS)
        for partition, messages in polled.items():
            self._note_records(partition.partition, messages)
        for partition, messages in polled.items():
            self._commit(client, partition.partition, messages[-1].offset + 1)

    def _note_records(self, partition: int, messages: list[Any]) -> None:
        records, corrupt = [], []
        for message in messages:
            read = self._content.read(message.key, message.value)
            records.append((message.offset, read.producer, read.sequence))
            if not read.is_intact:
                corrupt.append(message.offset)
        self._journal.record(events.Polled(now_ms(), self._name, partition, records, corrupt))
        self._positions[partition] = max(records[-1][0] + 1, self._positions.get(partition, 0))

    def _commit(self, client: Any, partition: int, offset: int) -> None:
        self._journal.record(events.Commit(now_ms(), self._name, partition, offset))
        stored: bool | None = True
        said = None
        try:
            client.commit({TopicPartition(self._given.topic, partition): OffsetAndMetadata(offset, "", -1)})
        except KafkaError as error:
            stored, said = None, type(error).__name__
        self._journal.record(events.Committed(now_ms(), self._name, partition, stored, said))

    def assigned(self, client: Any, partitions: list[int]) -> None:
        """Begins where the group has committed, as far as its coordinator says so."""
        for partition in partitions:
            at = TopicPartition(self._given.topic, partition)
            position = None
            self._journal.record(events.Asked(now_ms(), self._name, partition))
            try:
                offset = client.committed(at)
            except KafkaError as error:
                self._note(error)
            else:
                self._journal.record(events.Told(now_ms(), self._name, partition, offset))
                position = offset or 0
                client.seek(at, position)
            self._journal.record(events.Assigned(now_ms(), self._name, partition, position))

    def _note(self, error: BaseException) -> None:
        self._journal.record(events.ClientError(now_ms(), self._name, type(error).__name__))


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    def __init__(self, member: Member, client: Any) -> None:
        self._member = member
        self._client = client

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Does nothing: what was read is committed before the next poll."""

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self._member.assigned(self._client, sorted(each.partition for each in assigned))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    end_on_errors()
    KafkaPython(Given.from_arguments(), Journal()).run()
