"""One partition of this broker, in the role that the metadata give it.

- *leader* (`leader.py`): appends what clients and coordinators write, and moves the high watermark. Clients read below
  it, other replicas to the log end.
- *follower* (`follower.py`): appends and cuts as the leader says, and takes its high watermark. Clients are sent to the
  leader, unless the leader sent them here.
- *offline*: the log dir has failed. Everything is refused with KAFKA_STORAGE_ERROR.

A fetch that waits is woken when the high watermark moves; one of committed transactions waits for the last stable
offset, which moves with it.
"""

from enum import Enum
from typing import Protocol

from barnabas.base.files import FileSlice
from barnabas.protocol.errors import FencedLeaderEpoch, KafkaError, KafkaStorageError, UnknownLeaderEpoch
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage.log import Log

NO_EPOCH = -1


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

    __slots__ = ("_stable_offset", "_waiters", "leader_epoch", "log", "topic_id", "topic_partition")

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self._waiters: dict[FetchWaiter, Isolation] = {}
        self._stable_offset = 0
        """The last stable offset that waiting fetches know."""

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

    def unread_bytes(self, offset: int, isolation: Isolation) -> int | None:
        """Returns how much a reader at this offset has before it; None if waiting would bring no more in one fetch."""
        max_offset = self.end_offset(isolation)
        return 0 if offset >= max_offset else self.log.unread_bytes(offset, max_offset=max_offset)

    # ---- wait

    def wait(self, waiter: FetchWaiter, isolation: Isolation) -> None:
        """Calls the waiter for everything that becomes readable from now on."""
        if isolation is Isolation.LAST_STABLE_OFFSET:
            self._stable_offset = self.log.last_stable_offset
        self._waiters[waiter] = isolation

    def stop_waiting(self, waiter: FetchWaiter) -> None:
        self._waiters.pop(waiter, None)

    def wake_fetchers(self) -> None:
        for waiter in list(self._waiters):
            waiter.on_bytes(0)

    def _wake(self, size: int, high_watermark_before: int) -> None:
        """Tells waiting fetches that the high watermark has moved past so many bytes."""
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
        return self._bytes_between(before, stable_offset)

    def _bytes_between(self, offset: int, end_offset: int) -> int:
        try:
            return self.log.unread_bytes(offset, max_offset=end_offset) or 0
        except KafkaStorageError:
            return 0  # the fetch that reads it answers with this error

    # ---- epochs

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Returns the largest epoch not above this one and where it ended; (-1, -1) if that is not known."""
        return self.log.end_offset_for_epoch(leader_epoch)

    def epoch_of_offset(self, offset: int) -> int:
        """Returns the epoch of an offset. The next one is written in this leader's epoch, even if none was so far."""
        return self.leader_epoch if offset >= self.log.log_end_offset else self.log.epoch_of_offset(offset)
