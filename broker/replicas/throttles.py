"""The limits on what this broker copies of throttled replicas: one as their leader, one as their follower.

Who may copy nothing now waits, and is called when it is worth another look: when the quota allows more, or when a rate
or the replicas that are throttled have changed. All who wait share one timer. They are called in the order in which
they began to wait, so nobody can be first for ever.
"""

from collections.abc import Callable

from barnabas.base.environment import Clock, Timer
from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.replication.quota import ReplicationQuota

Waiter = Callable[[], None]


class Throttle:
    __slots__ = ("_clock", "_quota", "_timer", "_waiters")

    def __init__(self, clock: Clock, quota: ReplicationQuota) -> None:
        self._clock = clock
        self._quota = quota
        self._timer: Timer | None = None
        self._waiters: dict[Waiter, None] = {}

    @property
    def is_exceeded(self) -> bool:
        return self._quota.wait_ms(self._clock.monotonic_ms()) > 0

    def record(self, size: int) -> None:
        """Counts bytes of a throttled replica."""
        self._quota.record(size, self._clock.monotonic_ms())

    def wait(self, waiter: Waiter) -> None:
        """Calls the waiter once, when the quota may not be exceeded any more."""
        self._waiters[waiter] = None
        if self._timer is None:
            delay_ms = self._quota.wait_ms(self._clock.monotonic_ms())
            self._timer = self._clock.call_later(delay_ms, self.wake)

    def stop_waiting(self, waiter: Waiter) -> None:
        self._waiters.pop(waiter, None)
        if not self._waiters:
            self._stop_timer()

    def limit(self, bytes_per_second: int | None) -> None:
        if bytes_per_second != self._quota.bytes_per_second:
            self._quota.bytes_per_second = bytes_per_second
            self.wake()

    def wake(self) -> None:
        self._stop_timer()
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Throttles:
    __slots__ = ("follower", "leader")

    def __init__(self, clock: Clock, config: BrokerConfig) -> None:
        count, window_ms = config.replication_quota_window_num, config.replication_quota_window_size_seconds * 1000
        self.leader = Throttle(clock, ReplicationQuota(count, window_ms))
        self.follower = Throttle(clock, ReplicationQuota(count, window_ms))
        self.configure(config)

    def configure(self, config: BrokerConfig) -> None:
        self.leader.limit(config.leader_replication_throttled_rate)
        self.follower.limit(config.follower_replication_throttled_rate)

    def on_topics_configured(self) -> None:
        """Lets all who wait look again: other replicas may be throttled from now on."""
        self.leader.wake()
        self.follower.wake()
