"""What configures all logs of a broker together: Kafka's broker keys, declared here once, and what the machine allows.

`BrokerConfig` includes these keys, so a broker's configuration is itself a `LogManagerConfig`.
"""

from barnabas.base.config_def import Config, UpdateMode, at_least, boolean, double, int32, invalid_value, long
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.storage.log_config import DOUBLE_MAX

_DEDUPE_BYTES_ABOVE = 1 << 20


class LogManagerLimits(NamedTuple):
    """Limits that no key decides alone: they depend on the machine and on the other users of the process."""

    open_files_max: int = 512
    """Handles kept open over all dirs; what sockets and fsyncs hold comes on top."""
    free_bytes_min: int = 0
    """The floor of free space below which nothing is appended."""
    sync_together_min: int = 16
    """A stop with this many logs to write syncs the whole disk instead of each log's files."""
    initial_task_delay_ms: int = 30_000
    """How long after its opening a log is first looked at by retention and compaction."""


class LogManagerConfig(Config):
    SCOPE = "broker"

    log_retention_check_interval_ms: int = long(
        "log.retention.check.interval.ms",
        300_000,
        at_least(1),
        "The longest time between two looks at what retention would remove from a log.",
    )
    log_flush_offset_checkpoint_interval_ms: int = int32(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        at_least(0),
        "How often the recovery points are written down; recovery after a crash starts from them.",
    )
    log_flush_start_offset_checkpoint_interval_ms: int = int32(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        at_least(0),
        "How often the log start offsets are written down.",
        honoured=False,
    )
    num_recovery_threads_per_data_dir: int = int32(
        "num.recovery.threads.per.data.dir",
        2,
        at_least(1),
        "How many workers recover the logs of one directory after a crash.",
        update_mode=UpdateMode.CLUSTER_WIDE,
        honoured=False,
    )
    log_cleaner_enable: bool = boolean("log.cleaner.enable", True, "Compact the topics whose cleanup.policy says so.")
    log_cleaner_backoff_ms: int = long(
        "log.cleaner.backoff.ms",
        15_000,
        at_least(0),
        "How long compaction rests when no log is left that is worth it, and before it tries one again that failed.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "The memory in which compaction remembers where it saw each key last, 24 bytes a key. A log with more keys "
        "than fit takes several passes.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_buffer_load_factor: float = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        "How full that memory may get: fuller means fewer passes, and slower ones.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE_MAX,
        "The most that compaction reads and writes in a second.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_dir_failure_timeout_ms: int = long(
        "log.dir.failure.timeout.ms",
        30_000,
        at_least(1),
        "How long a broker with a failed directory waits for the controller to hear of it before it stops.",
    )

    producer_id_expiration_ms: int = int32(
        "producer.id.expiration.ms",
        86_400_000,
        at_least(1),
        "How long a partition remembers an idempotent producer that has fallen silent.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms: int = int32(
        "producer.id.expiration.check.interval.ms",
        600_000,
        at_least(1),
        "How often a log that remembers such producers looks for them.",
        internal=True,
    )
    transaction_max_timeout_ms: int = int32(
        "transaction.max.timeout.ms", 900_000, at_least(1), "The longest timeout a transaction may ask for."
    )

    def check(self) -> None:
        super().check()
        if (size := self.log_cleaner_dedupe_buffer_size) <= _DEDUPE_BYTES_ABOVE:
            raise invalid_value("log.cleaner.dedupe.buffer.size", size, f"more than {_DEDUPE_BYTES_ABOVE}")
        if not 0 < (factor := self.log_cleaner_io_buffer_load_factor) <= 1:
            raise invalid_value("log.cleaner.io.buffer.load.factor", factor, "above 0 and at most 1")
        if (rate := self.log_cleaner_io_max_bytes_per_second) <= 0:
            raise invalid_value("log.cleaner.io.max.bytes.per.second", rate, "more than 0")
