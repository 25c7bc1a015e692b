"""One state machine and the partition that it lives in: loads the machine, then carries out its decisions in order.

Rules:
- The records of a decision are appended at once, all or none, and replayed; so the next decision sees them.
- No answer leaves before everything that it can have seen is committed: below the high watermark. That includes what
  the load replayed, which the leader before may have left uncommitted.
- When the partition moves away or fails, every waiting answer fails at that moment, and the state is dropped with all
  that was replayed and never committed. A high watermark that comes later completes nothing.
- A load goes on for a few milliseconds at a time: a partition with millions of records must not hold up the others.
- A partition that cannot be read has no coordinator: to skip what is broken would bring back old state as the latest.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

from barnabas.base.environment import Clock, Report
from barnabas.base.promise import Promise, failed
from barnabas.broker.coordinator.batches import encode_batches
from barnabas.broker.coordinator.commit_queue import CommitQueue
from barnabas.broker.coordinator.decision import Decision, TransactionalProducer
from barnabas.broker.coordinator.definition import (
    CoordinatorDefinition,
    CoordinatorPartition,
    Operation,
    StateMachine,
)
from barnabas.broker.coordinator.loader import load
from barnabas.broker.coordinator.timers import CoordinatorTimers
from barnabas.protocol.batch_header import NO_PRODUCER_ID
from barnabas.protocol.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    ProtocolError,
)
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")
Decide = Callable[[M], Decision[R]]
Verify = Callable[[TopicPartition], Promise[KafkaError | None]]
"""Asks a transaction's coordinator whether a partition is part of it. The answer is None, or why it is not."""

_LOADING_MS = 5
_TIMER_RETRY_MS = 500
"""The wait after a timer's records could not be written: a session must end some day, even if the disk was full."""

_AS_COORDINATOR_ERROR = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What an error of the log, or of the way to a transaction's coordinator, means to a client of this coordinator: look
for it elsewhere, or try again."""


class _Transaction(NamedTuple):
    """What records are part of."""

    producer: TransactionalProducer
    guard: VerificationGuard | None
    """Proves that the transaction's coordinator was asked; None if it has written to this partition before."""


class ShardRuntime(Generic[M]):
    def __init__(
        self, definition: CoordinatorDefinition[M], partition: CoordinatorPartition, *, clock: Clock, report: Report
    ) -> None:
        self._serde = definition.serde
        self._settings = definition.settings
        self._partition = partition
        self._clock = clock
        self._report = report
        self.timers = CoordinatorTimers(clock, self._on_timer)
        self.machine = definition.build(self.timers, partition)
        self._started_ms = clock.monotonic_ms()
        self._seen_end_offset = 0
        """The end of everything that the machine has replayed or written."""
        self._waiting = CommitQueue(partition, clock, definition.settings.commit_timeout_ms, self._stop)
        self._loading: Iterator[None] | None = load(
            partition, self.machine, self._serde, self._settings.load_buffer_bytes
        )
        self._failure: KafkaError | None = None
        self.may_be_loaded_later = False
        """Whether the load has failed for a reason that may pass, such as a shortage of descriptors."""

    # ---- loading

    @property
    def is_loaded(self) -> bool:
        """Returns whether decisions can be made, or can never be made: then `run` says why."""
        return self._loading is None

    def load_some(self) -> None:
        """Goes on with loading for a little while."""
        if self._loading is None:
            return
        deadline_ms = self._clock.monotonic_ms() + _LOADING_MS
        try:
            for _ in self._loading:
                if self._clock.monotonic_ms() >= deadline_ms:
                    return
        except (KafkaError, ProtocolError) as error:
            self._load_failed(error)
        except BaseException as error:
            self._load_failed(error)
            raise
        else:
            self._loading = None
            self._seen_end_offset = self._partition.log_end_offset
            self.machine.on_loaded()
            self._report_loaded()

    def _load_failed(self, error: BaseException) -> None:
        """Ends the load: half of what is stored must never be taken for all of it."""
        self._loading = None
        self.may_be_loaded_later = isinstance(error, KafkaStorageError)
        name = str(self._partition.topic_partition)
        text = f"{name} cannot be read, what is stored there has no coordinator: {error}"
        self._report.error(text, topic_partition=name)
        self._failure = CoordinatorNotAvailable(text)

    def _report_loaded(self) -> None:
        counts = self.machine.counts()
        if any(counts.values()):
            name, took_ms = str(self._partition.topic_partition), self._clock.monotonic_ms() - self._started_ms
            listed = ", ".join(f"{count} {what}" for what, count in counts.items())
            self._report.info(
                f"{name}: {listed} loaded in {took_ms} ms", topic_partition=name, took_ms=took_ms, **counts
            )

    def unload(self) -> None:
        """Stops the machine: the partition is led by another broker now, or gone, or this broker stops."""
        self._stop(NotCoordinator(f"this broker does not lead {self._partition.topic_partition}"))

    def _stop(self, error: KafkaError) -> None:
        """Fails every answer that waits, and refuses all decisions from now on."""
        self._loading = None
        self._failure = error = _as_coordinator_error(error)
        self.machine.on_unloaded()
        self._waiting.fail(error)
        self.timers.clear()

    # ---- running

    def run(self, decide: Decide[M, R], transaction: _Transaction | None = None) -> Promise[R]:
        """Returns the answer to a decision, once it may be seen. The machine must be loaded."""
        assert self._loading is None, "nobody decides on what is half known"
        try:
            if self._failure is not None:
                raise self._failure
            decision = decide(self.machine)
        except KafkaError as error:
            return failed(error)
        return self._carry_out(decision, transaction)

    # ---- transactions

    def run_in_transaction(self, producer: TransactionalProducer, verify: Verify, decide: Decide[M, R]) -> Promise[R]:
        """Returns the answer to a decision whose records belong to a transaction, and count when that is committed. If
        it has written nothing here so far, `verify` asks whether this partition is part of it."""
        try:
            if self._failure is not None:
                raise self._failure
            guard = self._partition.begin_verification(producer)
        except KafkaError as error:
            return failed(_as_coordinator_error(error))
        transaction = _Transaction(producer, guard)
        if guard is None:
            return self.run(decide, transaction)

        def go_on(refusal: KafkaError | None) -> Promise[R]:
            return self.run(decide, transaction) if refusal is None else failed(_as_coordinator_error(refusal))

        return verify(self._partition.topic_partition).then(go_on)

    def end_transaction(self, marker: TransactionMarker) -> Promise[None]:
        """Writes the marker that ends a transaction, and replays it as a load would. The machine must be loaded."""
        assert self._loading is None, "a marker must not overtake what is being loaded"
        try:
            if self._failure is not None:
                raise self._failure
            self._seen_end_offset = self._partition.end_transaction(marker, self._clock.now_ms())
        except KafkaError as error:
            return failed(_as_coordinator_error(error))
        self.machine.end_transaction(marker.producer_id, is_committed=marker.is_committed)
        promise: Promise[None] = Promise()

        def finish(error: KafkaError | None) -> None:
            if error is not None:
                promise.fail(_as_coordinator_error(error))
            else:
                promise.resolve(None)

        self._when_committed(finish)
        return promise

    # ---- decisions

    def _carry_out(self, decision: Decision[R], transaction: _Transaction | None = None) -> Promise[R]:
        response = decision.response
        promise: Promise[R] = response if isinstance(response, Promise) else Promise()

        def finish(error: KafkaError | None) -> None:
            if error is not None:
                error = _as_coordinator_error(error)
            if decision.on_committed is not None:
                decision.on_committed(error)
            if response is promise:
                return  # the machine settles it
            if error is not None:
                promise.fail(error)
            else:
                promise.resolve(response)  # type: ignore[arg-type]

        if decision.records:
            try:
                self._append(decision, transaction)
            except KafkaError as error:
                finish(error)
                return promise
            except Exception as error:  # a bug of ours: nothing was appended, and nobody may wait for it
                finish(KafkaError(f"a bug: {error!r}", ErrorCode.UNKNOWN_SERVER_ERROR))
                self._report.error(f"a bug: {error!r}")
                return promise
        if decision.is_replayed:
            producer_id = NO_PRODUCER_ID if transaction is None else transaction.producer.producer_id
            replay = self.machine.replay
            for offset, (key, value) in enumerate(decision.records, self._seen_end_offset - len(decision.records)):
                replay(key, value, offset, producer_id)
        if decision.on_appended is not None:
            decision.on_appended()
        self._when_committed(finish)
        return promise

    def _append(self, decision: Decision[Any], transaction: _Transaction | None) -> None:
        now_ms = self._clock.now_ms()
        producer, guard = (None, None) if transaction is None else transaction
        batches = encode_batches(
            decision.records,
            self._serde,
            now_ms=now_ms,
            max_batch_bytes=self._partition.max_message_bytes,
            compression=self._settings.compression,
            producer=producer,
        )
        self._seen_end_offset = self._partition.append(memoryview(batches), now_ms, guard)

    def _when_committed(self, finish: Callable[[KafkaError | None], None]) -> None:
        """Calls `finish` when everything that the machine has seen so far is committed, which may be now: most answers
        need no promise."""
        if self._partition.high_watermark >= self._seen_end_offset:
            return finish(None)

        def done(committed: Promise[None]) -> None:
            assert committed.error is None or isinstance(committed.error, KafkaError), repr(committed.error)
            finish(committed.error)

        self._waiting.add(self._seen_end_offset).when_done(done)

    def _on_timer(self, key: Hashable, operation: Operation) -> None:
        decision = operation()
        if decision is None:
            return

        def done(promise: Promise[Any]) -> None:
            if not decision.is_replayed:
                return  # it has changed the state already, and must not do so twice
            if promise.error is not None and self._failure is None and not self.timers.is_scheduled(key):
                self.timers.schedule(key, _TIMER_RETRY_MS, operation)

        self._carry_out(decision).when_done(done)


def _as_coordinator_error(error: KafkaError) -> KafkaError:
    return KafkaError(error.message, _AS_COORDINATOR_ERROR.get(error.code, error.code))
