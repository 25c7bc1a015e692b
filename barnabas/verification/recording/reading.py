"""Consumers: readers of all partitions, and members of a group that commit as they go."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from barnabas.verification import events
from barnabas.verification.content import Content
from barnabas.verification.recording.settings import Settings
from barnabas.verification.recording.tape import Tape, now_ms

RECORDS_AT_ONCE = 500
POLL_S = 0.1
ANSWER_S_MAX = 10


class Reading:
    """What all consumers of a run know: the topic, its records, where it begins, and when to stop."""

    def __init__(self, topic: str, first_offsets: list[int], content: Content, settings: Settings, tape: Tape) -> None:
        self.topic = topic
        self.first_offsets = first_offsets
        self.content = content
        self.settings = settings
        self.tape = tape
        self.is_over = threading.Event()

    def client(self, name: str, group: str) -> Any:
        """Returns a client that notes its errors under this name and commits only when it is told to."""
        return consumer_client(self.settings, name, group, self._note)

    def _note(self, name: str, error: Any) -> None:
        self.tape.record(events.ClientError(now_ms(), name, error.name()))


def consumer_client(settings: Settings, name: str, group: str, note: Callable[[str, Any], None]) -> Any:
    properties = settings.client_properties(
        auto_offset_reset="earliest", check_crcs=True, client_id=name, isolation_level="read_committed"
    )
    own = {"enable.auto.commit": False, "enable.partition.eof": True, "group.id": group}
    return Client(properties | own | {"error_cb": partial(note, name)})


class Notes:
    """What one consumer has read and not written down yet, and how far it has come."""

    def __init__(self, name: str, reading: Reading, positions: dict[int, int]) -> None:
        self.name = name
        self._reading = reading
        self._records: dict[int, list[tuple[int, int, int]]] = {}
        self._corrupt: dict[int, list[int]] = {}
        self.positions = positions
        """The next offset of each partition; the members of a group share it."""
        self.count = 0

    def add(self, message: Any) -> None:
        partition, offset = message.partition(), message.offset()
        if (error := message.error()) is not None:
            self._add_error(error, partition, offset)
            return
        read = self._reading.content.read(message.key(), message.value())
        self._records.setdefault(partition, []).append((offset, read.producer, read.sequence))
        self.count += 1
        if not read.is_intact:
            self._corrupt.setdefault(partition, []).append(offset)

    def _add_error(self, error: Any, partition: int | None, offset: int | None) -> None:
        if error.code() == KafkaError._PARTITION_EOF and partition is not None and offset is not None:
            self.positions[partition] = max(offset, self.positions.get(partition, 0))
            return
        if error.code() == KafkaError._BAD_MSG and partition is not None and partition >= 0:
            self._records.setdefault(partition, [])
            self._corrupt.setdefault(partition, []).append(offset or 0)
        self._reading.tape.record(events.ClientError(now_ms(), self.name, error.name()))

    def write(self) -> dict[int, int]:
        """Writes down what was read. Returns the next offset of each partition from which something was."""
        found: dict[int, int] = {}
        for partition, records in self._records.items():
            corrupt = self._corrupt.get(partition, [])
            self._reading.tape.record(events.Polled(now_ms(), self.name, partition, records, corrupt))
            if records:
                found[partition] = records[-1][0] + 1
                self.positions[partition] = max(found[partition], self.positions.get(partition, 0))
        self._records, self._corrupt, self.count = {}, {}, 0
        return found


class Reader:
    """Reads all partitions from where they began, without a group."""

    def __init__(self, name: str, role: str, reading: Reading) -> None:
        self.name = name
        self._role = role
        self._reading = reading
        self.positions: dict[int, int] = {}

    def run(self) -> None:
        reading, notes = self._reading, Notes(self.name, self._reading, self.positions)
        client = reading.client(self.name, f"{reading.topic}-{self.name}")
        try:
            reading.tape.record(events.Consumer(now_ms(), self.name, self._role, None))
            for partition, offset in enumerate(reading.first_offsets):
                reading.tape.record(events.Assigned(now_ms(), self.name, partition, offset))
            client.assign(
                [TopicPartition(reading.topic, index, offset) for index, offset in enumerate(reading.first_offsets)]
            )
            while not reading.is_over.is_set():
                for message in client.consume(RECORDS_AT_ONCE, POLL_S):
                    notes.add(message)
                notes.write()
        finally:
            client.close()


class Member:
    """Reads as a member of a group, and commits what it has read. The next owner of a partition goes on from there."""

    def __init__(self, name: str, group: str, positions: dict[int, int], reading: Reading) -> None:
        self.name = name
        self._group = group
        self._reading = reading
        self._notes = Notes(name, reading, positions)

    def run(self) -> None:
        reading = self._reading
        client = reading.client(self.name, self._group)
        try:
            reading.tape.record(events.Consumer(now_ms(), self.name, events.MEMBER, self._group))
            client.subscribe([reading.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
            while not reading.is_over.is_set():
                self._poll(client)
            self._ask(client, [each.partition for each in client.assignment()])
        finally:
            client.close()

    def _poll(self, client: Any) -> None:
        """Reads what is there, one record at a time: what is read after a rebalance must not be mixed with what was
        read before it."""
        message = client.poll(POLL_S)
        while message is not None:
            self._notes.add(message)
            message = client.poll(0) if self._notes.count < RECORDS_AT_ONCE else None
        self._commit(client)

    def _commit(self, client: Any) -> None:
        found = self._notes.write()
        if not found:
            return
        tape = self._reading.tape
        for partition, offset in found.items():
            tape.record(events.Commit(now_ms(), self.name, partition, offset))
        wanted = [TopicPartition(self._reading.topic, partition, offset) for partition, offset in found.items()]
        try:
            errors = {each.partition: each.error for each in client.commit(offsets=wanted, asynchronous=False)}
        except KafkaException as error:
            errors = dict.fromkeys(found, error.args[0])
        for partition in found:
            refusal = errors.get(partition)
            # One that failed may have been stored by an earlier attempt of the client's.
            stored, said = (True, None) if refusal is None else (None, refusal.name())
            tape.record(events.Committed(now_ms(), self.name, partition, stored, said))

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        self._notes.write()
        told = self._ask(client, [each.partition for each in partitions])
        chosen = []
        for each in partitions:
            position = told.get(each.partition)
            self._reading.tape.record(events.Assigned(now_ms(), self.name, each.partition, position))
            offset = each.offset if position is None else position
            chosen.append(TopicPartition(self._reading.topic, each.partition, offset))
        try:
            client.assign(chosen)
        except KafkaException:  # the group's protocol hands out partitions one by one
            client.incremental_assign(chosen)

    def _ask(self, client: Any, partitions: list[int]) -> dict[int, int]:
        """Returns where the group is to go on, as far as its coordinator answers."""
        tape, told = self._reading.tape, {}
        for partition in partitions:
            tape.record(events.Asked(now_ms(), self.name, partition))
        try:
            answers = client.committed(
                [TopicPartition(self._reading.topic, partition) for partition in partitions],
                timeout=min(self._reading.settings.timeout_s, ANSWER_S_MAX),
            )
        except KafkaException as error:
            tape.record(events.ClientError(now_ms(), self.name, error.args[0].name()))
            return {}
        for each in answers:
            if each.error is None:
                offset = each.offset if each.offset >= 0 else None
                tape.record(events.Told(now_ms(), self.name, each.partition, offset))
                told[each.partition] = self._reading.first_offsets[each.partition] if offset is None else offset
        return told

    def _revoked(self, client: Any, _: list[Any]) -> None:
        self._commit(client)

    def _lost(self, _client: Any, _: list[Any]) -> None:
        self._notes.write()
