"""A producer that sends at a rate, each record to the next partition, and writes down what becomes of it."""

import threading
import time
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from barnabas.verification.content import Content
from barnabas.verification.events import Acknowledged, ClientError, Failed, Sent
from barnabas.verification.recording.settings import Settings
from barnabas.verification.recording.tape import Tape, now_ms

SENT_AT_ONCE_MAX = 500
POLL_S_MAX = 0.05

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


class ProducerWorker:
    def __init__(self, number: int, topic: str, partitions: int, settings: Settings, tape: Tape) -> None:
        self._number = number
        self._topic = topic
        self._partitions = partitions
        self._settings = settings
        self._tape = tape
        self._next = 0
        self._is_closed = False

    def run(self, content: Content, is_over: threading.Event) -> None:
        """Sends until the load is over, and then waits for what is not answered yet."""
        client = Producer(self._properties())
        rate = self._settings.load.rate / self._settings.load.producers
        started_at = time.monotonic()
        while not is_over.is_set():
            due = int((time.monotonic() - started_at) * rate) + 1 - self._next
            if due <= 0:
                client.poll(min(1 / rate, POLL_S_MAX))
            for _ in range(min(due, SENT_AT_ONCE_MAX)):
                self._send(client, content, is_over)
            client.poll(0)
        client.flush(self._settings.timeout_s)
        self._is_closed = True
        client.purge()

    def _properties(self) -> dict[str, Any]:
        sending, timeout_ms = self._settings.sending, int(self._settings.timeout_s * 1000)
        return self._settings.client_properties(
            acks=sending.acks,
            enable_idempotence=sending.is_idempotent,
            compression_type=sending.compression,
            # Longer than anybody waits: what is not answered by then is stuck, and has not merely failed.
            message_timeout_ms=2 * timeout_ms,
            linger_ms=5,
        ) | {"error_cb": self._note_error}

    def _send(self, client: Any, content: Content, is_over: threading.Event) -> None:
        sequence = self._next
        self._next += 1
        partition = (sequence + self._number) % self._partitions
        self._tape.record(Sent(now_ms(), self._number, sequence, partition))
        key, value = content.key(self._number, sequence), content.value(self._number, sequence)
        delivered = partial(self._delivered, sequence)
        while True:
            try:
                client.produce(self._topic, value, key, partition, on_delivery=delivered)
                return
            except BufferError as error:
                if is_over.is_set():
                    self._tape.record(Failed(now_ms(), self._number, sequence, str(error), True))
                    return
                client.poll(POLL_S_MAX)
            except KafkaException as error:
                self._delivered(sequence, error.args[0], None)
                return

    def _delivered(self, sequence: int, error: Any, message: Any) -> None:
        if self._is_closed:
            return
        if error is not None:
            definite = error.code() in DEFINITE
            self._tape.record(Failed(now_ms(), self._number, sequence, error.name(), definite))
        elif self._settings.sending.acks == "0":
            self._tape.record(Failed(now_ms(), self._number, sequence, "nobody answers with acks=0", False))
        else:
            offset = message.offset() if message.offset() is not None and message.offset() >= 0 else None
            self._tape.record(Acknowledged(now_ms(), self._number, sequence, offset))

    def _note_error(self, error: Any) -> None:
        if not self._is_closed:
            self._tape.record(ClientError(now_ms(), f"producer-{self._number}", error.name()))
