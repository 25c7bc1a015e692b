"""A producer that sends in transactions, as applications do that must not repeat and not lose: it commits most,
aborts some, and now and then dies with one open; its successor has the same transactional id and ends it."""

import threading
import time
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from barnabas.verification.content import Content
from barnabas.verification.events import ClientError, TransactionBegun, TransactionEnded, TransactionEnding
from barnabas.verification.recording.producing import Sends, drop, flush
from barnabas.verification.recording.tape import Tape, now_ms

RECORDS_MAX = 20
ABORTED_EVERY = 5
ABANDONED_EVERY = 23
CALL_S_MAX = 10
TRANSACTION_TIMEOUT_MS_MAX = 60_000
TRY_AGAIN_S = 0.1


class Stuck(Exception):
    """The cluster has not answered within the timeout."""


class TransactionalWorker:
    def __init__(self, sends: Sends, transactional_id: str, timeout_s: float, tape: Tape) -> None:
        self._sends = sends
        self._transactional_id = transactional_id
        self._timeout_s = timeout_s
        # The broker aborts what stays open for so long, also when nobody comes back for it.
        self._transaction_timeout_ms = min(int(timeout_s * 500), TRANSACTION_TIMEOUT_MS_MAX)
        self._tape = tape
        self._begun = 0

    def run(self, content: Content, is_over: threading.Event) -> None:
        """Sends until the load is over. A client that can go on no more has a successor, also at the end: it ends
        what its predecessor has left open, and so does not return before the last transaction has an end."""
        started_at = time.monotonic()
        try:
            client = self._successor()
            while not is_over.is_set():
                if not self._run_transaction(client, content, is_over, started_at):
                    drop(client)
                    client = self._successor()
            drop(client)
        except Stuck:
            pass
        self._sends.close()

    def _successor(self) -> Any:
        """Returns a client of this transactional id; all before it are fenced, and their transactions have ended."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            client = self._sends.client(
                transactional_id=self._transactional_id,
                transaction_timeout_ms=self._transaction_timeout_ms,
                message_timeout_ms=self._transaction_timeout_ms,
            )
            try:
                self._until_answered(client.init_transactions, deadline)
                return client
            except KafkaException as error:
                self._note(error)
                drop(client)
                if time.monotonic() > deadline:
                    raise Stuck from None
                time.sleep(TRY_AGAIN_S)

    def _run_transaction(self, client: Any, content: Content, is_over: threading.Event, started_at: float) -> bool:
        """Returns whether the client can begin another one."""
        number, failed_before = self._begun, self._sends.failed
        self._begun += 1
        try:
            client.begin_transaction()
        except KafkaException as error:
            self._note(error)
            return False
        self._record(TransactionBegun(now_ms(), self._sends.number))
        try:
            for _ in range(number * 7 % RECORDS_MAX + 1):
                while self._sends.due(started_at) <= 0 and not is_over.is_set():
                    self._sends.wait_for_next(client)
                self._sends.send(client, content, is_over)
                client.poll(0)
            if number % ABANDONED_EVERY == ABANDONED_EVERY - 1:
                self._record(TransactionEnded(now_ms(), self._sends.number, False, "abandoned"))
                return False
            is_flushed = flush(client, self._timeout_s)
        except KafkaException as error:  # it is fenced, or has failed for good in another way
            self._note(error)
            self._record(TransactionEnded(now_ms(), self._sends.number, False, error.args[0].name()))
            return False
        if not is_flushed or self._sends.failed > failed_before or number % ABORTED_EVERY == ABORTED_EVERY - 1:
            return self._abort(client, committed=False)
        return self._commit(client)

    def _commit(self, client: Any) -> bool:
        self._record(TransactionEnding(now_ms(), self._sends.number, True))
        try:
            self._until_answered(client.commit_transaction, time.monotonic() + self._timeout_s)
        except KafkaException as error:
            self._note(error)
            if error.args[0].txn_requires_abort():
                return self._abort(client, committed=None)
            self._record(TransactionEnded(now_ms(), self._sends.number, None, error.args[0].name()))
            return False
        self._record(TransactionEnded(now_ms(), self._sends.number, True))
        return True

    def _abort(self, client: Any, committed: bool | None) -> bool:
        """Aborts. Whatever becomes of that, the transaction is not committed if nobody has asked for it."""
        self._record(TransactionEnding(now_ms(), self._sends.number, False))
        said = None
        try:
            self._until_answered(client.abort_transaction, time.monotonic() + self._timeout_s)
        except KafkaException as error:
            self._note(error)
            said = error.args[0].name()
        self._record(TransactionEnded(now_ms(), self._sends.number, committed, said))
        return said is None

    def _until_answered(self, call: Any, deadline: float) -> None:
        """Calls again as long as the client says so. Raises KafkaException for any other error."""
        while True:
            try:
                call(min(max(deadline - time.monotonic(), 0.1), CALL_S_MAX))
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                if time.monotonic() > deadline:
                    raise Stuck from None

    def _record(self, event: TransactionBegun | TransactionEnding | TransactionEnded) -> None:
        self._tape.record(event)

    def _note(self, error: KafkaException) -> None:
        about: KafkaError = error.args[0]
        self._tape.record(ClientError(now_ms(), f"producer-{self._sends.number}", about.name()))
