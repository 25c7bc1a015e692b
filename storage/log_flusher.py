"""Makes one log durable: collects what is not on the disk as it should be, and has one plan at a time put it there.

It collects closed segments that wait to be sealed (data synced, index files written), producer snapshots to be
written, the files of deleted segments to be renamed, the names of a new log.

Rules:
- A log has at most one plan at work. A flush that is asked for meanwhile joins the next one, which starts when this one
  is done: everybody who waits for the disk at the same time shares one fsync.
- A plan starts when no more requests are at hand, or a few turns of the loop later: an fsync costs as much for one
  append as for a hundred.
- The log asks for a flush when its policy wants one (`flush_soon`) and hears of every plan that is done (`on_flushed`).
"""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from barnabas.base.promise import Promise
from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.types import TopicPartition
from barnabas.storage.flush_plan import FlushPlan, SegmentSync
from barnabas.storage.leader_epochs import LEADER_EPOCH_CHECKPOINT, LeaderEpochs
from barnabas.storage.log_config import LogConfig
from barnabas.storage.metadata_files import PARTITION_METADATA
from barnabas.storage.producer_snapshot import snapshot_of
from barnabas.storage.producer_state import ProducerState
from barnabas.storage.segments.file_cache import OUT_OF_DESCRIPTORS
from barnabas.storage.segments.segment import (
    DELETED_SUFFIX,
    SNAPSHOT_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    file_name,
)
from barnabas.storage.segments.segment_list import SegmentList

if TYPE_CHECKING:
    from barnabas.storage.log_dir import LogDir
    from barnabas.storage.segments.transaction_index import AbortedTransactions

_RETRY_MS = 100
_OTHER_SUFFIXES = (TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
"""The suffixes of files that go with a segment and are not always there."""


class FlushedLog(Protocol):
    """The part of a log that the flusher reads, and the two calls by which the log hears of the outcome."""

    config: LogConfig
    is_closed: bool
    log_end_offset: int
    path: str
    recovery_point: int
    topic_partition: TopicPartition

    @property
    def aborted(self) -> "AbortedTransactions": ...
    @property
    def leader_epochs(self) -> LeaderEpochs: ...
    @property
    def log_dir(self) -> "LogDir": ...
    @property
    def segments(self) -> SegmentList: ...

    def on_flushed(self, plan: FlushPlan) -> None: ...

    def on_flush_failed(self, error: KafkaStorageError) -> None: ...


class LogFlusher:
    __slots__ = (
        "_deleted",
        "_has_durable_names",
        "_is_starting",
        "_is_wanted",
        "_log",
        "_plan",
        "_snapshots",
        "_unsealed",
        "_waiting",
    )

    def __init__(self, log: FlushedLog, *, has_durable_names: bool) -> None:
        self._log = log
        self._unsealed = [segment for segment in list(log.segments)[:-1] if not segment.is_sealed]
        self._snapshots: list[tuple[str, bytes]] = []
        self._deleted: list[tuple[str, ...]] = []
        self._has_durable_names = has_durable_names
        self._waiting: deque[tuple[int, Promise[None]]] = deque()
        self._is_starting = False
        self._is_wanted = False
        """The log's policy wants what was appended flushed; nobody waits for it here."""
        self._plan: FlushPlan | None = None

    # ---- what is to be flushed

    @property
    def has_work(self) -> bool:
        """Returns whether anything waits besides data of the active segment."""
        return bool(self._unsealed or self._deleted)

    def segment_closed(self, segment: Segment) -> None:
        segment.close_indexes()
        if segment not in self._unsealed:
            self._unsealed.append(segment)

    def segment_deleted(self, segment: Segment) -> None:
        """Notes the files to be renamed. An unsealed segment is sealed all the same: it must not come back torn."""
        directory = self._log.path
        others = (f"{directory}/{file_name(segment.base_offset, suffix)}" for suffix in _OTHER_SUFFIXES)
        self._deleted.append((*segment.paths, *others))

    def take_snapshot(self, producers: ProducerState) -> None:
        if producers.end_offset > producers.snapshot_offset:
            path = f"{self._log.path}/{file_name(producers.end_offset, SNAPSHOT_SUFFIX)}"
            self._snapshots.append((path, snapshot_of(producers)))
            producers.snapshot_offset = producers.end_offset
            producers.has_snapshot = True

    def truncated(self, removed: list[Segment]) -> None:
        """Forgets segments that were cut off the log, and every snapshot that was not written before."""
        self._unsealed = [segment for segment in self._unsealed if segment not in removed]
        self._snapshots = []

    # ---- flushing

    def flush(self) -> Promise[None]:
        """Returns a promise that everything appended so far is durable."""
        log, promise = self._log, Promise[None]()
        if log.log_end_offset <= log.recovery_point:
            promise.resolve(None)
        else:
            self._waiting.append((log.log_end_offset, promise))
            self.start_soon()
        return promise

    def flush_soon(self) -> None:
        """Begins a flush that the log's policy asks for; nobody waits for it here. The rest is `start_soon` without a
        call: it comes with every append."""
        self._is_wanted = True
        if self._plan is None and not self._is_starting:
            self._is_starting = True
            self._log.log_dir.clock.call_when_idle(self._start)

    def start_soon(self) -> None:
        if self._plan is None and not self._is_starting:
            self._is_starting = True
            self._log.log_dir.clock.call_when_idle(self._start)

    def _start(self) -> None:
        self._is_starting = False
        if self._plan is not None:
            return
        try:
            plan = self._next_plan(with_active=self._is_wanted or len(self._waiting) > 0)
        except KafkaStorageError as error:
            if self._log.log_dir.error is None and not self._log.is_closed:
                self._retry_later()  # short of descriptors, which passes
            else:
                self._fail(error)
            return
        self._is_wanted = False
        if plan is not None:
            self._plan = plan
            self._log.log_dir.workers.run(plan.run).when_done(lambda done: self._done(plan, done.error))

    def flush_now(self) -> None:
        """Makes everything durable before it returns, and blocks meanwhile. Raises KafkaStorageError."""
        self.finish()
        log = self._log
        if log.recovery_point < log.log_end_offset or self.has_work:
            plan = self._next_plan(with_active=True)
            assert plan is not None, "the active segment is part of it"
            try:
                plan.run()
            except OSError as error:
                log.leader_epochs.is_dirty = True
                raise log.log_dir.failed(error) from error
            self._carried_out(plan)

    def _next_plan(self, *, with_active: bool) -> FlushPlan | None:
        """Returns a plan, None if there is nothing to do. Raises KafkaStorageError if nothing can be done any more."""
        log = self._log
        if log.log_dir.error is not None:
            raise log.log_dir.offline_error()
        if log.is_closed:
            raise KafkaStorageError(f"the log of {log.topic_partition} is closed")
        if not (with_active or self.has_work):
            return None
        try:
            return self._plan_of(log.segments.active if with_active else None)
        except OSError as error:
            raise log.log_dir.failed(error) from error

    def _plan_of(self, active: Segment | None) -> FlushPlan:
        """Returns a plan that makes the log durable up to its end, or up to the active segment if that is left out."""
        log = self._log
        offset = log.segments.active.base_offset if active is None else log.log_end_offset
        plan = FlushPlan(log.log_dir.files, log.path, offset)
        for segment in [*self._unsealed, active] if active is not None else self._unsealed:
            if segment.synced_bytes < segment.size:
                plan.syncs.append(SegmentSync(segment, segment.file(), segment.size))
        plan.sealed = list(self._unsealed)
        plan.writes, plan.snapshots = list(self._snapshots), len(self._snapshots)
        if plan.sealed and log.aborted:
            plan.writes += log.aborted.files_of(log.path, plan.sealed)
        if plan.sealed and log.leader_epochs.is_dirty:
            plan.writes.append((f"{log.path}/{LEADER_EPOCH_CHECKPOINT}", log.leader_epochs.to_bytes()))
            log.leader_epochs.is_dirty = False
        if not self._has_durable_names:
            plan.metadata_path = f"{log.path}/{PARTITION_METADATA}"
        plan.deleted = list(self._deleted)
        return plan

    # ---- outcomes

    def _done(self, plan: FlushPlan, error: Exception | None) -> None:
        if self._plan is not plan:
            return  # the log was closed meanwhile, which took care of it
        self._plan = None
        log = self._log
        if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
            # No fsync has failed: the next plan takes all of this one again, and those who wait go on waiting.
            log.leader_epochs.is_dirty = True
            log.log_dir.failed(error)
            self._retry_later()
        elif log.is_closed:
            self._fail(KafkaStorageError(f"the log of {log.topic_partition} was closed"))
        elif error is not None:
            self._fail(log.log_dir.go_offline(error))
        else:
            self._carried_out(plan)

    def _retry_later(self) -> None:
        self._is_wanted = True
        self._log.log_dir.clock.call_later(_RETRY_MS, self.start_soon)

    def _carried_out(self, plan: FlushPlan) -> None:
        for segment, _, size in plan.syncs:
            if size > segment.synced_bytes:
                segment.synced_bytes = size
        self._has_durable_names |= plan.metadata_path is not None
        if plan.writes or plan.deleted or plan.sealed:
            self._note_files(plan)
        self._log.on_flushed(plan)
        waiting = self._waiting
        while waiting and waiting[0][0] <= plan.offset:
            waiting.popleft()[1].resolve(None)
        has_work = (self._unsealed or self._deleted) and plan.postponed is None  # a segment was closed meanwhile
        if waiting or self._is_wanted or has_work:
            self.start_soon()

    def _note_files(self, plan: FlushPlan) -> None:
        log = self._log
        if plan.postponed is None:
            for segment in plan.sealed:
                segment.seal()
            self._snapshots = self._snapshots[plan.snapshots :]
        else:
            log.leader_epochs.is_dirty = True
        gone = {paths[0] for paths in plan.deleted}
        self._deleted = self._deleted[len(plan.deleted) :]
        self._unsealed = [each for each in self._unsealed if not each.is_sealed and each.path not in gone]
        if plan.deleted:
            # The files stay under their new names for a while: readers may still need them.
            paths = [path + DELETED_SUFFIX for paths in plan.deleted for path in paths]
            log.log_dir.clock.call_later(log.config.file_delete_delay_ms, log.log_dir.remove_in_worker, paths)

    def recovery_point_to_checkpoint(self) -> int:
        """Returns the recovery point, moved into the first unsealed segment: recovery trusts index files before it."""
        log = self._log
        recovery_point = log.recovery_point
        if self._unsealed:
            return min(recovery_point, self._unsealed[0].base_offset)
        return recovery_point - 1 if recovery_point > log.segments.active.base_offset else recovery_point

    def _fail(self, error: KafkaStorageError) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._log.on_flush_failed(error)
        for _, promise in waiting:
            promise.fail(error)

    # ---- the end

    def plan_of_close(self, producers: ProducerState) -> FlushPlan | None:
        """Returns the plan of what is left to write. Nothing may be appended after it."""
        log, active = self._log, self._log.segments.active
        has_nothing_new = active.is_sealed and log.log_end_offset == log.recovery_point and not self.has_work
        if has_nothing_new or log.log_end_offset == 0:
            return None
        if not active.is_sealed:
            self.segment_closed(active)
        if producers.by_id or producers.has_snapshot:  # none at all is as good as one of nobody
            producers.end_offset = log.log_end_offset
            self.take_snapshot(producers)
        return self._next_plan(with_active=True)

    def finish(self) -> None:
        """Waits for the plan at work, or runs it: nothing of this log may run when its directory is given up."""
        plan = self._plan
        if plan is not None:
            try:
                plan.run()
            except OSError as error:
                self._done(plan, error)
            else:
                self._done(plan, None)

    def cancel(self) -> None:
        """Cancels the plan at work and fails the waiting flushes: the log is deleted."""
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.cancel()
        self._fail(KafkaStorageError("the log was deleted"))
