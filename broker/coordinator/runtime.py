"""A coordinator of one broker: a state machine for each partition of its topic that the broker leads.

- A key belongs to the partition that its hash says, and is coordinated by that partition's leader.
- Partitions are loaded in the background when the broker starts, because timers of what is stored must run as well, and
  at once when a request asks for one. Until a partition is loaded, COORDINATOR_LOAD_IN_PROGRESS is the answer.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from barnabas.base.environment import Clock, Report
from barnabas.base.promise import Promise, failed
from barnabas.broker.coordinator.decision import TransactionalProducer
from barnabas.broker.coordinator.definition import CoordinatorDefinition, CoordinatorPartition, StateMachine
from barnabas.broker.coordinator.shard_runtime import Decide, ShardRuntime, Verify
from barnabas.protocol.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from barnabas.storage.transactions.marker import TransactionMarker

M = TypeVar("M", bound=StateMachine)
R = TypeVar("R")

_LOAD_AGAIN_MS = 1_000
_HASHES_MAX = 10_000
_HASHED_KEY_MAX = 255


class CoordinatorRuntime(Generic[M]):
    def __init__(
        self,
        definition: CoordinatorDefinition[M],
        node_id: int,
        *,
        open_partition: Callable[[int], CoordinatorPartition],
        clock: Clock,
        report: Report,
        image: Callable[[], MetadataImage],
    ) -> None:
        """Takes `open_partition`, which raises KafkaError for the index of a partition not led by this broker."""
        self._definition = definition
        self._node_id = node_id
        self._open_partition = open_partition
        self._clock = clock
        self._report = report
        self._image = image
        self._shards: dict[int, ShardRuntime[M]] = {}
        self._hashes: dict[str, int] = {}
        self._unloaded: deque[int] = deque()
        self._is_loading = False
        """Whether the next load is scheduled."""

    # ---- requests

    def partition_of(self, key: str) -> int:
        """Returns the index of the key's partition. Raises NotCoordinator if the topic does not exist so far."""
        topic = self._image().topic(self._definition.topic)
        if topic is None:
            raise NotCoordinator(f"there is no {self._definition.topic} so far: look for the coordinator first")
        number = self._hashes.get(key)
        if number is None:
            number = self._remember_hash(key)
        return number % len(topic.partitions)

    def _remember_hash(self, key: str) -> int:
        """Returns the key's hash and caches it: computing it would take a tenth of the time of each heartbeat."""
        number = self._definition.key_hash(key)
        if len(self._hashes) >= _HASHES_MAX:
            self._hashes.clear()
        if len(key) <= _HASHED_KEY_MAX:
            self._hashes[key] = number
        return number

    def run(self, key: str, decide: Decide[M, R]) -> Promise[R]:
        """Returns the answer to a decision about that key, once it may be seen. Fails with an error for the client."""
        try:
            return self.shard(self.partition_of(key)).run(decide)
        except KafkaError as error:
            return failed(error)

    def run_in_transaction(
        self, key: str, producer: TransactionalProducer, verify: Verify, decide: Decide[M, R]
    ) -> Promise[R]:
        """Returns the answer to a decision about that key whose records belong to a transaction."""
        try:
            return self.shard(self.partition_of(key)).run_in_transaction(producer, verify, decide)
        except KafkaError as error:
            return failed(error)

    def end_transaction(self, index: int, marker: TransactionMarker) -> Promise[None]:
        """Writes the marker of a transaction to a partition. The promise is kept when it is committed."""
        try:
            return self.shard(index).end_transaction(marker)
        except KafkaError as error:
            return failed(error)

    def run_on_each(self, decide: Decide[M, R]) -> list[Promise[R]]:
        """Decides in every partition that this broker leads, but for those on a disk that has failed. Raises
        CoordinatorLoadInProgress if one is not loaded."""
        answers = []
        for index in self._led():
            try:
                shard = self.shard(index)
            except NotCoordinator:
                continue
            answers.append(shard.run(decide))
        return answers

    def run_on_loaded(self, decide: Decide[M, None]) -> None:
        """Decides in every partition that is loaded. Nobody waits for the answers."""
        for shard in list(self._shards.values()):
            if shard.is_loaded:
                shard.run(decide)

    def shard(self, index: int) -> ShardRuntime[M]:
        """Returns the partition's state machine, which is loaded. Raises CoordinatorLoadInProgress, NotCoordinator."""
        shard = self._shards.get(index)
        if shard is None:
            shard = self._add(index)
        if not shard.is_loaded:
            self._load_some(index, shard)
        return shard

    def _load_some(self, index: int, shard: ShardRuntime[M]) -> None:
        """Goes on with the load. Raises CoordinatorLoadInProgress unless that was all."""
        shard.load_some()
        name = f"{self._definition.topic}-{index}"
        if shard.may_be_loaded_later:
            self._shards.pop(index).unload()
            self._clock.call_later(_LOAD_AGAIN_MS, self._load_soon, index)
            raise CoordinatorLoadInProgress(f"{name} could not be read, and is tried again")
        if not shard.is_loaded:
            self._load_soon(index)
            raise CoordinatorLoadInProgress(f"{name} is being loaded")

    def _add(self, index: int) -> ShardRuntime[M]:
        try:
            partition = self._open_partition(index)
        except KafkaError as error:
            raise NotCoordinator(error.message) from error
        shard = self._shards[index] = ShardRuntime(self._definition, partition, clock=self._clock, report=self._report)
        return shard

    # ---- partitions that come and go

    def start(self) -> None:
        """Begins to load the partitions that this broker leads."""
        for index in self._led():
            self._load_soon(index)

    def _led(self) -> Iterator[int]:
        topic = self._image().topic(self._definition.topic)
        for index, partition in enumerate(topic.partitions if topic is not None else ()):
            if partition.leader == self._node_id:
                yield index

    def _load_soon(self, index: int) -> None:
        if index not in self._unloaded:
            self._unloaded.append(index)
        if not self._is_loading:
            self._is_loading = True
            self._clock.call_soon(self._load_next)

    def _load_next(self) -> None:
        """Loads a little of one partition in each turn of the loop."""
        if self._unloaded:
            try:
                self.shard(self._unloaded.popleft())  # comes back to the queue by itself if that was not all
            except KafkaError:
                pass  # the next request for that partition is answered with it
            finally:
                self._is_loading = bool(self._unloaded)
                if self._is_loading:
                    self._clock.call_soon(self._load_next)
        else:
            self._is_loading = False

    def apply(self, changes: ImageChanges) -> None:
        """Follows a committed image: state machines come and go with their partitions."""
        led = set(self._led())
        if any(topic.name == self._definition.topic for topic in changes.deleted_topics):
            led = set()  # one of the same name that was created at once is another
        for index in [index for index in self._shards if index not in led]:
            self._shards.pop(index).unload()
        for change in changes.changed_topics:
            if change.after is not None and change.after.name == self._definition.topic:
                self.start()

    def stop(self) -> None:
        """Fails every answer that waits."""
        self._unloaded.clear()
        while self._shards:
            self._shards.popitem()[1].unload()
