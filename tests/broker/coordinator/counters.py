"""The smallest coordinator: named counters, in a topic of their own."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import CoordinatorDefinition, CoordinatorPartition, Settings, Timers
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.protocol.batch_header import NO_PRODUCER_ID
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.types import TopicPartition
from tests.broker.coordinator.memory_partition import MemoryPartition
from tests.fakes import FakeClock, FakeReport

TOPIC = "__counters"
COMMIT_TIMEOUT_MS = 5_000


class Counters:
    """Counts by record; what a transaction writes counts when it is committed."""

    def __init__(self, timers: Timers, _partition: CoordinatorPartition) -> None:
        self.timers = timers
        self.values: dict[str, int] = {}
        self.pending: dict[int, dict[str, int]] = {}
        self.offsets: list[int] = []
        """Where each record that was replayed lies in the log."""
        self.events: list[str] = []

    # ---- decisions

    def set(self, name: str, value: int, **how: Any) -> Decision[int]:
        """Answers with the value before."""
        return Decision([(name, value)], self.values.get(name, 0), **how)

    def get(self, name: str) -> Decision[int]:
        return Decision((), self.values.get(name, 0))

    # ---- the machine

    def replay(self, key: str, value: int, offset: int, producer_id: int) -> None:
        self.events.append(f"{key}={value}")
        self.offsets.append(offset)
        values = self.values if producer_id == NO_PRODUCER_ID else self.pending.setdefault(producer_id, {})
        values[key] = value

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        written = self.pending.pop(producer_id, {})
        if is_committed:
            self.values.update(written)

    def on_loaded(self) -> None:
        self.events.append("loaded")

    def on_unloaded(self) -> None:
        self.events.append("unloaded")

    def counts(self) -> Mapping[str, int]:
        return {"counters": len(self.values)}


def _decode(key: bytes, value: bytes | None) -> tuple[str, int] | None:
    if value is None:
        raise ProtocolError("a counter is never removed")
    return (key.decode(), int(value)) if key.isalpha() else None


SERDE = SimpleNamespace(encode_key=str.encode, encode_value=lambda value: b"%d" % value, decode_record=_decode)


def definition() -> CoordinatorDefinition[Counters]:
    settings = Settings(load_buffer_bytes=1_000, compression=CompressionType.NONE, commit_timeout_ms=COMMIT_TIMEOUT_MS)
    return CoordinatorDefinition(TOPIC, java_hash, SERDE, Counters, settings)


class Kit:
    """The counters of one partition in memory."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.report = FakeReport()
        self.partition = MemoryPartition(TopicPartition(TOPIC, 3))
        self.load()

    def load(self) -> None:
        self.runtime = self.loaded(self.partition)

    def loaded(self, partition: CoordinatorPartition) -> ShardRuntime[Counters]:
        runtime = ShardRuntime(definition(), partition, clock=self.clock, report=self.report)
        while not runtime.is_loaded:
            runtime.load_some()
        return runtime

    @property
    def machine(self) -> Counters:
        return self.runtime.machine

    def schedule(self, delay_ms: int, operation: Callable[[], Decision[Any] | None]) -> None:
        self.runtime.timers.schedule("a timer", delay_ms, operation)


def code_of(answer: Promise[Any]) -> ErrorCode:
    assert isinstance(answer.error, KafkaError)
    return answer.error.code
