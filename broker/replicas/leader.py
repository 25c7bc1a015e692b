"""A partition that this broker leads: it appends, knows its followers, and says what is committed.

Three words that are not the same:
- *durable*: the topic's flush policy asks for no more. Under `flush.messages=N` the append that makes N unflushed
  records waits for their flush, as in Kafka.
- *committed*: below the high watermark, which follows what every in-sync replica has. The leader's own share is the end
  of its log or, under `flush.messages=1`, what is on the disk: nobody reads what a power cut can take.
- *acknowledged*: acks=1 is answered when the append is durable, acks=-1 when it is durable and committed.

Followers hear of every append, before it is committed; consumers, and appends with acks=-1, of the high watermark.
"""

from typing import Protocol

from barnabas.base.files import FileSlice
from barnabas.base.promise import Promise, resolved
from barnabas.broker.replicas.append_waiters import AppendWaiter, AppendWaiters, Committed
from barnabas.broker.replicas.partition import NO_EPOCH, Isolation, Partition
from barnabas.broker.replicas.uncommitted import Uncommitted
from barnabas.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownLeaderEpoch,
)
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.replication.isr import NO_BROKER_EPOCH, ActiveBrokers, InSyncReplicas, IsrChange
from barnabas.replication.metadata.image import PartitionImage
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.log import Log
from barnabas.storage.transactions.guards import VerificationGuard
from barnabas.storage.transactions.marker import TransactionMarker

ACKS_LEADER = 1
ACKS_ALL = -1


class ReplicaWaiter(Protocol):
    """A follower's fetch that waits."""

    def on_append(self, partition: "LeaderPartition") -> None:
        """Notes that the partition has more to read, or something else to tell, such as another epoch."""
        ...


class Cluster(ActiveBrokers, Protocol):
    """What a leader knows of its cluster."""

    node_id: int
    replica_lag_time_max_ms: int

    def broker_epoch(self, broker_id: int) -> int:
        """Returns the epoch that a broker has registered with; -1 if it has not."""
        ...

    def propose(self, partition: "LeaderPartition", change: IsrChange) -> None:
        """Asks the controller for a change of the in-sync replicas."""
        ...


class LeaderPartition(Partition):
    __slots__ = (
        "_acknowledging", "_clock", "_cluster", "_deleting", "_flushing", "_replica_waiters", "_uncommitted",
        "in_sync", "is_alone", "is_detached",
    )  # fmt: skip

    def __init__(
        self, topic_partition: TopicPartition, topic_id: Uuid, log: Log, described: PartitionImage, cluster: Cluster
    ) -> None:
        super().__init__(topic_partition, topic_id, log, described.leader_epoch)
        self._cluster = cluster
        self._clock = clock = log.log_dir.clock
        self._acknowledging = AppendWaiters(clock)
        """Appends that wait for the high watermark."""
        self._flushing = AppendWaiters(clock)
        """Appends that wait for their flush."""
        self._deleting = AppendWaiters(clock)
        """Deletions that wait until other replicas have deleted as much."""
        self._uncommitted = Uncommitted()
        """Only those appends that a waiting fetch may have to count, or a follower has yet to fetch."""
        self._replica_waiters: dict[ReplicaWaiter, None] = {}
        if log.config.flush_messages == 1 and log.recovery_point < log.log_end_offset:
            log.flusher.flush_now()  # what a crash left in the page cache is not to be read before it is on the disk
        log.listener = self
        self.in_sync = InSyncReplicas(cluster.node_id, cluster, lag_max_ms=cluster.replica_lag_time_max_ms)
        self.in_sync.own_offset = log.log_end_offset
        self.is_alone = True
        """Whether there is no other replica: then all that counts for this leader is committed."""
        self.is_detached = False
        self._adopt(described)

    # ---- metadata

    def adopt(self, described: PartitionImage) -> None:
        """Goes on leading as the metadata say: in a later epoch, or with other replicas, or with others in sync."""
        is_new_epoch = described.leader_epoch != self.leader_epoch
        self.leader_epoch = described.leader_epoch
        if self.is_alone and len(described.replicas) > 1:
            self.log.note_high_watermark()  # what the only replica has committed, those that come must have
        self._adopt(described)
        if is_new_epoch:
            self.wake_fetchers()  # followers and clients ask again in the epoch that begins

    def _adopt(self, described: PartitionImage) -> None:
        log = self.log
        if self.in_sync.adopt(described, log.log_end_offset, self._clock.monotonic_ms()):
            self.is_alone = self.in_sync.is_alone
            if not self.is_alone:
                log.note_replicas()
            self._update_high_watermark()

    def on_isr_committed(self, change: IsrChange, isr: tuple[int, ...], partition_epoch: int) -> None:
        if self.in_sync.committed(change, isr, partition_epoch):
            self._update_high_watermark()

    def on_isr_refused(self, change: IsrChange) -> None:
        self.in_sync.refused(change)

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

    def check_offsets_available(self) -> None:
        """Raises OffsetNotAvailable while the high watermark lies before this leader's epoch: its predecessor may have
        shown a later one, which must not seem to go back (KIP-207)."""
        if self.log.high_watermark < self.in_sync.epoch_start_offset:
            raise OffsetNotAvailable(f"what is committed of {self.topic_partition} is not known so far")

    # ---- append

    @property
    def is_under_min_isr(self) -> bool:
        return not self.is_alone and self.in_sync.are_too_few(self.log.config.min_insync_replicas)

    def check_min_isr(self) -> None:
        """Raises NotEnoughReplicas if nothing can be committed at the moment."""
        if self.is_under_min_isr:
            in_sync, needed = len(self.in_sync.isr), self.log.config.min_insync_replicas
            raise NotEnoughReplicas(f"{self.topic_partition} has {in_sync} replica(s) in sync, {needed} are needed")

    def append(self, batch: memoryview, now_ms: int, guard: VerificationGuard | None = None) -> AppendInfo:
        """Writes a client's batch; `is_acknowledged` says whether it may be answered already. A batch that is the first
        of its transaction here needs the guard with which it was verified."""
        info = self.log.append(batch, self.leader_epoch, now_ms, guard)
        if not info.duplicate:
            self._appended(batch, info.base_offset)
        return info

    def append_as_coordinator(
        self, batches: memoryview, now_ms: int, guard: VerificationGuard | None = None
    ) -> AppendInfo:
        """Writes batches of the broker's own; otherwise like an append with acks=-1."""
        self.check_min_isr()
        info = self.log.append_as_coordinator(batches, self.leader_epoch, now_ms, guard)
        self._appended(batches, info.base_offset)
        return info

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, is_v2: bool
    ) -> VerificationGuard | None:
        """Returns the guard with which a transactional batch may be appended once the transaction's coordinator has
        agreed; None if the partition has an open transaction of that epoch: then there is nothing to ask. Raises
        InvalidProducerEpoch if the producer is an old one."""
        return self.log.transactions.begin_verification(producer_id, producer_epoch, base_sequence, is_v2=is_v2)

    def end_transaction(self, marker: TransactionMarker, now_ms: int) -> AppendInfo:
        """Writes the marker that ends a transaction here; otherwise like an append with acks=-1. Raises
        InvalidProducerEpoch for a marker of the past, TransactionCoordinatorFenced for one of a former coordinator."""
        self.log.transactions.check_marker(marker)
        self.check_min_isr()
        batch = marker.to_batch(now_ms)
        info = self.log.transactions.append_marker(marker, batch, self.leader_epoch, now_ms)
        self._appended(batch, info.base_offset)
        return info

    def _appended(self, data: memoryview, base_offset: int) -> None:
        log = self.log
        end_offset = log.log_end_offset
        is_committed = False
        if log.config.flush_messages != 1:
            self.in_sync.own_offset = end_offset
            is_committed = self.is_alone
        if is_committed and not (self._waiters or self._uncommitted.appends or self._acknowledging.waiting):
            log.advance_high_watermark(end_offset)  # nobody waits for it
            return
        self._uncommitted.add(base_offset, end_offset, data)
        if is_committed:
            self._commit(end_offset)
        elif not self.is_alone:
            self._tell_followers()
            if len(self.in_sync.isr) == 1:  # otherwise a follower decides, and has not fetched it so far
                self._update_high_watermark()

    def is_acknowledged(self, info: AppendInfo, acks: int) -> bool:
        """Returns whether the latest append, or a batch that was stored before, may be answered."""
        log, last_offset = self.log, info.last_offset
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages and last_offset >= log.recovery_point:
            return False
        return acks == ACKS_LEADER or last_offset < log.high_watermark

    def when_acknowledged(self, info: AppendInfo, acks: int, waiter: AppendWaiter, timeout_ms: int) -> None:
        """Tells the waiter when an append is acknowledged, or the error for the client."""
        log, last_offset = self.log, info.last_offset
        if info.duplicate and last_offset >= log.recovery_point:
            log.flusher.flush_soon()  # nobody else may have asked for it since a crash
        is_committed = last_offset < log.high_watermark and last_offset >= log.recovery_point
        waiting = self._flushing if acks == ACKS_LEADER or is_committed else self._acknowledging
        waiting.add(last_offset, waiter, timeout_ms)

    def when_committed(self, offset: int) -> Promise[None]:
        """Returns a promise that is kept when the high watermark reaches `offset`, which lies above it."""
        committed = Committed()
        self._acknowledging.add(offset - 1, committed)
        return committed

    def when_flushed(self) -> Promise[None]:
        """Returns a promise that is kept when all that was appended so far is on the disk, whatever the flush
        policy."""
        log = self.log
        if log.recovery_point >= log.log_end_offset:
            return resolved(None)
        flushed = Committed()
        self._flushing.add(log.log_end_offset - 1, flushed)
        log.flusher.flush_soon()
        return flushed

    # ---- what the log reports

    def on_flushed(self) -> None:
        log = self.log
        recovery_point = log.recovery_point
        self.in_sync.own_offset = recovery_point if log.config.flush_messages == 1 else log.log_end_offset
        self._update_high_watermark()
        self._flushing.reached(recovery_point)
        if self._acknowledging.waiting:
            self._acknowledge()

    def on_flush_failed(self, error: KafkaStorageError) -> None:
        self.fail(KafkaStorageError(f"{self.topic_partition}: flushing failed: {error}"))

    # ---- followers

    def follower_fetched(
        self, replica_id: int, broker_epoch: int, fetch_offset: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Notes how far a follower has come, at this monotonic time. Raises if it is none, or not in the life that the
        cluster knows."""
        log, in_sync = self.log, self.in_sync
        follower = in_sync.followers.get(replica_id)
        if follower is None:
            raise UnknownLeaderEpoch(f"broker {replica_id} is no replica of {self.topic_partition} in this epoch")
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < self._cluster.broker_epoch(replica_id):
            raise NotLeaderOrFollower(f"broker {replica_id} has registered again since broker epoch {broker_epoch}")
        log_end_offset = log.log_end_offset
        has_advanced = fetch_offset != follower.log_end_offset
        follower.fetched(fetch_offset, log_end_offset, now_ms)
        follower.broker_epoch = broker_epoch
        if follower.log_start_offset != log_start_offset:
            follower.log_start_offset = log_start_offset
            if self._deleting.waiting:
                self._deleting.reached(in_sync.low_watermark(log.log_start_offset) + 1)
        if replica_id not in in_sync.isr:
            self._propose(in_sync.propose_expansion(replica_id, log.high_watermark))
        if has_advanced:
            self._commit(in_sync.high_watermark(log.config.min_insync_replicas, log_end_offset, now_ms))

    def read_as_follower(self, offset: int, max_bytes: int, *, at_least_one: bool) -> FileSlice | bytes | None:
        """Returns whole batches from the one that holds `offset`, which is in the log; None if there are none."""
        log = self.log
        if log.log_dir.error is None and not log.is_closed:
            kept = self._uncommitted.since(offset, max_bytes)
            if kept is not None:
                return kept
        return self.read(offset, max_bytes, Isolation.LOG_END, at_least_one=at_least_one)

    def on_brokers_changed(self) -> None:
        """Waits no more for a replica whose broker is not active any more."""
        if not self.is_alone:
            self._update_high_watermark()
            if self._deleting.waiting:
                self._deleting.reached(self.in_sync.low_watermark(self.log.log_start_offset) + 1)

    def follower_was_caught_up(self, replica_id: int, fetched_ms: int) -> None:
        """Notes that a follower had all there was at its last fetch, which did not name this partition again."""
        follower = self.in_sync.followers.get(replica_id)
        if follower is not None and 0 < follower.last_fetch_ms < fetched_ms:  # not 0: it has fetched in this epoch
            follower.last_caught_up_ms = follower.last_fetch_ms = fetched_ms

    def check_lag(self) -> None:
        """Asks for the removal of in-sync replicas that have fallen behind: not behind a log that nobody can read."""
        if not self.is_alone and not self.log.is_offline:
            now_ms = self._clock.monotonic_ms()
            self._propose(self.in_sync.propose_shrinking(self.log.log_end_offset, now_ms))
            self._update_high_watermark()  # one that was about to join, and did not, holds up nobody any more

    def _propose(self, change: IsrChange | None) -> None:
        if change is not None:
            self._cluster.propose(self, change)

    def wait_for_append(self, waiter: ReplicaWaiter) -> None:
        """Calls the waiter at every append from now on."""
        self._replica_waiters[waiter] = None

    def stop_waiting_for_append(self, waiter: ReplicaWaiter) -> None:
        self._replica_waiters.pop(waiter, None)

    def _tell_followers(self) -> None:
        for waiter in self._replica_waiters:
            waiter.on_append(self)

    # ---- commit

    def _update_high_watermark(self) -> None:
        log, in_sync = self.log, self.in_sync
        if self.is_alone:
            self._commit(in_sync.own_offset)
        else:
            now_ms = self._clock.monotonic_ms()
            self._commit(in_sync.high_watermark(log.config.min_insync_replicas, log.log_end_offset, now_ms))

    def _commit(self, high_watermark: int) -> None:
        """Wakes everything that waits for the high watermark."""
        log = self.log
        before = log.high_watermark
        if high_watermark <= before:
            return
        log.advance_high_watermark(high_watermark)
        size = self._uncommitted.committed(high_watermark)
        if self._acknowledging.waiting:
            self._acknowledge()
        if self._waiters:
            self._wake(size, before)

    def _acknowledge(self) -> None:
        """Answers what is committed and does not wait for a flush: of `flush.messages` records the last one does."""
        log = self.log
        offset = log.high_watermark
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            offset = min(offset, log.recovery_point)
            log.flusher.flush_soon()
        self._acknowledging.reached(offset, self._too_few())

    def _too_few(self) -> KafkaError | None:
        """Returns what to tell those whose records are committed while too few replicas are in sync."""
        if self.is_alone or not self.in_sync.are_too_few_at_most(self.log.config.min_insync_replicas):
            return None
        return NotEnoughReplicasAfterAppend(f"{self.topic_partition}: fewer than min.insync.replicas are in sync")

    def fail(self, error: KafkaError) -> None:
        """Fails everything that waits for this log."""
        for waiting in (self._acknowledging, self._flushing, self._deleting):
            waiting.fail(error)
        self.wake_fetchers()

    def detach(self) -> None:
        """Hears of the log no more: the partition has another role now, or is deleted, and what happens to the log from
        now on must not answer those who wait. They are to be told with `fail`."""
        if self.log.listener is self:
            self.log.listener = None
        self.is_detached = True
        self.in_sync.proposed = None  # an answer that is still to come must not move the high watermark
        self.log.transactions.drop_guards()

    def wake_fetchers(self) -> None:
        super().wake_fetchers()
        self._tell_followers()

    # ---- delete

    def delete_records(self, offset: int, timeout_ms: int) -> Promise[int]:
        """Moves the log start offset up to `offset`, or to the high watermark for -1. Returns a promise of the low
        watermark: where the log starts once every living replica has deleted as much."""
        log_start_offset = self.log.delete_records(self.log.high_watermark if offset == -1 else offset)
        low_watermark = self.in_sync.low_watermark(log_start_offset)
        if low_watermark >= log_start_offset:
            return resolved(low_watermark)
        deleted = Committed()
        self._deleting.add(log_start_offset, deleted, timeout_ms)
        return deleted.map(lambda _: self.in_sync.low_watermark(self.log.log_start_offset))
