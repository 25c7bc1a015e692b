"""Hears of everything that happens to the logs of a cluster, at the moment at which it happens: see `listening.py`.

What is read of a log is what has been added since the last look.
"""

from barnabas.broker.replicas.leader import LeaderPartition
from barnabas.broker.replicas.partition import Partition
from barnabas.protocol.types import TopicPartition, Uuid
from barnabas.storage.log import Log
from tests.simulation.cluster.replicas.claims import Claims
from tests.simulation.cluster.replicas.history import (
    History,
    batches_of,
    enough_are_in_sync,
    producers_are_cut_with_the_log,
)
from tests.simulation.scenarios.brokers import SimulatedBroker


class ReplicaWatcher:
    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        for oracle in claims.oracles:
            oracle.committed_end = self.committed_end
        self.histories: dict[tuple[Uuid, TopicPartition], History] = {}
        self._brokers: dict[object, int] = {}
        """By the loop of each process, which is the clock of its logs."""
        self._looked_at: dict[tuple[object, TopicPartition], int] = {}

    def watch(self, broker: SimulatedBroker) -> None:
        """Listens to the process that a broker is now."""
        self._brokers[broker.process.loop] = broker.node_id

    def disk_was_wiped(self, broker_id: int) -> None:
        for history in self.histories.values():
            history.wiped(broker_id)

    def disk_was_damaged(self, broker_id: int, partition: TopicPartition) -> None:
        for (_, name), history in self.histories.items():
            if name == partition:
                history.wiped(broker_id)

    def removed(self, clock: object, partition: TopicPartition) -> None:
        """A log was renamed, to be deleted: its topic is gone, or the replica is not here any more."""
        broker_id = self._brokers.get(clock)
        self._looked_at.pop((clock, partition), None)
        for (_, name), history in self.histories.items():
            if name == partition and broker_id is not None:
                history.deleted(broker_id)

    def _of(self, log: Log) -> tuple[int, History] | None:
        """Returns the broker whose log it is and what is known of the partition; None if nothing is claimed of it."""
        name = log.topic_partition
        oracle, broker_id = self.claims.by_partition.get(name), self._brokers.get(log.log_dir.clock)
        if oracle is None or broker_id is None or log.topic_id is None:
            return None
        key = (log.topic_id, name)
        history = self.histories.get(key)
        if history is None:
            history = self.histories[key] = History(str(name))
        history.is_void = history.is_void or bool(oracle.losses) or log.topic_id in oracle.past_ids
        return broker_id, history

    # ---- what happens

    def opened(self, partition: Partition) -> None:
        if (found := self._of(partition.log)) is not None:
            broker_id, history = found
            history.opened(broker_id, partition.log)

    def elected(self, partition: LeaderPartition) -> None:
        if (found := self._of(partition.log)) is not None and not found[1].is_void:
            broker_id, history = found
            log = partition.log
            history.elected(broker_id, partition.leader_epoch, batches_of(log, 0, log.log_end_offset))
            if log.high_watermark > history.end:
                self.committed(log)  # one that is the only replica begins with all that it finds

    def appended(self, log: Log) -> None:
        if (found := self._of(log)) is not None:
            broker_id, history = found
            history.led(broker_id, log.latest_epoch)
            history.changed(broker_id, log)

    def changed(self, log: Log) -> None:
        if (found := self._of(log)) is not None:
            broker_id, history = found
            history.changed(broker_id, log)

    def truncated(self, log: Log) -> None:
        self.changed(log)
        producers_are_cut_with_the_log(log)
        key = (log.log_dir.clock, log.topic_partition)
        self._looked_at[key] = min(self._looked_at.get(key, 0), log.log_end_offset)

    def committed(self, log: Log) -> None:
        found = self._of(log)
        if found is None or found[1].is_void:
            return
        broker_id, history = found
        history.changed(broker_id, log)
        key, high_watermark = (log.log_dir.clock, log.topic_partition), log.high_watermark
        batches = batches_of(log, self._looked_at.get(key, 0), high_watermark)
        self._looked_at[key] = high_watermark
        leader = log.listener
        if isinstance(leader, LeaderPartition):
            history.committed_by_leader(broker_id, batches)
            self._check_in_sync(leader, history)
        else:
            history.committed_by_follower(broker_id, high_watermark, batches)

    def proposed(self, leader: LeaderPartition) -> None:
        """A leader may have asked for another replica to be in sync."""
        change = leader.in_sync.proposed
        found = self._of(leader.log) if change is not None and change.is_expansion else None
        if change is None or found is None or found[1].is_void:
            return
        for replica, follower in leader.in_sync.followers.items():
            if replica in change.isr and replica not in leader.in_sync.isr:
                found[1].joins(replica, leader.leader_epoch, follower.log_end_offset)

    def committed_end(self, partition: TopicPartition, topic_id: Uuid) -> int | None:
        """Returns what leaders have committed so far; None if nothing is claimed."""
        history = self.histories.get((topic_id, partition))
        return None if history is None or history.is_void else history.end

    def _check_in_sync(self, leader: LeaderPartition, history: History) -> None:
        log, in_sync = leader.log, leader.in_sync
        holders = self.claims.holders.get(leader.topic_partition, set())
        have = [replica for replica in in_sync.maximal_isr if replica in holders]
        history.in_sync_have(log.high_watermark, have, is_durable=log.config.flush_messages == 1)
        needed = min(log.config.min_insync_replicas, len(in_sync.replicas))
        enough_are_in_sync(history.name, in_sync.isr, needed)
