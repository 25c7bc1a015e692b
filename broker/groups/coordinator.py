"""The group coordinator of one broker: the runtime with the groups of `__consumer_offsets` in it."""

from collections.abc import Callable

from barnabas.base.environment import Environment, Timer
from barnabas.base.promise import Promise
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import CoordinatorDefinition, Settings, Timers
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.coordinator.replica import CoordinatorReplica
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.groups.context import GroupContext
from barnabas.broker.groups.shard import GroupShard
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollower
from barnabas.protocol.stored import group_record_serde
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, ImageChanges, MetadataImage
from barnabas.storage.transactions.marker import TransactionMarker

_NOT_HERE_OR_NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class GroupCoordinator:
    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        environment: Environment,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        def build(timers: Timers) -> GroupShard:
            return GroupShard(
                GroupContext(
                    timers=timers,
                    now_ms=environment.clock.now_ms,
                    random=environment.random,
                    report=environment.report,
                    config=config,
                    image=image,
                )
            )

        self._clock = environment.clock
        self._config = config
        self._runtime = runtime = CoordinatorRuntime(
            group_coordinator_definition(config(), build),
            config().node_id,
            open_partition=lambda index: CoordinatorReplica(replicas.partition(GROUP_METADATA_TOPIC, index)),
            clock=environment.clock,
            report=environment.report,
            image=image,
        )
        self.partition_of = runtime.partition_of
        self.run = runtime.run
        self.run_in_transaction = runtime.run_in_transaction
        self.run_on_each = runtime.run_on_each
        self.start = runtime.start
        self._expiry: Timer = self._expire_later()

    def apply(self, changes: ImageChanges) -> None:
        """Follows a committed image: groups come and go with their partitions, offsets go with their topics."""
        self._runtime.apply(changes)
        if deleted := [topic.name for topic in changes.deleted_topics]:
            self._runtime.run_on_loaded(lambda shard: shard.on_topics_deleted(deleted))

    def end_transaction(self, index: int, marker: TransactionMarker) -> Promise[None]:
        """Writes the marker of a transaction to a partition of `__consumer_offsets`: what it has committed counts from
        now on, or never did. Fails as any partition's leader does: who sends markers knows nothing of groups."""
        ended: Promise[None] = Promise()

        def settle(done: Promise[None]) -> None:
            error = done.error
            if error is None:
                ended.resolve(None)
            elif isinstance(error, KafkaError) and error.code in _NOT_HERE_OR_NOT_NOW:
                ended.fail(NotLeaderOrFollower(error.message))
            else:
                ended.fail(error)

        self._runtime.end_transaction(index, marker).when_done(settle)
        return ended

    def stop(self) -> None:
        """Stops the timer of expiry, and answers every member that waits for others to join."""
        self._expiry.cancel()
        self._runtime.stop()

    # ---- expiry

    def _expire_later(self) -> Timer:
        return self._clock.call_later(self._config().offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> None:
        self._runtime.run_on_loaded(_expire)
        self._expiry = self._expire_later()


def _expire(shard: GroupShard) -> Decision[None]:
    return shard.expire()


def group_coordinator_definition(
    config: BrokerConfig, build: Callable[[Timers], GroupShard]
) -> CoordinatorDefinition[GroupShard]:
    settings = Settings(
        load_buffer_bytes=config.offsets_load_buffer_size,
        compression=CompressionType(config.offsets_topic_compression_codec),
        commit_timeout_ms=config.offsets_commit_timeout_ms,
    )
    return CoordinatorDefinition(GROUP_METADATA_TOPIC, java_hash, group_record_serde, build, settings)
