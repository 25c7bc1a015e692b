"""The group coordinator of one broker: the runtime with the groups of `__consumer_offsets` in it."""

from collections.abc import Callable

from barnabas.base.environment import Environment, Timer
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.coordinator.decision import Decision
from barnabas.broker.coordinator.definition import CoordinatorDefinition, CoordinatorPartition, Settings, Timers
from barnabas.broker.coordinator.key_hash import java_hash
from barnabas.broker.coordinator.replica import CoordinatorReplica
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.groups.context import GroupContext
from barnabas.broker.groups.shard import GroupShard
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.stored import group_record_serde
from barnabas.replication.metadata.image import GROUP_METADATA_TOPIC, ImageChanges, MetadataImage


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
        self.end_transaction = runtime.end_transaction
        self.run_on_each = runtime.run_on_each
        self.start = runtime.start
        self._expiry: Timer = self._expire_later()

    def apply(self, changes: ImageChanges) -> None:
        """Follows a committed image: groups come and go with their partitions, offsets go with their topics."""
        self._runtime.apply(changes)
        if changes.created_topics:
            self._runtime.run_on_loaded(lambda shard: shard.on_topics_created())
        if deleted := [topic.name for topic in changes.deleted_topics]:
            self._runtime.run_on_loaded(lambda shard: shard.on_topics_deleted(deleted))

    def stop(self) -> None:
        """Stops the timer of expiry, and answers every member that waits for others to join."""
        self._expiry.cancel()
        self._runtime.stop()

    # ---- expiry

    def _expire_later(self) -> Timer:
        return self._clock.call_later(self._config().offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> None:
        self._expiry = self._expire_later()  # first: a bug in one partition must not end it for all
        self._runtime.run_on_loaded(_expire)


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

    def build_shard(timers: Timers, _partition: CoordinatorPartition) -> GroupShard:
        return build(timers)

    return CoordinatorDefinition(GROUP_METADATA_TOPIC, java_hash, group_record_serde, build_shard, settings)
