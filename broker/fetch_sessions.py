"""Incremental fetch sessions (KIP-227): a client names its partitions once and then only what changes.

Rules:
- Epoch 0 asks for a new session, -1 for none (and ends the one it names); any other must be the next of its session.
- The reply to an incremental fetch leaves out what has nothing new: no records, same high watermark, same log start
  offset, no error, no other replica to read. A partition that was in error is always sent again.
- A partition that gave records goes to the end of the line, so that a busy one cannot starve the others.
- When the cache is full, only a session unused for `EVICTION_MS` makes room; otherwise the client gets no session and
  goes on sending whole requests.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.base.environment import Random
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, PartitionData
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import Uuid

if TYPE_CHECKING:
    from barnabas.broker.replica_sessions import ReplicaSessions

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EVICTION_MS = 120_000
_MAX_INT32 = 2**31 - 1

Key = tuple[str | Uuid, int]
"""Topic name, or topic id from version 13 on, and partition."""


def forgotten(request: FetchRequest, uses_topic_ids: bool) -> Iterable[Key]:
    """Yields the partitions that the request takes out of its session."""
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield (topic.topic_id if uses_topic_ids else topic.topic), partition


class PartitionFetch(NamedTuple):
    """One partition as a client asks for it."""

    key: Key
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class _CachedPartition:
    __slots__ = ("asked", "high_watermark", "log_start_offset")

    def __init__(self, asked: PartitionFetch) -> None:
        self.asked = asked
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, data: PartitionData) -> bool:
        news = bool(data.records) or bool(data.error_code) or data.diverging_epoch.epoch >= 0
        news |= data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset
        news |= data.preferred_read_replica >= 0
        self.high_watermark = -1 if data.error_code else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return news


class FetchSession:
    """What the broker remembers of one client's fetches."""

    __slots__ = ("_cached", "epoch", "id", "last_used_ms", "topic_names", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, asked: Iterable[PartitionFetch], now_ms: int) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used_ms = now_ms
        self._cached = {partition.key: _CachedPartition(partition) for partition in asked}
        self.topic_names: dict[Uuid, str] = {}
        """The names of topics that were asked for by their ids, once they were found."""

    def __len__(self) -> int:
        return len(self._cached)

    def asked(self) -> Iterator[PartitionFetch]:
        return (cached.asked for cached in self._cached.values())

    def update(self, changed: Iterable[PartitionFetch], forgotten: Iterable[Key]) -> None:
        for partition in changed:
            if (cached := self._cached.get(partition.key)) is None:
                self._cached[partition.key] = _CachedPartition(partition)
            else:
                cached.asked = partition
        for key in forgotten:
            self._cached.pop(key, None)

    def news(self, key: Key, data: PartitionData) -> bool:
        """Says whether the reply must carry this partition, and remembers what the client then knows."""
        cached = self._cached.get(key)
        if cached is None:
            return True  # another connection of this client forgot it while this fetch was waiting
        news = cached.has_news(data)
        if data.records:
            self._cached[key] = self._cached.pop(key)
        return news


class FetchSessions:
    __slots__ = ("_of_replicas", "_random", "_sessions", "_slots")

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}  # the least recently used first
        self._of_replicas: ReplicaSessions | None = None

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def of_replicas(self) -> "ReplicaSessions":
        """Returns the sessions of followers, which take no slots of the clients'."""
        if self._of_replicas is None:
            from barnabas.broker.replica_sessions import ReplicaSessions

            self._of_replicas = ReplicaSessions(self._random, self._sessions.__contains__)
        return self._of_replicas

    def create(self, asked: list[PartitionFetch], *, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """Returns a new session, or None if there is no room. One without partitions is a session too, as in Kafka."""
        if not self._has_room(now_ms):
            return None
        session = FetchSession(self._new_id(), uses_topic_ids, asked, now_ms)
        self._sessions[session.id] = session
        return session

    def remove(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """Returns the session that an incremental fetch continues. Raises KafkaError with what is wrong with it."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(f"no fetch session {session_id}", ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(f"epoch {epoch}, not {session.epoch}", ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError("a session has topic ids or names, not both", ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == _MAX_INT32 else epoch + 1
        session.last_used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def _has_room(self, now_ms: int) -> bool:
        if len(self._sessions) < self._slots:
            return True
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < EVICTION_MS:
            return False
        del self._sessions[oldest.id]
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.getrandbits(31)
            if session_id != NO_SESSION and session_id not in self._sessions:
                return session_id
