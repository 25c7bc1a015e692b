"""Fetch sessions of followers: a fetch costs what has news, however many partitions are in its session.

Rules:
- A partition enters the session once and hears of its own appends. That makes it *dirty*; only dirty ones are read.
- A partition that its follower has yet to join, or that was in error, is *lagging*: it is looked at in every fetch.
- The rest counts as asked for again at the same offset, as the protocol says. Who was caught up at the session's last
  fetch was caught up then with every partition that is not dirty.
- A high watermark, a log start or a set of in-sync replicas that moves wakes nobody. Sweeps find them, four times a
  second at most, and they ride along. A partition of which the follower heard a moment ago is left to the next sweep:
  while records keep coming, each answer says what is committed, and nothing is said of the partition alone.
- A follower that comes back in another life has no sessions from the one before.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from barnabas.base.environment import Random
from barnabas.broker.fetch_sessions import EVICTION_MS, NO_SESSION, Key
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchPartition

if TYPE_CHECKING:
    from barnabas.broker.replicas.leader import LeaderPartition

SWEEP_MS = 250
SESSIONS_OF_A_REPLICA = 32
"""A broker has one session with each leader for every `num.replica.fetchers`."""
_MAX_INT32 = 2**31 - 1


class WaitingFetch(Protocol):
    def on_news(self) -> None:
        """Notes that a partition has become dirty."""
        ...

    def overtaken(self) -> None:
        """Answers at once: the follower has sent its next fetch."""
        ...


class SessionPartition:
    """One partition of a session."""

    __slots__ = ("asked", "high_watermark", "key", "log_start_offset", "partition", "session", "told_ms")

    def __init__(self, session: "ReplicaSession", key: Key, asked: FetchPartition) -> None:
        self.session = session
        self.key = key
        self.asked = asked
        """What the follower has last asked of it."""
        self.partition: LeaderPartition | None = None
        """The partition whose appends it hears of; None while this broker does not lead it."""
        self.high_watermark = -1
        """The high watermark and the log start that the follower knows."""
        self.log_start_offset = -1
        self.told_ms = 0
        """The time of the fetch in whose answer it heard them."""

    def enter(self, partition: "LeaderPartition") -> None:
        """Hears of the appends of this partition from now on."""
        self.leave()
        self.partition = partition
        partition.wait_for_append(self)

    def leave(self) -> None:
        if self.partition is not None:
            self.partition.stop_waiting_for_append(self)
            self.partition = None

    def on_append(self, partition: "LeaderPartition") -> None:
        session = self.session
        if self not in session.dirty:
            session.dirty[self] = None
            partition.follower_was_caught_up(session.replica_id, session.fetched_ms)
        if session.waiting is not None:
            session.waiting.on_news()

    @property
    def has_news(self) -> bool:
        """Returns whether the follower does not know the offsets of this log."""
        assert self.partition is not None
        log = self.partition.log
        return log.high_watermark != self.high_watermark or log.log_start_offset != self.log_start_offset


class ReplicaSession:
    """What the leader remembers of one follower's fetches."""

    __slots__ = (
        "dirty", "epoch", "fetched_ms", "id", "lagging", "partitions", "replica_epoch", "replica_id", "swept_ms",
        "waiting",
    )  # fmt: skip

    def __init__(self, session_id: int, replica_id: int, replica_epoch: int) -> None:
        self.id = session_id
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.epoch = 1
        self.partitions: dict[Key, SessionPartition] = {}
        self.dirty: dict[SessionPartition, None] = {}
        """Partitions that may have records for the follower; those that have waited longest come first."""
        self.lagging: dict[SessionPartition, None] = {}
        self.fetched_ms = 0
        self.swept_ms = 0
        self.waiting: WaitingFetch | None = None

    def ask(self, key: Key, asked: FetchPartition) -> SessionPartition:
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = SessionPartition(self, key, asked)
        else:
            known.asked = asked
        return known

    def forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if (known := self.partitions.pop(key, None)) is not None:
                known.leave()
                self.dirty.pop(known, None)
                self.lagging.pop(known, None)

    def sweep(self, now_ms: int) -> list[SessionPartition]:
        """Returns the partitions that are not dirty and have news all the same, if it is time to look for them."""
        if now_ms - self.swept_ms < SWEEP_MS:
            return []
        self.swept_ms = now_ms
        told_before_ms = now_ms - SWEEP_MS
        found, dirty, replica_id = [], self.dirty, self.replica_id
        for each in self.partitions.values():
            partition = each.partition
            if partition is None:
                continue
            if replica_id not in partition.in_sync.isr:
                self.lagging[each] = None
            if each.told_ms <= told_before_ms and each not in dirty and each.has_news:
                found.append(each)
        return found

    def close(self) -> None:
        if self.waiting is not None:
            self.waiting.overtaken()
        for known in self.partitions.values():
            known.leave()


class ReplicaSessions:
    __slots__ = ("_by_id", "_is_taken", "_random")

    def __init__(self, random: Random, is_taken: Callable[[int], bool]) -> None:
        """Takes `is_taken`, which says whether a session of somebody else has an id."""
        self._random = random
        self._is_taken = is_taken
        self._by_id: dict[int, ReplicaSession] = {}  # the least recently used first

    def __len__(self) -> int:
        return len(self._by_id)

    def create(self, replica_id: int, replica_epoch: int, now_ms: int) -> ReplicaSession:
        """Returns a new session. Those that nobody can use any more make room."""
        own = [each for each in self._by_id.values() if each.replica_id == replica_id]
        surplus = own[: max(0, len(own) - SESSIONS_OF_A_REPLICA + 1)]
        for session in own:
            is_old = session.replica_epoch < replica_epoch or now_ms - session.fetched_ms >= EVICTION_MS
            if is_old or session in surplus:
                self.remove(session.id, replica_id)
        session = ReplicaSession(self._new_id(), replica_id, replica_epoch)
        self._by_id[session.id] = session
        return session

    def remove(self, session_id: int, replica_id: int) -> None:
        session = self._by_id.get(session_id)
        if session is not None and session.replica_id == replica_id:
            del self._by_id[session_id]
            session.close()

    def resume(self, session_id: int, epoch: int, replica_id: int, replica_epoch: int) -> ReplicaSession:
        """Returns the session that a fetch continues. Raises KafkaError with what is wrong with it."""
        session = self._by_id.get(session_id)
        if session is None or (session.replica_id, session.replica_epoch) != (replica_id, replica_epoch):
            raise KafkaError(f"no fetch session {session_id}", ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(f"epoch {epoch}, not {session.epoch}", ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.epoch = 1 if epoch == _MAX_INT32 else epoch + 1
        self._by_id[session_id] = self._by_id.pop(session_id)
        return session

    def _new_id(self) -> int:
        while True:
            session_id = self._random.getrandbits(31)
            if session_id != NO_SESSION and session_id not in self._by_id and not self._is_taken(session_id):
                return session_id
