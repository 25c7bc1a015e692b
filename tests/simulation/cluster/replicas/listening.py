"""How a watcher hears of logs and partitions, which tell nobody.

While a scenario runs, their methods are replaced by ones that call the real ones and then the watcher.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from barnabas.broker.handlers.replica_fetch import _ReplicaFetch
from barnabas.broker.replica_sessions import SessionPartition
from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import Partition
from barnabas.protocol.types import TopicPartition
from barnabas.storage.append_info import AppendInfo
from barnabas.storage.log import Log
from barnabas.storage.log_manager import LogManager
from barnabas.storage.segments.segment import Segment
from barnabas.storage.transactions.log_transactions import LogTransactions
from tests.simulation.cluster.replicas.history import only_the_leader_is_asked
from tests.simulation.cluster.replicas.watcher import ReplicaWatcher

Patches = Iterator[AbstractContextManager[Any]]


@contextmanager
def listening(watcher: ReplicaWatcher) -> Iterator[None]:
    with ExitStack() as stack:
        for each in (*_to_logs(watcher), *_to_partitions(watcher)):
            stack.enter_context(each)
        yield


def _then(owner: type, name: str, tell: Callable[..., None]) -> AbstractContextManager[Any]:
    real = getattr(owner, name)

    def called(self: Any, *args: Any, **options: Any) -> Any:
        result = real(self, *args, **options)
        tell(self, result)
        return result

    return patch.object(owner, name, called)


def _to_logs(watcher: ReplicaWatcher) -> Patches:
    def appended(log: Log, info: AppendInfo) -> None:
        if not info.duplicate:
            watcher.appended(log)

    def advanced(log: Log, has_moved: bool) -> None:
        if has_moved:
            watcher.committed(log)

    rename = LogManager._rename

    def renamed(logs: LogManager, partition: TopicPartition, suffix: str) -> str:
        target = rename(logs, partition, suffix)
        watcher.removed(logs._clock, partition)
        return target

    yield _then(Log, "append", appended)
    yield _then(Log, "append_as_coordinator", appended)
    yield _then(LogTransactions, "append_marker", lambda transactions, info: appended(transactions._log, info))
    yield _then(Log, "append_as_follower", lambda log, _: watcher.changed(log))
    yield _then(Log, "truncate_to", lambda log, _: watcher.truncated(log))
    yield _then(Log, "truncate_fully_and_start_at", lambda log, _: watcher.truncated(log))
    yield _then(Log, "on_flushed", lambda log, _: watcher.changed(log))
    yield _then(Log, "advance_high_watermark", advanced)
    yield _then(Segment, "cut", lambda segment, _: segment.file().closed_for_writing())
    yield patch.object(LogManager, "_rename", renamed)


def _to_partitions(watcher: ReplicaWatcher) -> Patches:
    def served(found: Callable[..., LeaderPartition | None]) -> Callable[..., LeaderPartition | None]:
        def partition_of(fetch: _ReplicaFetch, each: SessionPartition) -> LeaderPartition | None:
            partition = found(fetch, each)
            if partition is not None:
                only_the_leader_is_asked(partition, each.asked.current_leader_epoch)
            return partition

        return partition_of

    yield _then(Partition, "__init__", lambda partition, _: watcher.opened(partition))
    yield _then(LeaderPartition, "__init__", lambda partition, _: watcher.elected(partition))
    yield _then(LeaderPartition, "_propose", lambda partition, _: watcher.proposed(partition))
    yield patch.object(_ReplicaFetch, "_partition", served(_ReplicaFetch._partition))
    yield patch.object(_ReplicaFetch, "_unsurprising", served(_ReplicaFetch._unsurprising))
