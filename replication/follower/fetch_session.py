"""A fetch session with one leader, as the follower keeps it (KIP-227): partitions are named once, then what changes.

Rules:
- The first request names everything. Later ones name the partitions that are new or have moved, and those to forget.
- The leader may refuse to remember anything: then every request is a whole one.
- Whenever the two may disagree (an answer was lost, the leader knows no such session), the next request starts anew. It
  closes the old session, unless the leader has said that there is none.
"""

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.types import Uuid

NO_SESSION = 0
INITIAL_EPOCH = 0
_MAX_INT32 = 2**31 - 1

Key = tuple[Uuid, int]
"""Topic id and partition."""


class FetchPosition(NamedTuple):
    """From where a follower asks for a partition, and what it has before that."""

    fetch_offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


class FollowerSession:
    __slots__ = ("_changed", "_forgotten", "_id", "_max_bytes", "_next_epoch", "_wanted")

    def __init__(self, partition_max_bytes: int) -> None:
        self._max_bytes = partition_max_bytes
        self._id = NO_SESSION
        self._next_epoch = INITIAL_EPOCH
        self._wanted: dict[Key, FetchPosition] = {}
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def is_established(self) -> bool:
        """Returns whether the leader remembers what it was told."""
        return self._next_epoch != INITIAL_EPOCH

    @property
    def has_changes(self) -> bool:
        """Returns whether the next request says anything that the leader does not know."""
        return bool(self._changed or self._forgotten)

    def position_of(self, key: Key) -> FetchPosition | None:
        return self._wanted.get(key)

    def ask(self, key: Key, position: FetchPosition) -> bool:
        """Asks for the partition from this position on. Returns whether that is new."""
        if self._wanted.get(key) == position:
            return False
        self._wanted[key] = position
        self._changed[key] = None
        self._forgotten.pop(key, None)
        return True

    def forget(self, key: Key) -> None:
        """Asks no more for the partition."""
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    # ---- requests

    def next_request(self) -> FetchRequest:
        """Returns the next request with its session and its partitions. The rest of it is the caller's."""
        is_whole = self._next_epoch == INITIAL_EPOCH
        named = list(self._wanted if is_whole else self._changed)
        forgotten = [] if is_whole else list(self._forgotten)
        self._changed.clear()
        self._forgotten.clear()
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            session_id=self._id,
            session_epoch=self._next_epoch,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten_topics(forgotten),
        )
        if not is_whole:
            self._next_epoch = 1 if self._next_epoch == _MAX_INT32 else self._next_epoch + 1
        return request

    def _topics(self, named: list[Key]) -> list[FetchTopic]:
        topics: dict[Uuid, list[FetchPartition]] = {}
        for key in named:
            position = self._wanted[key]
            topics.setdefault(key[0], []).append(
                FetchPartition(
                    partition=key[1],
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._max_bytes,
                )
            )
        return [FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]

    # ---- answers

    def accept(self, request: FetchRequest, response: FetchResponse) -> bool:
        """Takes note of an answer. Returns whether what it says of partitions counts."""
        if request.session_id != self._id and self._id != NO_SESSION:
            return False  # of a session that was given up meanwhile
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._begin_anew(NO_SESSION)
            return False
        if response.error_code:
            self.lost()
            return False
        if request.session_epoch == INITIAL_EPOCH:
            self._id = response.session_id
            self._next_epoch = INITIAL_EPOCH if self._id == NO_SESSION else 1
        elif response.session_id != self._id:
            self._begin_anew(NO_SESSION)  # the leader has closed it; the answer is good
        return True

    def lost(self) -> None:
        """Starts anew: nobody knows how much of the last request the leader has seen."""
        self._begin_anew(self._id)

    def _begin_anew(self, session_id: int) -> None:
        self._id = session_id
        self._next_epoch = INITIAL_EPOCH
        self._forgotten.clear()
        self._changed = dict.fromkeys(self._wanted)


def _forgotten_topics(keys: list[Key]) -> list[ForgottenTopic]:
    topics: dict[Uuid, list[int]] = {}
    for topic_id, index in keys:
        topics.setdefault(topic_id, []).append(index)
    return [ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics.items()]
