"""What a broker does for partitions that have several replicas. One that has none does without all of it.

- It fetches what others lead, and asks the controller for changes of who is in sync with what it leads.
- Twice in `replica.lag.time.max.ms` it looks for followers that have fallen behind.
- Every `replica.high.watermark.checkpoint.interval.ms` it notes on the disk how far its partitions are committed.
"""

from collections.abc import Callable, Iterable

from barnabas.base.environment import Clock, Timer
from barnabas.broker.fetchers.fetchers import Fetchers, leader_at
from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.broker.replicas.isr_changes import IsrChanges
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import Partition
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition
from barnabas.replication.isr import IsrChange
from barnabas.replication.metadata.image import MetadataImage
from barnabas.storage.log_dir import LogDir


class ReplicationSettings(NamedTuple):
    inter_broker_listener: str
    replica_lag_time_max_ms: int = 30_000
    high_watermark_checkpoint_interval_ms: int = 5_000


class Replication:
    def __init__(
        self, clock: Clock, fetchers: Fetchers, isr_changes: IsrChanges, settings: ReplicationSettings
    ) -> None:
        self._clock = clock
        self._fetchers = fetchers
        self._isr_changes = isr_changes
        self._settings = settings
        self._timers: dict[str, Timer] = {}
        self._partitions: Callable[[], Iterable[Partition]]

    def start(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        """Begins to look after the partitions that `partitions` returns whenever it is called."""
        self._partitions = partitions
        self._check_lag_later()
        self._checkpoint_later()

    def follow(self, partition: FollowerPartition, image: MetadataImage) -> None:
        """Fetches a partition from its leader, or not while it has none."""
        leader = leader_at(image, partition.leader_id, self._settings.inter_broker_listener)
        if leader is None:
            self._fetchers.stop(partition.topic_partition)
        else:
            self._fetchers.follow(partition, leader)

    def stop(self, topic_partition: TopicPartition) -> None:
        self._fetchers.stop(topic_partition)

    def propose(self, partition: LeaderPartition, change: IsrChange) -> None:
        self._isr_changes.propose(partition, change)

    def close(self) -> None:
        """Fetches no more. What is committed is noted, for the checkpoints that the stop writes."""
        self._fetchers.close()
        self._isr_changes.close()
        for timer in self._timers.values():
            timer.cancel()
        for log_dir, high_watermarks in self._high_watermarks().items():
            log_dir.high_watermarks.update(high_watermarks)

    # ---- lag

    def _check_lag_later(self) -> None:
        delay_ms = max(self._settings.replica_lag_time_max_ms // 2, 1)
        self._timers["lag"] = self._clock.call_later(delay_ms, self._check_lag)

    def _check_lag(self) -> None:
        for partition in list(self._partitions()):
            if isinstance(partition, LeaderPartition):
                partition.check_lag()
        self._check_lag_later()

    # ---- high watermarks

    def _checkpoint_later(self) -> None:
        delay_ms = max(self._settings.high_watermark_checkpoint_interval_ms, 1)
        self._timers["checkpoint"] = self._clock.call_later(delay_ms, self._checkpoint)

    def _checkpoint(self) -> None:
        for log_dir, high_watermarks in self._high_watermarks().items():
            log_dir.checkpoint_high_watermarks(high_watermarks)
        self._checkpoint_later()

    def _high_watermarks(self) -> dict[LogDir, dict[TopicPartition, int]]:
        found: dict[LogDir, dict[TopicPartition, int]] = {}
        for partition in self._partitions():
            log = partition.log
            if log.topic_partition in log.log_dir.high_watermarks:  # those that have other replicas
                found.setdefault(log.log_dir, {})[log.topic_partition] = log.high_watermark
        return found
