"""The group coordinator of one broker: a shard for each partition of `__consumer_offsets` that it leads.

- A group belongs to the partition that its id hashes to, and is coordinated by that partition's leader.
- Shards are loaded in the background when the broker starts, because the sessions of members that never come back must
  end as well, and at once when somebody asks for one. Until a shard is loaded its groups answer
  COORDINATOR_LOAD_IN_PROGRESS.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

from barnabas.broker.config import BrokerConfig
from barnabas.broker.groups.context import Random
from barnabas.broker.groups.result import Result
from barnabas.broker.groups.shard import GroupShard
from barnabas.broker.groups.shard_runner import Decide, ShardRunner
from barnabas.broker.promise import Promise, failed
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.protocol.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator
from barnabas.replication.image import GROUP_METADATA_TOPIC, ImageChanges, MetadataImage
from barnabas.storage.seams import Clock, Report, Timer

R = TypeVar("R")

_HASHES_MAX = 10_000
_HASHED_ID_MAX = 255


class GroupCoordinator:
    def __init__(
        self,
        node_id: int,
        *,
        replicas: ReplicaManager,
        clock: Clock,
        random: Random,
        report: Report,
        config: Callable[[], BrokerConfig],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._node_id = node_id
        self._replicas = replicas
        self._clock = clock
        self._random = random
        self._report = report
        self._config = config
        self._image = image
        self._runners: dict[int, ShardRunner] = {}
        self._hashes: dict[str, int] = {}
        self._unloaded: deque[int] = deque()
        self._expiry: Timer | None = None

    # ---- requests

    def partition_of(self, group_id: str) -> int:
        """The partition that the group belongs to. The topic must exist."""
        topic = self._image().topic(GROUP_METADATA_TOPIC)
        if topic is None:
            raise NotCoordinator("there is no group yet, and no topic to store one: look for the coordinator first")
        number = self._hashes.get(group_id)
        if number is None:
            number = self._remember_hash(group_id)
        return number % len(topic.partitions)

    def _remember_hash(self, group_id: str) -> int:
        """To compute it again for every heartbeat would take a tenth of the heartbeat's time."""
        number = java_hash(group_id)
        if len(self._hashes) >= _HASHES_MAX:
            self._hashes.clear()
        if len(group_id) <= _HASHED_ID_MAX:
            self._hashes[group_id] = number
        return number

    def run(self, group_id: str, decide: Decide[R]) -> Promise[R]:
        """The answer to a decision on that group, once it is true; fails with what the client must be told."""
        try:
            return self._runner(self.partition_of(group_id)).run(decide)
        except KafkaError as error:
            return failed(error)

    def run_on_each(self, decide: Decide[R]) -> list[Promise[R]]:
        """On every shard that this broker has; fails where one is still being loaded."""
        return [self._runner(index).run(decide) for index in self._led()]

    def _runner(self, index: int) -> ShardRunner:
        runner = self._runners.get(index)
        if runner is None:
            runner = self._add(index)
        if not runner.is_loaded:
            runner.load_some()
            if not runner.is_loaded:
                self._load_soon(index)
                raise CoordinatorLoadInProgress(f"{GROUP_METADATA_TOPIC}-{index} is being loaded")
        return runner

    def _add(self, index: int) -> ShardRunner:
        try:
            partition = self._replicas.partition(GROUP_METADATA_TOPIC, index)
        except KafkaError as error:
            raise NotCoordinator(error.message) from error
        runner = self._runners[index] = ShardRunner(
            partition,
            clock=self._clock,
            random=self._random,
            report=self._report,
            config=self._config,
            image=self._image,
        )
        if self._expiry is None:
            self._expire_later()
        return runner

    # ---- loading

    def start(self) -> None:
        """Begins to load what this broker leads."""
        for index in self._led():
            self._load_soon(index)

    def _led(self) -> Iterator[int]:
        topic = self._image().topic(GROUP_METADATA_TOPIC)
        for index, partition in enumerate(topic.partitions if topic is not None else ()):
            if partition.leader == self._node_id:
                yield index

    def _load_soon(self, index: int) -> None:
        if not self._unloaded:
            self._clock.call_soon(self._load_next)
        if index not in self._unloaded:
            self._unloaded.append(index)

    def _load_next(self) -> None:
        if not self._unloaded:
            return
        index = self._unloaded.popleft()
        try:
            self._runner(index)  # comes back to the queue by itself if that was not all
        except KafkaError:
            pass  # whoever asks for a group is told
        if self._unloaded:
            self._clock.call_soon(self._load_next)

    def apply(self, changes: ImageChanges) -> None:
        """A committed image: shards come and go with their partitions, offsets go with their topics."""
        deleted = [topic.name for topic in changes.deleted_topics]
        led = set(self._led())
        if GROUP_METADATA_TOPIC in deleted:
            led = set()  # one of the same name that was created at once is another
        for index in [index for index in self._runners if index not in led]:
            self._runners.pop(index).unload()
        for change in changes.changed_topics:
            if change.after is not None and change.after.name == GROUP_METADATA_TOPIC:
                self.start()
        if deleted:
            for runner in self._runners.values():
                if runner.is_loaded:
                    runner.run(lambda shard: shard.on_topics_deleted(deleted))

    def stop(self) -> None:
        """Nobody is left waiting for others to join."""
        self._unloaded.clear()
        if self._expiry is not None:
            self._expiry.cancel()
        while self._runners:
            self._runners.popitem()[1].unload()

    # ---- expiry

    def _expire_later(self) -> None:
        self._expiry = self._clock.call_later(self._config().offsets_retention_check_interval_ms, self._expire)

    def _expire(self) -> None:
        for runner in self._runners.values():
            if runner.is_loaded:
                runner.run(_expired)
        self._expire_later()


def _expired(shard: GroupShard) -> Result[None]:
    return shard.expire()


def java_hash(text: str) -> int:
    """The absolute value of a Java string's hash code, by which Kafka finds the partition of a group."""
    number = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        number = (31 * number + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    if number & 0x8000_0000:  # the absolute value of a negative one; the smallest has none and counts as 0
        number = (-number) & 0x7FFF_FFFF
    return number
