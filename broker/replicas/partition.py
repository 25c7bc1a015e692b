"""One partition of this broker, in the role that the metadata give it.

- *leader*: appends what clients and coordinators write, and moves the high watermark. Clients read below it, other
  replicas to the log end.
- *follower*: appends and cuts as the leader says, and takes its high watermark. Clients are sent to the leader.
- *offline*: the log dir has failed. Everything is refused with KAFKA_STORAGE_ERROR.

Three words that are not the same:
- *durable*: the topic's flush policy asks for no more. Under `flush.messages=N` the append that makes N unflushed
  records waits for their flush, as in Kafka.
- *committed*: below the high watermark, which follows what every in-sync replica has. The leader's own share is the end
  of its log or, under `flush.messages=1`, what is on the disk: nobody reads what a power cut can take.
- *acknowledged*: acks=1 is answered when the append is durable, acks=-1 when it is durable and committed.

What waits for the high watermark is woken when it moves: appends with acks=-1, and fetches. A fetch of committed
transactions waits for the last stable offset, which moves with it.
"""

from collections import deque
from enum import Enum
from typing import Protocol

from barnabas.base.files import FileSlice
from barnabas.base.promise import Promise
from barnabas.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
)
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.isr import InSyncReplicas
from barnabas.storage.log import AppendInfo, Log

NO_EPOCH = -1
ACKS_LEADER = 1
ACKS_ALL = -1


class Role(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"
    OFFLINE = "offline"


class Isolation(Enum):
    """How far a reader may read."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE_OFFSET = "last stable offset"


class FetchWaiter(Protocol):
    def on_bytes(self, size: int) -> None:
        """Notes that more can be read or, with size 0, that something else changed which the fetch must answer with."""
        ...


def wrong_epoch(current_leader_epoch: int, known: int) -> KafkaError:
    if current_leader_epoch < known:
        return FencedLeaderEpoch(f"epoch {current_leader_epoch} is older than {known}")
    return UnknownLeaderEpoch(f"epoch {current_leader_epoch} is newer than {known}")


class Partition:
    """What every role has in common."""

    __slots__ = ("leader_epoch", "log", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Raises unless the epochs agree: with an older one a client must refresh its metadata, with a newer wait."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            raise wrong_epoch(current_leader_epoch, self.leader_epoch)

    # ---- read

    def end_offset(self, isolation: Isolation) -> int:
        """Returns the offset at which the reading ends."""
        log = self.log
        if isolation is Isolation.HIGH_WATERMARK:
            return log.high_watermark
        return log.last_stable_offset if isolation is Isolation.LAST_STABLE_OFFSET else log.log_end_offset

    def read(self, offset: int, max_bytes: int, isolation: Isolation, *, at_least_one: bool) -> FileSlice | None:
        log = self.log
        max_offset = log.high_watermark if isolation is Isolation.HIGH_WATERMARK else self.end_offset(isolation)
        return log.read(offset, max_bytes, max_offset=max_offset, at_least_one=at_least_one)

    # ---- epochs

    def epoch_of_offset(self, offset: int) -> int:
        """Returns the epoch of an offset. The next one is written in this leader's epoch, even if none was so far."""
        return self.leader_epoch if offset >= self.log.log_end_offset else self.log.epoch_of_offset(offset)


class LeaderPartition(Partition):
    __slots__ = (
        "_acknowledging", "_epoch_start_offset", "_flushing", "_in_sync", "_node_id", "_stable_offset", "_uncommitted",
        "_waiters",
    )  # fmt: skip

    def __init__(
        self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, leader_epoch: int, node_id: int
    ) -> None:
        super().__init__(topic_partition, topic_id, log, leader_epoch)
        self._node_id = node_id
        self._epoch_start_offset = log.log_end_offset
        self._in_sync = InSyncReplicas([node_id])
        self._acknowledging: deque[tuple[int, Promise[None]]] = deque()
        """Appends that wait for the high watermark, by their last offsets."""
        self._flushing: deque[tuple[int, Promise[None]]] = deque()
        """Appends that wait for their flush, by their last offsets."""
        self._uncommitted: deque[tuple[int, int]] = deque()
        """The end and size of each append that is not committed; only those that a waiting fetch may have to count."""
        self._waiters: dict[FetchWaiter, Isolation] = {}
        self._stable_offset = 0
        """The last stable offset that waiting fetches know."""
        if log.config.flush_messages == 1 and log.recovery_point < log.log_end_offset:
            log.flusher.flush_now()  # what a crash left in the page cache is not to be read before it is on the disk
        log.listener = self
        log.advance_high_watermark(self._in_sync.advance(node_id, log.log_end_offset))

    # ---- epochs

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Returns the largest epoch not above this one and where it ended; (-1, -1) if that is not known."""
        log = self.log
        if leader_epoch == self.leader_epoch:
            return leader_epoch, log.log_end_offset
        if log.latest_epoch < leader_epoch < self.leader_epoch:  # nothing was written since it ended
            return log.latest_epoch if log.latest_epoch >= 0 else leader_epoch, log.log_end_offset
        if log.latest_epoch < 0 and leader_epoch < NO_EPOCH:  # nothing was ever written, and nothing is that old
            return leader_epoch, log.log_end_offset
        return log.end_offset_for_epoch(leader_epoch)

    def begin_epoch(self, leader_epoch: int) -> None:
        """Goes on leading in a later epoch: another replica was added, or left."""
        self.leader_epoch = leader_epoch
        self._epoch_start_offset = self.log.log_end_offset

    def check_offsets_available(self) -> None:
        """Raises OffsetNotAvailable while the high watermark lies before this leader's epoch: its predecessor may have
        shown a later one, which must not seem to go back (KIP-207)."""
        if self.log.high_watermark < self._epoch_start_offset:
            raise OffsetNotAvailable(f"what is committed of {self.topic_partition} is not known so far")

    # ---- append

    def append(self, batch: memoryview, now_ms: int) -> AppendInfo:
        """Writes a client's batch; `is_acknowledged` says whether it may be answered already."""
        info = self.log.append(batch, self.leader_epoch, now_ms)
        if not info.duplicate:
            self._appended(batch)
        return info

    def append_as_coordinator(self, batches: memoryview, now_ms: int) -> AppendInfo:
        """Writes batches of the broker's own; otherwise like `append`."""
        info = self.log.append_as_coordinator(batches, self.leader_epoch, now_ms)
        self._appended(batches)
        return info

    def _appended(self, data: memoryview) -> None:
        log = self.log
        end_offset = log.log_end_offset
        if log.config.flush_messages == 1:
            self._uncommitted.append((end_offset, len(data)))
            return
        high_watermark = self._in_sync.advance(self._node_id, end_offset)
        if self._waiters or self._uncommitted or high_watermark != end_offset:
            self._uncommitted.append((end_offset, len(data)))
        self._commit(high_watermark)

    def is_acknowledged(self, info: AppendInfo, acks: int) -> bool:
        """Returns whether the latest append, or a batch that was stored before, may be answered."""
        log, last_offset = self.log, info.last_offset
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages and last_offset >= log.recovery_point:
            return False
        return acks == ACKS_LEADER or last_offset < log.high_watermark

    def when_acknowledged(self, info: AppendInfo, acks: int) -> Promise[None]:
        """Returns a promise that is kept when an append is acknowledged. It fails with the error for the client."""
        promise: Promise[None] = Promise()
        log, last_offset = self.log, info.last_offset
        if info.duplicate and last_offset >= log.recovery_point:
            log.flusher.flush_soon()  # nobody else may have asked for it since a crash
        if acks == ACKS_LEADER or (last_offset < log.high_watermark and last_offset >= log.recovery_point):
            self._flushing.append((last_offset, promise))
        else:
            self._acknowledging.append((last_offset, promise))
        return promise

    def when_committed(self, offset: int) -> Promise[None]:
        """Returns a promise that is kept when the high watermark reaches `offset`, which lies above it."""
        promise: Promise[None] = Promise()
        self._acknowledging.append((offset - 1, promise))
        return promise

    # ---- what the log reports

    def on_flushed(self) -> None:
        log = self.log
        recovery_point = log.recovery_point
        own_offset = recovery_point if log.config.flush_messages == 1 else log.log_end_offset
        self._commit(self._in_sync.advance(self._node_id, own_offset))
        flushing = self._flushing
        while flushing and flushing[0][0] < recovery_point:
            flushing.popleft()[1].resolve(None)

    def on_flush_failed(self, error: KafkaStorageError) -> None:
        self.fail(KafkaStorageError(f"{self.topic_partition}: flushing failed: {error}"))

    # ---- commit

    def _commit(self, high_watermark: int) -> None:
        """Wakes everything that waits for the high watermark."""
        before = self.log.high_watermark
        if not self.log.advance_high_watermark(high_watermark):
            return
        uncommitted, size = self._uncommitted, 0
        while uncommitted and uncommitted[0][0] <= high_watermark:
            size += uncommitted.popleft()[1]
        acknowledging = self._acknowledging
        while acknowledging and acknowledging[0][0] < high_watermark:
            acknowledging.popleft()[1].resolve(None)
        if self._waiters:
            self._wake(size, before)

    def _wake(self, size: int, high_watermark_before: int) -> None:
        stable_size = self._newly_stable_bytes(size, high_watermark_before)
        for waiter, isolation in list(self._waiters.items()):
            if isolation is not Isolation.LAST_STABLE_OFFSET:
                waiter.on_bytes(size)
            elif stable_size is not None:
                waiter.on_bytes(stable_size)

    def _newly_stable_bytes(self, size: int, high_watermark_before: int) -> int | None:
        """Returns how many bytes became stable: None if the last stable offset has not moved, 0 if it is not known."""
        log = self.log
        stable_offset, before = log.last_stable_offset, self._stable_offset
        if stable_offset <= before:
            return None
        self._stable_offset = stable_offset
        if before == high_watermark_before and stable_offset == log.high_watermark:
            return size  # no transaction holds anything back
        try:
            return log.unread_bytes(before, max_offset=stable_offset) or 0
        except KafkaStorageError:
            return 0  # the fetch that reads it answers with this error

    def fail(self, error: KafkaError) -> None:
        """Fails everything that waits for this log."""
        waiting = [*self._acknowledging, *self._flushing]
        self._acknowledging.clear()
        self._flushing.clear()
        for _offset, promise in waiting:
            promise.fail(error)
        self.wake_fetchers()

    def wake_fetchers(self) -> None:
        for waiter in list(self._waiters):
            waiter.on_bytes(0)

    def detach(self) -> None:
        """Hears of the log no more: the partition is led elsewhere now, or deleted, and what happens to the log from
        now on must not answer those who wait. They are to be told with `fail`."""
        if self.log.listener is self:
            self.log.listener = None

    # ---- read

    def unread_bytes(self, offset: int, isolation: Isolation) -> int | None:
        """Returns how much a reader at this offset has before it; None if waiting would bring no more in one fetch."""
        max_offset = self.end_offset(isolation)
        return 0 if offset >= max_offset else self.log.unread_bytes(offset, max_offset=max_offset)

    def wait(self, waiter: FetchWaiter, isolation: Isolation) -> None:
        """Calls the waiter for everything that becomes readable from now on."""
        if isolation is Isolation.LAST_STABLE_OFFSET:
            self._stable_offset = self.log.last_stable_offset
        self._waiters[waiter] = isolation

    def stop_waiting(self, waiter: FetchWaiter) -> None:
        self._waiters.pop(waiter, None)

    def delete_records(self, offset: int) -> int:
        """Moves the log start offset up to `offset`, or to the high watermark for -1. Returns the low watermark."""
        return self.log.delete_records(self.log.high_watermark if offset == -1 else offset)


class FollowerPartition(Partition):
    """A partition that stores what the leader sends, as it is; nothing is decided here."""

    __slots__ = ()

    def append(self, batches: memoryview, now_ms: int) -> None:
        self.log.append_as_follower(batches, now_ms)

    def follow(self, high_watermark: int, log_start_offset: int) -> None:
        """Takes the leader's offsets, as far as this log has come."""
        log = self.log
        log.advance_high_watermark(min(high_watermark, log.log_end_offset))
        if log_start_offset > log.log_end_offset:
            log.truncate_fully_and_start_at(log_start_offset)
        elif log_start_offset > log.log_start_offset:
            log.delete_records(min(log_start_offset, log.high_watermark))

    def truncate_to(self, offset: int) -> None:
        self.log.truncate_to(offset)

    @property
    def fetch_offset(self) -> int:
        """Returns where the next fetch begins: all before it is here and, under `flush.messages=1`, on the disk."""
        log = self.log
        return log.recovery_point if log.config.flush_messages == 1 else log.log_end_offset
