"""What makes one coordinator differ from another: its topic, the hash of its keys, its records, its state machine."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision, TransactionalProducer
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker

Operation = Callable[[], Decision[Any] | None]
"""What a timer does: a decision like any other. None if there is nothing to do any more."""


class Timers(Protocol):
    """What a state machine sees of its timers. Keys are its own; time is monotonic."""

    def schedule(self, key: Hashable, delay_ms: int, operation: Operation) -> None:
        """Sets the timer of this key, or moves it."""
        ...

    def cancel(self, key: Hashable) -> None:
        """Does nothing if there is no such timer."""
        ...

    def is_scheduled(self, key: Hashable) -> bool: ...

    def run(self, key: Hashable, operation: Operation) -> None:
        """Does at once what the timer of this key would do; if the records cannot be written, it tries again."""
        ...


class StateMachine(Protocol):
    """The state of one partition. It knows no log, no socket and no clock of its own.

    A load and a decision of the moment replay alike: state comes from records in no other way.
    """

    def replay(self, key: Any, value: Any, offset: int, producer_id: int) -> None:
        """Takes over a record that lies at this offset of the log. `producer_id` is that of the record's transaction,
        or NO_PRODUCER_ID."""
        ...

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Replays a marker: what the transaction wrote counts from now on, or never did."""
        ...

    def on_loaded(self) -> None:
        """Starts timers: every record was replayed."""
        ...

    def on_unloaded(self) -> None:
        """Settles the promises that the machine has given out: its state is about to be dropped."""
        ...

    def counts(self) -> Mapping[str, int]:
        """Returns the number of things of each kind, to be reported after a load."""
        ...


M_co = TypeVar("M_co", bound=StateMachine, covariant=True)


class Serde(Protocol):
    """Records as bytes."""

    @property
    def encode_key(self) -> Callable[[Any], bytes]: ...

    @property
    def encode_value(self) -> Callable[[Any], bytes]: ...

    @property
    def decode_record(self) -> Callable[[bytes, bytes | None], tuple[Any, Any] | None]:
        """Returns key and value, or None for a kind of record that this broker does not know. Raises ProtocolError."""
        ...


class CoordinatorPartition(Protocol):
    """The partition that a state machine lives in, as its leader sees it."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def max_message_bytes(self) -> int: ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Returns whole batches from the one that holds `offset`, at least one, up to the end of the log."""
        ...

    def append(self, batches: memoryview, now_ms: int, guard: VerificationGuard | None = None) -> int:
        """Writes all batches or none, and returns the offset after the last. Raises KafkaError. The first batch of a
        transaction needs the guard with which it was verified."""
        ...

    def begin_verification(self, producer: TransactionalProducer) -> VerificationGuard | None:
        """Returns the guard with which a batch of the producer's transaction may be appended once the transaction's
        coordinator has agreed; None if that transaction has written here already. Raises KafkaError."""
        ...

    def end_transaction(self, marker: TransactionMarker, now_ms: int) -> int:
        """Writes the marker, and returns the offset after it. Raises KafkaError if it is one of the past."""
        ...

    def when_committed(self, offset: int) -> Promise[None]:
        """Returns a promise that is kept when the high watermark reaches `offset`, which lies above it. It fails with
        a KafkaError when it is known that this leader will not see that happen."""
        ...

    def when_flushed(self) -> Promise[None]:
        """Returns a promise that is kept when all that was appended is on this broker's disk."""
        ...


class Settings(NamedTuple):
    """Values of broker keys that do not change while the broker runs."""

    load_buffer_bytes: int
    compression: CompressionType
    commit_timeout_ms: int


class CoordinatorDefinition(NamedTuple, Generic[M_co]):
    topic: str
    key_hash: Callable[[str], int]
    """Returns a number that is, modulo the number of partitions, the partition of a key."""
    serde: Serde
    build: Callable[[Timers, CoordinatorPartition], M_co]
    """Returns the empty state machine of a partition."""
    settings: Settings
