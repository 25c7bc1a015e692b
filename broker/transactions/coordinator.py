"""The transaction coordinator of one broker: the runtime with the transactions of `__transaction_state` in it."""

from collections.abc import Callable, Collection

from barnabas.base.environment import Environment, Timer
from barnabas.base.promise import Promise, failed
from barnabas.broker.config.dynamic_config import DynamicConfig
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import (
    CoordinatorDefinition,
    CoordinatorPartition,
    Settings,
    Timers,
)
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.coordinator.replica import CoordinatorReplica
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.transactions.flushed_first import FlushedFirst
from barnabas.broker.transactions.held_back import HeldBack
from barnabas.broker.transactions.machine import TransactionContext, TransactionShard
from barnabas.broker.transactions.marking import MarkerSender
from barnabas.broker.transactions.records import TransactionSerde
from barnabas.broker.transactions.transaction import ProducerIdAndEpoch, Transaction
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import CoordinatorLoadInProgress, ErrorCode, InvalidRequest, KafkaError
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import (
    TRANSACTION_STATE_TOPIC,
    TRANSACTION_VERSION,
    MetadataImage,
)

_COMMIT_TIMEOUT_MS = 5000
"""How long an answer waits for the replicas of `__transaction_state`."""


class TransactionCoordinator:
    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        environment: Environment,
        configuration: DynamicConfig,
        image: Callable[[], MetadataImage],
        producer_ids: ProducerIds,
        markers: MarkerSender,
    ) -> None:
        self._environment = environment
        self._configuration = configuration
        self._image = image
        self._producer_ids = producer_ids
        self._markers = markers
        self._flushed_first = FlushedFirst(markers, configuration.log_config)
        self._held_back = HeldBack(
            environment.clock, lambda: configuration.current.add_partitions_to_txn_retry_backoff_max_ms
        )
        config = configuration.current
        settings = Settings(
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
            compression=CompressionType.NONE,
            commit_timeout_ms=_COMMIT_TIMEOUT_MS,
        )
        serde = TransactionSerde(self.transaction_version)
        self._runtime = runtime = CoordinatorRuntime(
            CoordinatorDefinition(TRANSACTION_STATE_TOPIC, java_hash, serde, self._build, settings),
            config.node_id,
            open_partition=lambda index: CoordinatorReplica(replicas.partition(TRANSACTION_STATE_TOPIC, index)),
            clock=environment.clock,
            report=environment.report,
            image=image,
        )
        self.partition_of = runtime.partition_of
        self.start = runtime.start
        self.apply = runtime.apply
        self._expiry: Timer = self._expire_later()

    def transaction_version(self) -> int:
        """Returns the level of the feature: by which rules the coordinator itself ends transactions."""
        return self._image().features.get(TRANSACTION_VERSION, 0)

    def stop(self) -> None:
        """Fails every answer that waits."""
        self._expiry.cancel()
        self._held_back.close()
        self._runtime.stop()

    # ---- requests

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> Promise[ProducerIdAndEpoch]:
        """Returns a promise of the id and epoch with which the producer goes on. It waits for a new producer id to be
        at hand, though most do not need one."""
        config = self._configuration.current
        if not transactional_id:
            return failed(InvalidRequest("a transactional id cannot be empty"))
        if not 0 < timeout_ms <= config.transaction_max_timeout_ms:
            text = f"a timeout of {timeout_ms} ms, transaction.max.timeout.ms is {config.transaction_max_timeout_ms}"
            return failed(KafkaError(text, ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        answer: Promise[ProducerIdAndEpoch] = Promise()

        def decide(shard: TransactionShard) -> Decision[ProducerIdAndEpoch | KafkaError]:
            return shard.init_producer_id(transactional_id, timeout_ms, expected)

        def on_decided(decided: Promise[ProducerIdAndEpoch | KafkaError]) -> None:
            if decided.error is not None:
                answer.fail(decided.error)
            elif isinstance(decided.value, KafkaError):
                answer.fail(decided.value)
            else:
                answer.resolve(decided.value)

        def on_ready(ready: Promise[None]) -> None:
            if ready.error is not None:
                answer.fail(CoordinatorLoadInProgress(f"there is no producer id: {ready.error}"))
            else:
                self._runtime.run(transactional_id, decide).when_done(on_decided)

        self._producer_ids.when_at_hand().when_done(on_ready)
        return answer

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_version: int,
        waits: bool = True,
    ) -> Promise[None]:
        """Returns a promise that is kept when the partitions belong to the transaction. `client_version` is the level
        of transaction.version by which the client acts; `waits` says that the request may be held back for the end of
        the transaction before."""
        if not transactional_id:
            return failed(InvalidRequest("a transactional id cannot be empty"))
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)

        def decide(shard: TransactionShard) -> Decision[None]:
            return shard.add_partitions(transactional_id, producer, partitions, client_version=client_version)

        def attempt() -> Promise[None]:
            return self._runtime.run(transactional_id, decide)

        return self._held_back.run(transactional_id, attempt) if waits else attempt()

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Collection[TopicPartition]
    ) -> Promise[dict[TopicPartition, ErrorCode]]:
        """Returns a promise of each partition's answer: whether it belongs to the transaction."""
        if not transactional_id:
            return failed(InvalidRequest("a transactional id cannot be empty"))
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        return self._runtime.run(
            transactional_id, lambda shard: shard.verify_partitions(transactional_id, producer, partitions)
        )

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, is_commit: bool, client_version: int
    ) -> Promise[ProducerIdAndEpoch]:
        """Returns a promise of the id and epoch with which the producer goes on; it is kept when the decision is
        committed, and markers follow."""
        if not transactional_id:
            return failed(InvalidRequest("a transactional id cannot be empty"))

        def decide(shard: TransactionShard) -> Decision[ProducerIdAndEpoch]:
            return shard.end(transactional_id, producer, is_commit=is_commit, client_version=client_version)

        return self._runtime.run(transactional_id, decide)

    def describe(self, transactional_id: str) -> Promise[Transaction]:
        if not transactional_id:
            return failed(InvalidRequest("a transactional id cannot be empty"))
        return self._runtime.run(transactional_id, lambda shard: Decision((), shard.describe(transactional_id)))

    def transactions(self) -> list[Promise[list[Transaction] | KafkaError]]:
        """Returns promises of what this broker coordinates. Raises CoordinatorLoadInProgress if it is not all
        loaded."""

        def decide(shard: TransactionShard) -> Decision[list[Transaction] | KafkaError]:
            return Decision((), shard.transactions())

        return self._runtime.run_on_each(decide)

    # ---- shards

    def _build(self, timers: Timers, partition: CoordinatorPartition) -> TransactionShard:
        environment = self._environment

        return TransactionShard(
            TransactionContext(
                timers=timers,
                report=environment.report,
                now_ms=environment.clock.now_ms,
                transaction_version=self.transaction_version,
                new_producer_id=self._producer_ids.take,
                coordinator_epoch=lambda: partition.leader_epoch,
                send_markers=lambda markers: self._flushed_first.send(markers, partition),
                markers_left=self._markers.left,
                left_to_others=self._left_to_others,
                on_ended=self._held_back.go_on,
                first_epoch=self._configuration.current.barnabas_transaction_first_producer_epoch,
            )
        )

    def _left_to_others(self, transactional_ids: frozenset[str]) -> None:
        self._markers.forget(transactional_ids)
        self._held_back.refuse(transactional_ids)

    # ---- expiry

    def _expire_later(self) -> Timer:
        config = self._configuration.current
        interval_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        return self._environment.clock.call_later(interval_ms, self._expire)

    def _expire(self) -> None:
        self._expiry = self._expire_later()  # first: a bug in one partition must not end it for all
        expiration_ms = self._configuration.current.transactional_id_expiration_ms
        self._runtime.run_on_loaded(lambda shard: shard.expire(expiration_ms))
