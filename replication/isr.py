"""What the leader of a partition knows of its replicas: how far each has come, who is in sync, what is committed. Pure.

Rules:
- A follower's fetch offset says what it has. It is *caught up* at a fetch that asks for the leader's log end, or for
  what was the log end at its fetch before; `replica.lag.time.max.ms` without that, and it is out of sync.
- The *maximal* in-sync replicas are those that the controller has committed, and those that the leader has asked it to
  add. The high watermark is the least log end offset among them, and among those that are caught up and about to join:
  whatever the controller has decided, each of them has what is below. One whom the leader asked to remove still counts.
- The high watermark stands still while fewer than `min.insync.replicas` are in sync.
- A follower may join when it has reached the high watermark and the start of the leader's epoch, and only in the life
  that the controller knows: unfenced, not shutting down, and with the broker epoch of its last fetch (KIP-903).
- One change at a time is asked for. Until it is answered, or the metadata tell more, there is no other.
"""

from collections.abc import Mapping
from typing import Protocol

from barnabas.protocol.named_tuple import NamedTuple
from barnabas.replication.metadata.image import PartitionImage

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1


class ActiveBrokers(Protocol):
    def active_epoch(self, broker_id: int) -> int | None:
        """Returns the epoch of a broker that may be in sync; None if it is fenced, shutting down or not there."""
        ...


class IsrChange(NamedTuple):
    """A change of the in-sync replicas that the leader asks for."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """The broker epoch of each follower's last fetch; -1 for the leader itself, and where there was none."""
    leader_epoch: int
    partition_epoch: int
    is_expansion: bool


class FollowerState:
    """How far one follower has come."""

    __slots__ = (
        "broker_epoch", "last_caught_up_ms", "last_fetch_ms", "leader_end_offset", "log_end_offset", "log_start_offset",
    )  # fmt: skip

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_caught_up_ms = 0
        self.last_fetch_ms = 0
        self.leader_end_offset = 0
        """The leader's log end at the last fetch."""

    def forget(self, caught_up_ms: int) -> None:
        """Begins anew with an epoch of the leader: nothing that was told in another counts."""
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.last_fetch_ms = self.leader_end_offset = 0
        self.broker_epoch = NO_BROKER_EPOCH
        self.last_caught_up_ms = caught_up_ms

    def fetched(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        if fetch_offset >= leader_end_offset:
            caught_up_ms = now_ms
        elif fetch_offset >= self.leader_end_offset:
            caught_up_ms = self.last_fetch_ms
        else:
            caught_up_ms = self.last_caught_up_ms
        if caught_up_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = caught_up_ms
        self.log_end_offset = fetch_offset
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_max_ms


class InSyncReplicas:
    __slots__ = (
        "_brokers", "_lag_max_ms", "_leader_epoch", "_node_id", "epoch_start_offset", "followers", "isr", "own_offset",
        "partition_epoch", "proposed", "replicas",
    )  # fmt: skip

    def __init__(self, node_id: int, brokers: ActiveBrokers, *, lag_max_ms: int) -> None:
        self._node_id = node_id
        self._brokers = brokers
        self._lag_max_ms = lag_max_ms
        self._leader_epoch = -1
        self.epoch_start_offset = 0
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The in-sync replicas that the controller has committed, as far as this leader knows."""
        self.proposed: IsrChange | None = None
        self.followers: dict[int, FollowerState] = {}
        self.own_offset = UNKNOWN_OFFSET
        """How far the leader's own log counts: to its end or, under `flush.messages=1`, to what is on the disk."""

    # ---- what the controller says

    def adopt(self, described: PartitionImage, log_end_offset: int, now_ms: int) -> bool:
        """Takes over what the metadata say. Returns whether that is news: an answer of the controller may have told
        more than the metadata that arrive after it."""
        if described.partition_epoch < self.partition_epoch:
            return False
        if described.partition_epoch > self.partition_epoch:
            self.proposed = None  # not by what an answer has told before: a change may have been asked for since
        self.partition_epoch = described.partition_epoch
        self.replicas, self.isr = described.replicas, described.isr
        others = [replica for replica in described.replicas if replica != self._node_id]
        self.followers = {replica: self.followers.get(replica) or FollowerState() for replica in others}
        if described.leader_epoch != self._leader_epoch:
            self._leader_epoch = described.leader_epoch
            self.epoch_start_offset = log_end_offset
            for replica, follower in self.followers.items():
                follower.forget(caught_up_ms=now_ms if replica in self.isr else -self._lag_max_ms - 1)
        return True

    def committed(self, change: IsrChange, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """Takes over the controller's answer to a change. Returns whether it still concerns this leader."""
        if self.proposed is not change or partition_epoch < self.partition_epoch:
            return False
        self.isr, self.partition_epoch, self.proposed = isr, partition_epoch, None
        return True

    def refused(self, change: IsrChange) -> None:
        """Goes back to the committed replicas: the controller took the change for one that cannot be."""
        if self.proposed is change:
            self.proposed = None

    # ---- what is committed

    @property
    def is_alone(self) -> bool:
        """Returns whether the leader is the only replica there is."""
        return not self.followers

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        proposed = self.proposed
        return proposed.isr if proposed is not None and proposed.is_expansion else self.isr

    def are_too_few(self, min_in_sync: int) -> bool:
        """Returns whether fewer replicas are in sync than the topic asks for."""
        in_sync = len(self.isr)
        return in_sync < min_in_sync and in_sync < len(self.replicas)

    def are_too_few_at_most(self, min_in_sync: int) -> bool:
        """Returns whether there are too few even with those who are about to join."""
        replicas = len(self.replicas)
        return len(self.isr) < replicas and len(self.maximal_isr) < min(min_in_sync, replicas)

    def high_watermark(self, min_in_sync: int, log_end_offset: int, now_ms: int) -> int:
        """Returns the offset below which everything is committed, as far as this leader knows; -1 if it knows none."""
        least = self.own_offset
        if len(self.isr) == len(self.replicas):  # as nearly always: there are enough, and all of them count
            for follower in self.followers.values():
                if follower.log_end_offset < least:
                    least = follower.log_end_offset
            return least
        if self.are_too_few(min_in_sync):
            return UNKNOWN_OFFSET
        maximal_isr = self.maximal_isr
        for replica, follower in self.followers.items():
            if follower.log_end_offset < least and (
                replica in maximal_isr or self._will_join(replica, follower, log_end_offset, now_ms)
            ):
                least = follower.log_end_offset
        return least

    def _will_join(self, replica: int, follower: FollowerState, log_end_offset: int, now_ms: int) -> bool:
        return follower.is_caught_up(log_end_offset, now_ms, self._lag_max_ms) and self._is_eligible(replica, follower)

    def low_watermark(self, log_start_offset: int) -> int:
        """Returns where the log starts on every replica that is alive."""
        starts = [
            follower.log_start_offset
            for replica, follower in self.followers.items()
            if self._brokers.active_epoch(replica) is not None
        ]
        return min([log_start_offset, *starts])

    # ---- who is in sync

    def _is_eligible(self, replica: int, follower: FollowerState) -> bool:
        epoch = self._brokers.active_epoch(replica)
        return epoch is not None and epoch == follower.broker_epoch

    def propose_expansion(self, replica: int, high_watermark: int) -> IsrChange | None:
        """Returns the change by which a follower joins; None if it must not, or if it has joined."""
        follower = self.followers[replica]
        if self.proposed is not None or replica in self.isr or not self._is_eligible(replica, follower):
            return None
        if follower.log_end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        return self._propose((*self.isr, replica), is_expansion=True)

    def propose_shrinking(self, log_end_offset: int, now_ms: int) -> IsrChange | None:
        """Returns the change by which those leave who have fallen behind; None if nobody has."""
        if self.proposed is not None:
            return None
        kept = tuple(
            replica
            for replica in self.isr
            if (follower := self.followers.get(replica)) is None
            or follower.is_caught_up(log_end_offset, now_ms, self._lag_max_ms)
        )
        return self._propose(kept, is_expansion=False) if kept != self.isr else None

    def _propose(self, isr: tuple[int, ...], *, is_expansion: bool) -> IsrChange:
        epochs = tuple(_broker_epoch(self.followers, replica) for replica in isr)
        self.proposed = IsrChange(isr, epochs, self._leader_epoch, self.partition_epoch, is_expansion)
        return self.proposed


def _broker_epoch(followers: Mapping[int, FollowerState], replica: int) -> int:
    follower = followers.get(replica)
    return NO_BROKER_EPOCH if follower is None else follower.broker_epoch
