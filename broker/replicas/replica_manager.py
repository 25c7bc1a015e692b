"""The partitions of this broker, led or followed: created, opened, reconfigured and deleted as the metadata image says.

- A partition is opened when it is first asked for: a broker with ten thousand of them starts as fast as one with ten.
  Only those that other brokers lead are opened without being asked for, because they have to be fetched.
- The metadata say which partitions exist; their directories may follow. The first few of a change, of whatever topics,
  are created before the answer, the others a few at a time between requests, or when they are first asked for.
- A change of the metadata is applied as a whole before those who wait are told of it. What they do then, such as
  reading again, finds nothing half done: a topic that was deleted may be there again under the same name.
- What lies in a log dir that has failed is refused, and followed no more; it is led until the controller knows.
- A partition that leaves this broker is deleted here. One that left while the broker was down is moved aside, as is one
  of a topic that is gone: a person may want it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from barnabas.base.environment import Environment
from barnabas.broker.replicas.cluster_view import ClusterView
from barnabas.broker.replicas.opening_queue import OpeningQueue
from barnabas.broker.replicas.replica_dirs import ReplicaDirs
from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower, UnknownTopicOrPartition
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import TopicPartition
from barnabas.replication.metadata.image import (
    CLUSTER_METADATA_TOPIC,
    NO_LEADER,
    ImageChanges,
    MetadataImage,
    PartitionImage,
    TopicChange,
    TopicImage,
)
from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager import LogManager

if TYPE_CHECKING:
    from barnabas.broker.replicas.follower import FollowerPartition
    from barnabas.broker.replicas.leader import LeaderPartition
    from barnabas.broker.replicas.partition import Partition, Role
    from barnabas.replication.isr import IsrChange
    from barnabas.storage.log_dir import LogDir


class ReplicaSettings(NamedTuple):
    node_id: int
    log_defaults: LogConfig
    replica_lag_time_max_ms: int = 30_000


class Replicator(Protocol):
    """What is done for partitions that have several replicas; `replication.py` does it."""

    def start(self, partitions: "Callable[[], Iterable[Partition]]") -> None: ...

    def propose(self, partition: "LeaderPartition", change: "IsrChange") -> None: ...

    def follow(self, partition: "FollowerPartition", image: MetadataImage) -> None: ...

    def stop(self, topic_partition: TopicPartition) -> None: ...

    def close(self) -> None: ...


class ReplicaManager:
    def __init__(
        self,
        settings: ReplicaSettings,
        environment: Environment,
        *,
        image: MetadataImage,
        logs: LogManager,
        dirs: ReplicaDirs,
        new_replication: "Callable[[], Replicator]",
    ) -> None:
        """Calls `new_replication` when the first partition with several replicas is opened."""
        self._node_id, self._log_defaults, lag_max_ms = settings
        self._image = image
        self._cluster = ClusterView(self._node_id, image, self._propose, replica_lag_time_max_ms=lag_max_ms)
        self._new_replication = new_replication
        self._replication: Replicator | None = None
        self._dirs = dirs
        self._logs = logs
        self._report = environment.report
        self._openings = OpeningQueue(environment.clock, self._open)
        """The partitions to create, or to follow."""
        self._leaders: dict[tuple[str, int], LeaderPartition] = {}
        self._followers: dict[tuple[str, int], FollowerPartition] = {}
        self._closed: list[tuple[LeaderPartition | FollowerPartition, KafkaError]] = []
        """The partitions that a change takes away, and what to tell those who wait for them."""

    def partition(self, topic: str, index: int, current_leader_epoch: int = -1) -> "LeaderPartition":
        """Returns the partition if this broker leads it; otherwise raises the error for the client. A client that asks
        a follower in a wrong epoch learns of the epoch first; the leader's epoch is for the caller to check."""
        partition = self._leaders.get((topic, index))
        return partition if partition is not None else self._lead(topic, index, current_leader_epoch)

    def _lead(self, topic: str, index: int, current_leader_epoch: int) -> "LeaderPartition":
        from barnabas.broker.replicas.leader import LeaderPartition  # a start opens none
        from barnabas.broker.replicas.partition import NO_EPOCH, wrong_epoch

        image, described = self._described(topic, index)
        name = TopicPartition(topic, index)
        if described.leader != self._node_id:
            if described.leader == NO_LEADER and self._is_here(described):
                self._dirs.check_online(name)
            if self._is_here(described) and current_leader_epoch not in (NO_EPOCH, described.leader_epoch):
                raise wrong_epoch(current_leader_epoch, described.leader_epoch)
            raise NotLeaderOrFollower(f"{topic}-{index} is led by broker {described.leader}")
        log = self._dirs.log(name, image, described, self.log_config(topic))
        partition = LeaderPartition(name, image.topic_id, log, described, self._cluster)
        self._leaders[name] = partition
        if not partition.is_alone:
            self._replicating()
        return partition

    def follower(self, topic: str, index: int) -> "FollowerPartition":
        """Returns the partition if this broker has a replica of it and another broker leads it; raises otherwise."""
        partition = self._followers.get((topic, index))
        return partition if partition is not None else self._follow(topic, index)

    def _follow(self, topic: str, index: int) -> "FollowerPartition":
        from barnabas.broker.replicas.follower import FollowerPartition

        image, described = self._described(topic, index)
        if described.leader == self._node_id or not self._is_here(described):
            raise NotLeaderOrFollower(f"{topic}-{index} is led here, or not here at all")
        name = TopicPartition(topic, index)
        log = self._dirs.log(name, image, described, self.log_config(topic))
        partition = FollowerPartition(name, image.topic_id, log, described.leader_epoch, described.leader)
        self._followers[name] = partition
        return partition

    def replica(self, topic: str, index: int, current_leader_epoch: int = -1) -> "Partition":
        """Returns the partition, led or followed here; otherwise raises the error for the client."""
        try:
            return self.partition(topic, index, current_leader_epoch)
        except NotLeaderOrFollower:
            return self.follower(topic, index)

    def role(self, topic: str, index: int) -> "Role | None":
        """Returns what this broker is for the partition; None if it has no replica of it."""
        from barnabas.broker.replicas.partition import Role

        described = self._image.partition(topic, index)
        if described is None or not self._is_here(described):
            return None
        if self._dirs.is_offline(TopicPartition(topic, index)):
            return Role.OFFLINE
        return Role.LEADER if described.leader == self._node_id else Role.FOLLOWER

    def _described(self, topic: str, index: int) -> tuple[TopicImage, PartitionImage]:
        image = self._image.topic(topic)
        if image is None or not 0 <= index < len(image.partitions):
            raise UnknownTopicOrPartition(f"there is no partition {topic}-{index}")
        return image, image.partitions[index]

    # ---- replication

    def _replicating(self) -> "Replicator":
        if self._replication is None:
            self._replication = self._new_replication()
            self._replication.start(self._opened)
        return self._replication

    def _opened(self) -> "Iterator[Partition]":
        yield from self._leaders.values()
        yield from self._followers.values()

    def _propose(self, partition: "LeaderPartition", change: "IsrChange") -> None:
        self._replicating().propose(partition, change)

    def _follow_leader(self, name: TopicPartition) -> None:
        """Fetches the partition from its leader, if it is to be here and another broker leads it."""
        described = self._image.partition(*name)
        if described is None or not self._is_followed(described) or self._dirs.is_offline(name):
            return
        try:
            partition = self.follower(*name)
        except KafkaStorageError as error:
            return self._report.warning(f"{name} cannot be followed: {error.message}", topic_partition=str(name))
        partition.leader_epoch, partition.leader_id = described.leader_epoch, described.leader
        self._replicating().follow(partition, self._image)

    def _is_followed(self, described: PartitionImage) -> bool:
        return described.leader != self._node_id and self._is_here(described)

    def close(self) -> None:
        """Fetches from nobody any more, and creates nothing: the next start does."""
        self._openings.close()
        if self._replication is not None:
            self._replication.close()
        self._dirs.close()

    # ---- log dirs

    def dir_failed(self, log_dir: "LogDir") -> int:
        """Fails all that waits for a log in this dir, and fetches nothing into it any more. Returns how many replicas
        are in it."""
        failed, error = self._logs.in_dir(log_dir), log_dir.offline_error()
        for name in failed:
            topic, described = self._image.topic(name.topic), self._image.partition(*name)
            if topic is not None and described is not None:
                self._dirs.tell(name, topic, described)
            self._stop_following(name, error)
            if (leader := self._leaders.get(name)) is not None:
                leader.fail(error)
        self._fail_closed()
        return len(failed)

    # ---- changes

    def log_config(self, topic: str) -> LogConfig:
        return self._log_defaults.with_stored(self._image.config(ResourceType.TOPIC, topic))

    def adopt(self, image: MetadataImage) -> None:
        """Compares, at start, the logs found on the disk with the image, which was not there when they were opened."""
        self._image = self._cluster.image = image
        for name in list(self._logs.partitions()):
            if name.topic != CLUSTER_METADATA_TOPIC and (reason := self._why_stray(name)) is not None:
                self._logs.move_aside(name, reason)
        opened = dict.fromkeys(name.topic for name in self._logs.partitions() if self._logs.opened(name) is not None)
        self._reconfigure(topic for name in opened if (topic := self._image.topic(name)) is not None)
        followed = []
        for topic in self._image.topics.values():
            for index, described in enumerate(topic.partitions):
                if self._is_here(described):
                    name = TopicPartition(topic.name, index)
                    self._dirs.tell(name, topic, described)
                    if self._is_followed(described):
                        followed.append(name)
        self._openings.open_later(followed, are_new=False)

    def _why_stray(self, name: TopicPartition) -> str | None:
        """Returns why nobody wants a log. One that is not open yet is compared with its topic's id when it is."""
        topic, described = self._image.topic(name.topic), self._image.partition(*name)
        if topic is None or described is None:
            return "the cluster knows no such partition"
        if not self._is_here(described):
            return "other brokers have this partition now"
        log = self._logs.opened(name)
        if log is not None and log.topic_id not in (None, topic.topic_id):
            return "it belongs to an earlier topic of that name"
        return None

    def apply(self, image: MetadataImage, changes: ImageChanges) -> None:
        self._image = self._cluster.image = image
        self._openings.begin_change()
        for topic in changes.deleted_topics:  # first: a topic of the same name may come after it
            self._delete(topic)
        for topic in changes.created_topics:
            self._create(topic, range(len(topic.partitions)))
            self._tell_created(topic)
        for change in changes.changed_topics:
            self._change(change)
        self._apply_configs(changes)
        if changes.brokers:
            for leader in list(self._leaders.values()):
                leader.on_brokers_changed()
        self._fail_closed()

    def _fail_closed(self) -> None:
        closed, self._closed = self._closed, []
        for partition, why in closed:
            partition.fail(why)

    def _apply_configs(self, changes: ImageChanges) -> None:
        created = {topic.name for topic in changes.created_topics}
        for resource in changes.configs:
            if resource.type == ResourceType.TOPIC and (configured := self._image.topic(resource.name)) is not None:
                self._reconfigure([configured])
                if configured.name not in created:
                    self._tell_configs(configured.name)

    def reconfigure(self, log_defaults: LogConfig) -> None:
        """Takes over new defaults of the broker, which may concern every open log."""
        self._log_defaults = log_defaults
        names = {topic for topic, _ in (*self._leaders, *self._followers)}
        self._reconfigure(topic for name in names if (topic := self._image.topic(name)) is not None)

    def _reconfigure(self, topics: Iterable[TopicImage]) -> None:
        for topic in topics:
            config = self.log_config(topic.name)
            for index in range(len(topic.partitions)):
                if (log := self._logs.opened(TopicPartition(topic.name, index))) is not None:
                    log.configure(config)

    def _create(self, topic: TopicImage, indexes: Iterable[int]) -> None:
        here = [TopicPartition(topic.name, i) for i in indexes if self._is_here(topic.partitions[i])]
        self._openings.create(here)

    def _open(self, name: TopicPartition, is_new: bool) -> None:
        """Opens or creates its log, unless the partition was deleted meanwhile, or moved away, and begins to fetch what
        another broker leads. A failure is reported, and the next request for the partition tries again."""
        topic, described = self._image.topic(name.topic), self._image.partition(*name)
        if topic is not None and described is not None and self._is_here(described):
            try:
                self._dirs.log(name, topic, described, self.log_config(name.topic), is_new=is_new)
            except KafkaStorageError as error:
                return self._report.warning(f"{name} could not be created: {error.message}", topic_partition=str(name))
            self._follow_leader(name)

    def _is_here(self, partition: PartitionImage) -> bool:
        return self._node_id in partition.replicas

    def _change(self, change: TopicChange) -> None:
        before, after = change
        assert before is not None, "created, not changed"
        assert after is not None, "deleted, not changed"
        if len(after.partitions) != len(before.partitions):
            self._create(after, range(len(before.partitions), len(after.partitions)))
            self._tell_grown(before, after)
        for index in change.changed_partitions():
            name, described = TopicPartition(after.name, index), after.partitions[index]
            if index >= len(before.partitions):
                continue  # it was created above
            was_here = self._is_here(before.partitions[index])
            if before.partitions[index].replicas == (self._node_id,) and len(described.replicas) > 1:
                self._dirs.note_committed(name)
            self._take_role(name, described)
            if was_here and not self._is_here(described):
                self._logs.delete(name)
            elif self._is_here(described) and not was_here:
                self._create(after, (index,))
            elif was_here:
                self._dirs.tell(name, after, described)

    def _take_role(self, name: TopicPartition, described: PartitionImage) -> None:
        """Closes a partition that changes its role. As a follower it is opened at once, as a leader when it is next
        asked for."""
        leads = described.leader == self._node_id
        if (leader := self._leaders.get(name)) is not None:
            if not leads:
                self._close(name, NotLeaderOrFollower(f"{name} is led by broker {described.leader}"))
            else:
                leader.adopt(described)
        if leads or not self._is_here(described):
            self._stop_following(name, NotLeaderOrFollower(f"{name} is followed here no more"))
        elif name in self._logs:
            self._follow_leader(name)

    def _delete(self, topic: TopicImage) -> None:
        for index in range(len(topic.partitions)):
            name = TopicPartition(topic.name, index)
            self._close(name, UnknownTopicOrPartition(f"{topic.name} was deleted"))
            self._stop_following(name, UnknownTopicOrPartition(f"{topic.name} was deleted"))
            self._logs.delete(name)
        self._report.info(f"topic {topic.name} deleted", topic=topic.name)

    def _stop_following(self, name: TopicPartition, why: KafkaError) -> None:
        if (partition := self._followers.pop(name, None)) is not None:
            self._closed.append((partition, why))
            if self._replication is not None:
                self._replication.stop(name)

    def _close(self, name: TopicPartition, why: KafkaError) -> None:
        if (partition := self._leaders.pop(name, None)) is not None:
            partition.detach()
            self._closed.append((partition, why))

    def _tell_created(self, topic: TopicImage) -> None:
        count = len(topic.partitions)
        many = "1 partition" if count == 1 else f"{count} partitions"
        self._report.info(f"topic {topic.name} created ({many})", topic=topic.name, partitions=count)

    def _tell_grown(self, before: TopicImage, after: TopicImage) -> None:
        count = len(after.partitions)
        text = f"topic {after.name} has {count} partitions now, {len(before.partitions)} before"
        self._report.info(text, topic=after.name, partitions=count)

    def _tell_configs(self, topic: str) -> None:
        configs = dict(self._image.config(ResourceType.TOPIC, topic))
        now = ", ".join(f"{key}={value}" for key, value in configs.items()) or "all defaults"
        self._report.info(f"topic {topic} has a new configuration: {now}", topic=topic, configs=configs)

    def wake_fetchers(self) -> None:
        """Answers every waiting fetch with what there is: the broker is about to stop."""
        for partition in list(self._opened()):
            partition.wake_fetchers()
