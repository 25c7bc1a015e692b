"""When a log wants to be looked at again: for a flush, for retention, for compaction, for producers that fell silent.

Nothing looks at all logs in turn. Each says its next deadline, and only when it has one: an empty log has none.
"""

from barnabas.storage.log_config import LogConfig
from barnabas.storage.log_manager_config import LogManagerConfig

NEVER_MS = 1 << 62
NO_FLUSH_MS = 2**63 - 1


class LogDeadlines:
    __slots__ = ("are_settled", "compaction_ms", "expiration_ms", "flush_ms", "retention_ms", "scheduled_ms")

    def __init__(self) -> None:
        self.are_settled = False
        """No append can add a deadline that is not set so far. Code that changes this clears the flag."""
        self.flush_ms = NEVER_MS
        self.retention_ms = NEVER_MS
        self.expiration_ms = NEVER_MS
        self.compaction_ms = NEVER_MS
        self.scheduled_ms = NEVER_MS
        """The earliest one, as it was last asked for."""

    def update(
        self,
        config: LogConfig,
        broker: LogManagerConfig,
        now_ms: int,
        *,
        is_empty: bool,
        is_flushed: bool,
        has_producers: bool,
    ) -> None:
        """Sets each deadline that can come and is not set so far."""
        self.are_settled = not is_empty
        if self.flush_ms == NEVER_MS and not is_flushed and config.flush_ms != NO_FLUSH_MS:
            self.flush_ms = now_ms + config.flush_ms
        if self.retention_ms == NEVER_MS and not is_empty and _has_retention(config):
            self.retention_ms = now_ms + broker.log_retention_check_interval_ms
        if self.expiration_ms == NEVER_MS and has_producers:
            self.expiration_ms = now_ms + broker.producer_id_expiration_check_interval_ms

    def to_schedule(self) -> int | None:
        """Returns the deadline to ask for, if it is sooner than the one asked for before."""
        next_ms = min(self.flush_ms, self.retention_ms, self.expiration_ms, self.compaction_ms)
        if next_ms >= self.scheduled_ms:
            return None
        self.scheduled_ms = next_ms
        return next_ms


def _has_retention(config: LogConfig) -> bool:
    return config.delete and (config.retention_ms >= 0 or config.retention_bytes >= 0)
