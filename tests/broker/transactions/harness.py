"""The transactions of one partition, in memory: the test is the clock, the log and whoever writes markers."""

from barnabas.base.promise import Promise
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import CoordinatorDefinition, CoordinatorPartition, Settings, Timers
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.coordinator.shard_runtime import Decide, ShardRuntime
from barnabas.broker.transactions.held_back import HeldBack
from barnabas.broker.transactions.machine import TransactionContext, TransactionShard
from barnabas.broker.transactions.marking import TransactionMarkers
from barnabas.broker.transactions.records import TransactionSerde
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import TRANSACTION_STATE_TOPIC
from tests.broker.coordinator.memory_partition import MemoryPartition
from tests.fakes import FakeClock, FakeReport

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 1)
TIMEOUT_MS = 60_000
COMMIT_TIMEOUT_MS = 5_000
WAIT_MAX_MS = 100


class Markers:
    """A `MarkerSender` that notes what it is to send; the test says when that is done."""

    def __init__(self) -> None:
        self.is_done_at_once = True
        self.sent: list[TransactionMarkers] = []
        self.under_way: list[Promise[None]] = []
        self.unmarked: dict[str, frozenset[TopicPartition]] = {}
        self.forgotten: set[str] = set()

    def send(self, markers: TransactionMarkers) -> Promise[None]:
        promise: Promise[None] = Promise()
        self.sent.append(markers)
        self.under_way.append(promise)
        if self.is_done_at_once:
            self.finish()
        return promise

    def finish(self, error: KafkaError | None = None) -> None:
        """All that was sent so far is written, or refused."""
        under_way, self.under_way = self.under_way, []
        for promise in under_way:
            if error is None:
                promise.resolve(None)
            else:
                promise.fail(error)

    def left(self, transactional_id: str) -> frozenset[TopicPartition] | None:
        return self.unmarked.get(transactional_id)

    def forget(self, transactional_ids: frozenset[str]) -> None:
        self.forgotten |= transactional_ids


class TransactionHarness:
    def __init__(self, *, version: int = 2, first_epoch: int = 0) -> None:
        self.clock = FakeClock()
        self.wall_clock_ahead_ms = 0
        self.report = FakeReport()
        self.version = version
        self.markers = Markers()
        self.held_back = HeldBack(self.clock, lambda: WAIT_MAX_MS)
        self.partition = MemoryPartition(TopicPartition(TRANSACTION_STATE_TOPIC, 0))
        self.producer_ids = list(range(1000, 1100))
        self._first_epoch = first_epoch
        self.load()

    # ---- the partition

    def load(self) -> None:
        """As after a start, or a move of the leader."""
        settings = Settings(1_000, CompressionType.NONE, COMMIT_TIMEOUT_MS)
        serde = TransactionSerde(lambda: self.version)
        definition = CoordinatorDefinition(TRANSACTION_STATE_TOPIC, java_hash, serde, self._build, settings)
        self.runtime: ShardRuntime[TransactionShard] = ShardRuntime(
            definition, self.partition, clock=self.clock, report=self.report
        )
        while not self.runtime.is_loaded:
            self.runtime.load_some()
        self.clock.advance(0)

    def fail_over(self) -> None:
        self.runtime.unload()
        self.partition.leader_epoch += 1
        self.load()

    def _build(self, timers: Timers, partition: CoordinatorPartition) -> TransactionShard:
        return TransactionShard(
            TransactionContext(
                timers=timers,
                report=self.report,
                now_ms=lambda: self.clock.now_ms() + self.wall_clock_ahead_ms,
                transaction_version=lambda: self.version,
                new_producer_id=self._new_producer_id,
                coordinator_epoch=lambda: partition.leader_epoch,
                send_markers=self.markers.send,
                markers_left=self.markers.left,
                left_to_others=self._left_to_others,
                on_ended=self.held_back.go_on,
                first_epoch=self._first_epoch,
            )
        )

    def _left_to_others(self, transactional_ids: frozenset[str]) -> None:
        self.markers.forget(transactional_ids)
        self.held_back.refuse(transactional_ids)

    def _new_producer_id(self) -> int:
        if not self.producer_ids:
            raise CoordinatorLoadInProgress
        return self.producer_ids.pop(0)

    # ---- requests

    def init(self, name: str = "tx", expected: tuple[int, int] | None = None) -> ProducerIdAndEpoch:
        answer = self.ask_init(name, expected)
        assert isinstance(answer.value, ProducerIdAndEpoch)
        return answer.value

    def ask_init(
        self, name: str = "tx", expected: tuple[int, int] | None = None
    ) -> Promise[ProducerIdAndEpoch | KafkaError]:
        producer = None if expected is None else ProducerIdAndEpoch(*expected)
        return self.runtime.run(lambda shard: shard.init_producer_id(name, TIMEOUT_MS, producer))

    def add(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "tx") -> Promise[None]:
        return self.runtime.run(lambda shard: shard.add_partitions(name, producer, partitions, client_version=2))

    def add_in_time(self, producer: ProducerIdAndEpoch, *partitions: TopicPartition, name: str = "tx") -> Promise[None]:
        """Adds them when the last transaction has ended."""
        return self.held_back.run(name, lambda: self.add(producer, *partitions, name=name))

    def end(
        self, producer: ProducerIdAndEpoch, *, is_commit: bool = True, client_version: int = 2, name: str = "tx"
    ) -> Promise[ProducerIdAndEpoch]:
        decide: Decide[TransactionShard, ProducerIdAndEpoch] = lambda shard: shard.end(  # noqa: E731
            name, producer, is_commit=is_commit, client_version=client_version
        )
        return self.runtime.run(decide)

    # ---- what is known and stored

    def now(self, name: str = "tx") -> Transaction:
        return self.runtime.machine.describe(name)

    @property
    def state(self) -> str:
        return self.now().state.label

    def stored(self) -> list[str]:
        """The states in the log, from the first to the last; a tombstone is `-`."""
        serde = TransactionSerde(lambda: self.version)
        states = []
        for key, value in self.partition.records():
            decoded = serde.decode_record(key, value)
            assert decoded is not None
            states.append("-" if decoded[1] is None else decoded[1].state.label)
        return states

    def expire(self, expiration_ms: int) -> None:
        def decide(shard: TransactionShard) -> Decision[None]:
            return shard.expire(expiration_ms)

        self.runtime.run(decide)


def code_of(promise: Promise[ProducerIdAndEpoch] | Promise[None]) -> ErrorCode:
    assert isinstance(promise.error, KafkaError), repr(promise.error)
    return promise.error.code
