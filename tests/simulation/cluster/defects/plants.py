"""What is changed in the real code when a defect is planted: those that take more than a line."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.broker.cluster.liveness import BrokerLinks
from barnabas.broker.coordinator.shard_runtime import ShardRuntime
from barnabas.broker.fetchers.followed_partition import FollowedPartition
from barnabas.broker.handlers.replica_fetch import _ReplicaFetch
from barnabas.broker.replica_sessions import SessionPartition
from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.protocol.batch_header import BatchHeader, iter_batches
from barnabas.replication.controller.controller import Controller
from barnabas.replication.controller.partitions import alter_partition_control
from barnabas.replication.controller.quorum_controller import QuorumController
from barnabas.replication.isr import InSyncReplicas, IsrChange
from barnabas.storage import producer_snapshot
from barnabas.storage.following import truncation
from barnabas.storage.log import Log
from barnabas.storage.metadata_files import CLEAN_SHUTDOWN_FILE
from barnabas.storage.producer_state import ProducerEntry
from barnabas.storage.segments.segment import Segment
from tests.simulation.files import SimulatedFiles

Plant = AbstractContextManager[Any]


def replaced(owner: Any, name: str, by: Any) -> Callable[[], Plant]:
    return lambda: patch.object(owner, name, by)


@contextmanager
def what_is_not_on_the_disk_is_acknowledged() -> Iterator[None]:
    with (
        patch.object(FollowerPartition, "fetch_offset", property(lambda self: self.log.log_end_offset)),
        patch.object(FollowedPartition, "is_durable", property(lambda _: True)),
    ):
        yield


@contextmanager
def clean_marks_stay() -> Iterator[None]:
    remove = SimulatedFiles.remove

    def leave(files: SimulatedFiles, path: str) -> None:
        if not path.endswith(CLEAN_SHUTDOWN_FILE):
            remove(files, path)

    with patch.object(SimulatedFiles, "remove", leave):
        yield


def take_as_they_are(data: memoryview) -> list[tuple[memoryview, BatchHeader]]:
    return [(data[position : position + header.size_bytes], header) for position, header in iter_batches(data)]


@contextmanager
def offsets_of_a_log_that_parts_are_taken() -> Iterator[None]:
    truncate = FollowedPartition.truncate

    def cut(self: FollowedPartition, data: Any) -> int:
        self.partition.follow(data.high_watermark, self.partition.log.log_start_offset)
        return truncate(self, data)

    with patch.object(FollowedPartition, "truncate", cut):
        yield


def cut_at_the_high_watermark(self: FollowedPartition, _data: Any) -> int:
    offset = self.partition.log.high_watermark
    self.partition.truncate_to(offset)
    return offset


def high_watermark_of_a_majority(self: InSyncReplicas, _min: int, _end: int, _now_ms: int) -> int:
    ends = sorted([self.own_offset, *(follower.log_end_offset for follower in self.followers.values())], reverse=True)
    return ends[len(ends) // 2]


def proposed_isr(self: InSyncReplicas) -> tuple[int, ...]:
    proposed: IsrChange | None = self.proposed
    return self.isr if proposed is None else proposed.isr


def acknowledge_all_that_waits(self: LeaderPartition, _error: Any) -> None:
    self._acknowledging.reached(1 << 62)
    self.wake_fetchers()


def answer_at_once(_shard: ShardRuntime[Any], finish: Callable[[None], None]) -> None:
    finish(None)


# ---- the controller


@contextmanager
def what_is_not_committed_is_not_seen() -> Iterator[None]:
    submit, decide = QuorumController.submit, Controller.decide

    def submitted(self: QuorumController, request: Any, context: Any) -> Any:
        def decided(controller: Controller, request: Any, context: Any, _: Any, *, now_ms: int) -> Any:
            return decide(controller, request, context, self.loader.image, now_ms=now_ms)

        with patch.object(Controller, "decide", decided):
            return submit(self, request, context)

    with patch.object(QuorumController, "submit", submitted):
        yield


@contextmanager
def nobody_asks_who_joins() -> Iterator[None]:
    with (
        patch.object(InSyncReplicas, "_is_eligible", lambda *_: True),
        patch.object(alter_partition_control, "_are_eligible", lambda *_: True),
    ):
        yield


@contextmanager
def links_are_lives() -> Iterator[None]:
    dial = BrokerLinks._dial

    def fence(self: BrokerLinks, broker: Any, crowd: Any) -> None:
        if crowd is None:
            dial(self, broker, crowd)
        else:
            self._fences(broker, "its connection was closed")

    with patch.object(BrokerLinks, "_dial", fence):
        yield


# ---- leaders


@contextmanager
def who_reaches_the_high_watermark_joins() -> Iterator[None]:
    propose = InSyncReplicas.propose_expansion

    def proposed(self: InSyncReplicas, replica: int, high_watermark: int) -> IsrChange | None:
        start, self.epoch_start_offset = self.epoch_start_offset, 0
        try:
            return propose(self, replica, high_watermark)
        finally:
            self.epoch_start_offset = start

    with patch.object(InSyncReplicas, "propose_expansion", proposed):
        yield


@contextmanager
def whoever_is_left_acknowledges() -> Iterator[None]:
    update = LeaderPartition._update_high_watermark

    def updated(self: LeaderPartition) -> None:
        update(self)
        if not self.is_alone:
            now_ms = self._clock.monotonic_ms()
            self._acknowledging.reached(self.in_sync.high_watermark(0, self.log.log_end_offset, now_ms))

    with patch.object(LeaderPartition, "_update_high_watermark", updated):
        yield


@contextmanager
def sessions_keep_their_leader() -> Iterator[None]:
    partition_of = _ReplicaFetch._partition

    def kept(self: _ReplicaFetch, each: SessionPartition) -> LeaderPartition:
        if each.partition is None:
            return partition_of(self, each)
        each.partition.check_leader_epoch(each.asked.current_leader_epoch)
        return each.partition

    with patch.object(_ReplicaFetch, "_partition", kept):
        yield


# ---- logs


_rows_of = producer_snapshot._rows_of


def row_of_the_last_batch(producer_id: int, entry: ProducerEntry) -> list[bytes]:
    return [*_rows_of(producer_id, entry)][-1:]


@contextmanager
def producers_are_not_cut() -> Iterator[None]:
    truncate = Log.truncate_to

    def truncated(self: Log, offset: int) -> None:
        producers = self.producers
        truncate(self, offset)
        self.producers = producers

    with patch.object(Log, "truncate_to", truncated):
        yield


@contextmanager
def a_cut_segment_goes_on() -> Iterator[None]:
    begin = truncation._begin_segment

    def begun(log: Log, removed: list[Segment]) -> None:
        kept = len(log.segments) - len(removed)
        if not kept:
            return begin(log, removed)
        log.flusher.truncated(removed)
        log.segments.truncate(kept - 1, log.segments[kept - 1])
        log.take_snapshot()
        log.flusher.flush_now()

    with patch.object(truncation, "_begin_segment", begun):
        yield
