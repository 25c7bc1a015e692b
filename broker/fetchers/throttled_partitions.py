"""The partitions of one fetcher that obey the quota of this broker's followers.

Rules, which are Kafka's:
- While the quota is exceeded they are not asked for. When it is not, all of them are, and those that had nothing for
  longest come first.
- One that has all that was committed never waits: it would fall out of sync. It counts all the same.
"""

from collections.abc import Callable

from barnabas.broker.fetchers.fetchers import Follower
from barnabas.broker.fetchers.followed_partition import FollowedPartition, State
from barnabas.protocol.messages.fetch import PartitionData
from barnabas.replication.follower.fetch_session import FollowerSession


class ThrottledPartitions:
    __slots__ = ("_ask", "_node_id", "_session", "_throttle", "_waiting", "asked")

    def __init__(self, follower: Follower, session: FollowerSession, ask: Callable[[FollowedPartition], None]) -> None:
        """Takes `ask`, which asks for a partition again."""
        self._node_id = follower.node_id
        self._throttle = follower.throttle
        self._session = session
        self._ask = ask
        self.asked: dict[FollowedPartition, None] = {}
        """Those that are asked for and would have to wait."""
        self._waiting: dict[FollowedPartition, None] = {}

    def _is_throttled(self, followed: FollowedPartition) -> bool:
        throttled = followed.partition.log.config.throttled_followers
        return throttled is not None and throttled.include(followed.key[1], self._node_id)

    def ask(self, followed: FollowedPartition) -> None:
        """Notes that a partition is asked for, which may be throttled."""
        if not followed.is_in_sync and self._is_throttled(followed):
            self.asked[followed] = None

    def appended(self, followed: FollowedPartition, data: PartitionData) -> None:
        """Counts what an answer brought, and looks whether that was all."""
        self.asked.pop(followed, None)
        if self._is_throttled(followed):
            self._throttle.record(len(data.records) if data.records else 0)  # type: ignore[arg-type]
            followed.is_in_sync = data.high_watermark <= followed.partition.log.log_end_offset
            self.ask(followed)

    def leave_out(self) -> None:
        """Asks for none of them while the quota is exceeded."""
        if not self._throttle.is_exceeded:
            return
        for followed in self.asked:
            if followed.state is State.FETCHING and self._is_throttled(followed):
                followed.state = State.THROTTLED
                self._session.forget(followed.key)
                self._waiting[followed] = None
        self.asked.clear()
        if self._waiting:
            self._throttle.wait(self._go_on)

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for followed in waiting:
            if followed.state is State.THROTTLED:
                self._ask(followed)

    def close(self) -> None:
        self._throttle.stop_waiting(self._go_on)
