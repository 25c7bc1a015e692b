"""One partition that this broker leads: its log, its high watermark, and those who wait for either.

- Consumers see records below the high watermark only. It follows what every in-sync replica has. This broker's own
  share is the end of its log or, under `flush.messages=1`, what is on the disk: nobody reads what a power cut can take.
- An append is acknowledged when it is durable under the topic's policy and, for acks=all, below the high watermark.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from barnabas.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
)
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage.files import FileSlice
from barnabas.storage.log import AppendInfo, Log

NO_EPOCH = -1


class FetchWaiter(Protocol):
    def on_bytes(self, size: int) -> None:
        """More can be read; or, with size 0, something else changed that a waiting fetch must be told."""
        ...


Committed = Callable[[KafkaError | None], None]


class Partition:
    __slots__ = (
        "_committing", "_first_undecided_offset", "_uncommitted_bytes", "fetch_waiters", "high_watermark",
        "leader_epoch", "log", "topic_id", "topic_partition",
    )  # fmt: skip

    def __init__(self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        if log.config.flush_messages == 1:
            log.flush_now()  # what a crash left in the page cache is not to be read before it is on the disk
        self.high_watermark = log.log_end_offset
        self._first_undecided_offset = log.producers.first_undecided_offset
        self.fetch_waiters: dict[FetchWaiter, None] = {}
        self._committing: deque[tuple[int, Committed]] = deque()
        self._uncommitted_bytes = 0

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """A client that knows an older epoch must refresh its metadata; one that knows a newer must wait for ours."""
        if current_leader_epoch == NO_EPOCH or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"epoch {current_leader_epoch} is older than {self.leader_epoch}")
        raise UnknownLeaderEpoch(f"epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def epoch_of_offset(self, offset: int) -> int:
        """What comes next is written in this leader's epoch, even if nothing was written in it yet."""
        return self.leader_epoch if offset >= self.log.log_end_offset else self.log.epoch_of_offset(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch not above this one and where it ended; (-1, -1) if that is not known."""
        log = self.log
        if leader_epoch == self.leader_epoch:
            return leader_epoch, log.log_end_offset
        if log.latest_epoch < leader_epoch < self.leader_epoch:  # nothing was written since it ended
            return log.latest_epoch if log.latest_epoch >= 0 else leader_epoch, log.log_end_offset
        if log.latest_epoch < 0 and leader_epoch < NO_EPOCH:  # nothing was ever written, and nothing is that old
            return leader_epoch, log.log_end_offset
        return log.end_offset_for_epoch(leader_epoch)

    @property
    def last_stable_offset(self) -> int:
        """Nobody begins or ends a transaction here: one that came open with the files stays so."""
        undecided = self._first_undecided_offset
        return self.high_watermark if undecided is None else min(undecided, self.high_watermark)

    def append(self, batch: memoryview, now_ms: int) -> AppendInfo:
        """Writes a client's batch; whether the outcome may be told already is for `is_committed` to say."""
        info = self.log.append(batch, self.leader_epoch, now_ms)
        self._appended(len(batch))
        return info

    def append_own(self, batches: memoryview, now_ms: int) -> AppendInfo:
        """The same with what the broker itself has made."""
        info = self.log.append_own(batches, self.leader_epoch, now_ms)
        self._appended(len(batches))
        return info

    def _appended(self, size: int) -> None:
        log = self.log
        log_end_offset, flush_messages = log.log_end_offset, log.config.flush_messages
        self._uncommitted_bytes += size
        if flush_messages != 1:
            self._advance(log_end_offset)
        if log_end_offset - log.recovery_point >= flush_messages:
            log.flush(self._on_flushed)

    def is_committed(self, info: AppendInfo) -> bool:
        """Whether an append may be acknowledged. Under `flush.messages=N` the one that makes N unflushed records waits
        for their flush, as Kafka's does."""
        log = self.log
        unflushed = log.log_end_offset - log.recovery_point
        return info.last_offset < self.high_watermark and unflushed < log.config.flush_messages

    def when_committed(self, info: AppendInfo, then: Committed) -> None:
        """For an append that is not committed: calls `then` once it is, or once it is known that it never will be."""
        self._committing.append((info.last_offset, then))

    def _on_flushed(self, error: BaseException | None) -> None:
        if error is not None:
            return self.fail(KafkaStorageError(f"{self.topic_partition}: flushing failed: {error}"))
        self._advance(self.log.recovery_point)
        while self._committing and self._committing[0][0] < self.log.recovery_point:
            self._committing.popleft()[1](None)

    def _advance(self, high_watermark: int) -> None:
        if high_watermark <= self.high_watermark:
            return
        self.high_watermark = high_watermark
        new_bytes, self._uncommitted_bytes = self._uncommitted_bytes, 0
        if self.fetch_waiters:
            for waiter in list(self.fetch_waiters):
                waiter.on_bytes(new_bytes)

    def fail(self, error: KafkaError) -> None:
        """Nothing that waits for this log will come true any more."""
        committing, self._committing = self._committing, deque()
        for _offset, then in committing:
            then(error)
        self.wake_fetchers()

    def wake_fetchers(self) -> None:
        for waiter in list(self.fetch_waiters):
            waiter.on_bytes(0)

    def close(self) -> None:
        """The partition moves away or is deleted."""
        self.fail(NotLeaderOrFollower(f"{self.topic_partition} is not here any more"))

    def read(self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool) -> FileSlice | None:
        max_offset = self.last_stable_offset if committed_only else self.high_watermark
        return self.log.read(offset, max_bytes, max_offset=max_offset, at_least_one=at_least_one)

    def unread_bytes(self, offset: int, *, committed_only: bool) -> int | None:
        """How much a reader at this offset has before it; None if waiting would bring it no more in one fetch."""
        max_offset = self.last_stable_offset if committed_only else self.high_watermark
        return 0 if offset >= max_offset else self.log.unread_bytes(offset, max_offset=max_offset)

    def delete_records(self, offset: int) -> int:
        """Moves the log start offset up to `offset`, or to the high watermark for -1; returns the new low watermark."""
        return self.log.delete_records(self.high_watermark if offset == -1 else offset)
