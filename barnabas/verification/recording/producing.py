"""Producers that send at a rate, each record to the next partition, and write down what becomes of it."""

import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from barnabas.verification.content import Content
from barnabas.verification.events import Acknowledged, ClientError, Failed, Sent
from barnabas.verification.recording.settings import Settings
from barnabas.verification.recording.tape import Tape, now_ms

SENT_AT_ONCE_MAX = 500
POLL_S_MAX = 0.05
PURGED_S = 5
FLUSH_S = 1.0

# After these nothing is stored. After any other error a record may be there or not: a timeout says nothing, and that a
# topic is unknown may be said of a record that waits to be sent a second time.
DEFINITE = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
)


def flush(client: Any, timeout_s: float) -> bool:
    """Waits until everything is answered. Returns False if nothing more was answered for so long."""
    left, deadline = len(client), time.monotonic() + timeout_s
    while left:
        now_left = client.flush(min(timeout_s, FLUSH_S))
        if now_left < left:
            deadline = time.monotonic() + timeout_s
        elif time.monotonic() > deadline:
            return False
        left = now_left
    return True


class Sends:
    """What one producer sends, numbered over all clients that it has had, and what becomes of it."""

    def __init__(self, number: int, topic: str, partitions: int, settings: Settings, tape: Tape) -> None:
        self.number = number
        self._topic = topic
        self._partitions = partitions
        self._settings = settings
        self._tape = tape
        self.count = 0
        self.failed = 0
        self._is_closed = False

    def client(self, **others: Any) -> Any:
        """Returns a client that notes its errors."""
        sending, timeout_ms = self._settings.sending, int(self._settings.timeout_s * 1000)
        properties = {
            "acks": sending.acks,
            "enable_idempotence": sending.is_idempotent,
            "compression_type": sending.compression,
            # Longer than anybody waits: what is not answered by then is stuck, and has not merely failed.
            "message_timeout_ms": 2 * timeout_ms,
            "linger_ms": 5,
        }
        return Producer(self._settings.client_properties(**properties | others) | {"error_cb": self.note_error})

    def due(self, started_at: float) -> int:
        """Returns how many records should have been sent by now and were not."""
        rate = self._settings.load.rate / self._settings.load.producers
        return int((time.monotonic() - started_at) * rate) + 1 - self.count

    def wait_for_next(self, client: Any) -> None:
        client.poll(min(self._settings.load.producers / self._settings.load.rate, POLL_S_MAX))

    def send(self, client: Any, content: Content, is_over: threading.Event) -> None:
        sequence = self.count
        self.count += 1
        partition = (sequence + self.number) % self._partitions
        self._tape.record(Sent(now_ms(), self.number, sequence, partition))
        key, value = content.key(self.number, sequence), content.value(self.number, sequence)
        delivered = partial(self._delivered, sequence)
        while True:
            try:
                client.produce(self._topic, value, key, partition, on_delivery=delivered)
                return
            except BufferError as error:
                if is_over.is_set():
                    self.failed += 1
                    self._tape.record(Failed(now_ms(), self.number, sequence, str(error), True))
                    return
                try:
                    client.poll(POLL_S_MAX)
                except KafkaException as fatal:
                    self._delivered(sequence, fatal.args[0], None)
                    raise
            except KafkaException as error:
                self._delivered(sequence, error.args[0], None)
                return

    def close(self) -> None:
        """From now on nothing is noted any more."""
        self._is_closed = True

    def _delivered(self, sequence: int, error: Any, message: Any) -> None:
        if self._is_closed:
            return
        if error is not None:
            self.failed += 1
            definite = error.code() in DEFINITE
            self._tape.record(Failed(now_ms(), self.number, sequence, error.name(), definite))
        elif self._settings.sending.acks == "0":
            self._tape.record(Failed(now_ms(), self.number, sequence, "nobody answers with acks=0", False))
        else:
            offset = message.offset() if message.offset() is not None and message.offset() >= 0 else None
            self._tape.record(Acknowledged(now_ms(), self.number, sequence, offset))

    def note_error(self, error: Any) -> None:
        if not self._is_closed:
            self._tape.record(ClientError(now_ms(), f"producer-{self.number}", error.name()))


def drop(client: Any) -> None:
    """Leaves a client as if its process had died: what it has not sent is never sent."""
    client.purge()
    with suppress(KafkaException):  # one that has failed for good may say so again
        client.flush(PURGED_S)


class ProducerWorker:
    def __init__(self, sends: Sends, timeout_s: float) -> None:
        self._sends = sends
        self._timeout_s = timeout_s

    def run(self, content: Content, is_over: threading.Event) -> None:
        """Sends until the load is over, and then waits for what is not answered yet."""
        sends, started_at = self._sends, time.monotonic()
        while not is_over.is_set():
            client = sends.client()
            try:
                self._send_all(client, content, is_over, started_at)
                flush(client, self._timeout_s)
                sends.close()
            except KafkaException as error:  # it has failed for good, and the next one goes on
                sends.note_error(error.args[0])
            drop(client)

    def _send_all(self, client: Any, content: Content, is_over: threading.Event, started_at: float) -> None:
        sends = self._sends
        while not is_over.is_set():
            if (due := sends.due(started_at)) <= 0:
                sends.wait_for_next(client)
            for _ in range(min(due, SENT_AT_ONCE_MAX)):
                sends.send(client, content, is_over)
            client.poll(0)
