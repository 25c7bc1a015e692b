"""Broker keys about logs. Most are the defaults of topic keys and say no more than which."""

from typing import Any

from barnabas.storage.config_def import Config, UpdateMode, at_least, boolean, double, int32, invalid_value, long
from barnabas.storage.log_config import DOUBLE_MAX, LONG_MAX, LogConfig

_DEDUPE_BYTES_ABOVE = 1 << 20


def default_of(topic_key: str, name: str) -> Any:
    """A broker key that differs from the topic key it gives a default to only by its name."""
    key = LogConfig.KEYS[topic_key]
    return key._replace(
        name=name,
        broker_keys=(),
        update_mode=UpdateMode.CLUSTER_WIDE,
        documentation=f"The default of the topic key {topic_key}. {key.documentation}",
    )


class TopicDefaultKeys(Config):
    compression_gzip_level: int = default_of("compression.gzip.level", "compression.gzip.level")
    compression_lz4_level: int = default_of("compression.lz4.level", "compression.lz4.level")
    compression_type: str = default_of("compression.type", "compression.type")
    compression_zstd_level: int = default_of("compression.zstd.level", "compression.zstd.level")
    log_cleaner_delete_retention_ms: int = default_of("delete.retention.ms", "log.cleaner.delete.retention.ms")
    log_cleaner_max_compaction_lag_ms: int = default_of("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    log_cleaner_min_cleanable_ratio: float = default_of("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio")
    log_cleaner_min_compaction_lag_ms: int = default_of("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms")
    log_cleanup_policy: tuple[str, ...] = default_of("cleanup.policy", "log.cleanup.policy")
    log_flush_interval_messages: int = default_of("flush.messages", "log.flush.interval.messages")
    log_index_interval_bytes: int = default_of("index.interval.bytes", "log.index.interval.bytes")
    log_index_size_max_bytes: int = default_of("segment.index.bytes", "log.index.size.max.bytes")
    log_local_retention_bytes: int = default_of("local.retention.bytes", "log.local.retention.bytes")
    log_local_retention_ms: int = default_of("local.retention.ms", "log.local.retention.ms")
    log_message_timestamp_after_max_ms: int = default_of(
        "message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"
    )
    log_message_timestamp_before_max_ms: int = default_of(
        "message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"
    )
    log_message_timestamp_type: str = default_of("message.timestamp.type", "log.message.timestamp.type")
    log_preallocate: bool = default_of("preallocate", "log.preallocate")
    log_retention_bytes: int = default_of("retention.bytes", "log.retention.bytes")
    log_segment_bytes: int = default_of("segment.bytes", "log.segment.bytes")
    log_segment_delete_delay_ms: int = default_of("file.delete.delay.ms", "log.segment.delete.delay.ms")
    message_max_bytes: int = default_of("max.message.bytes", "message.max.bytes")
    min_insync_replicas: int = default_of("min.insync.replicas", "min.insync.replicas")
    unclean_leader_election_enable: bool = default_of(
        "unclean.leader.election.enable", "unclean.leader.election.enable"
    )


class TimeKeys(Config):
    """Defaults of topic keys that can be given in several units; the finest that is set wins."""

    log_retention_ms: int | None = long(
        "log.retention.ms",
        None,
        "The default of the topic key retention.ms, before log.retention.minutes and .hours; -1 is forever.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_retention_minutes: int | None = int32(
        "log.retention.minutes",
        None,
        "The default of the topic key retention.ms, in minutes; before log.retention.hours.",
    )
    log_retention_hours: int = int32("log.retention.hours", 168, "The default of the topic key retention.ms, in hours.")
    log_roll_ms: int | None = long(
        "log.roll.ms",
        None,
        "The default of the topic key segment.ms, before log.roll.hours.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_roll_hours: int = int32(
        "log.roll.hours", 168, at_least(1), "The default of the topic key segment.ms, in hours."
    )
    log_roll_jitter_ms: int | None = long(
        "log.roll.jitter.ms",
        None,
        "The default of the topic key segment.jitter.ms, before log.roll.jitter.hours.",
        update_mode=UpdateMode.CLUSTER_WIDE,
        honoured=False,
    )
    log_roll_jitter_hours: int = int32(
        "log.roll.jitter.hours",
        0,
        at_least(0),
        "The default of the topic key segment.jitter.ms, in hours.",
        honoured=False,
    )
    log_flush_interval_ms: int | None = long(
        "log.flush.interval.ms",
        None,
        "The default of the topic key flush.ms, before log.flush.scheduler.interval.ms.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    log_flush_scheduler_interval_ms: int = long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        "How often Kafka looks for logs to sync. Here every log has its own deadline: only the default of flush.ms.",
    )


class LogManagerKeys(Config):
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
        honoured=False,
    )

    def check(self) -> None:
        super().check()
        if (size := self.log_cleaner_dedupe_buffer_size) <= _DEDUPE_BYTES_ABOVE:
            raise invalid_value("log.cleaner.dedupe.buffer.size", size, f"more than {_DEDUPE_BYTES_ABOVE}")
        if not 0 < (factor := self.log_cleaner_io_buffer_load_factor) <= 1:
            raise invalid_value("log.cleaner.io.buffer.load.factor", factor, "above 0 and at most 1")
        if (rate := self.log_cleaner_io_max_bytes_per_second) <= 0:
            raise invalid_value("log.cleaner.io.max.bytes.per.second", rate, "more than 0")


class LogKeys(TopicDefaultKeys, TimeKeys, LogManagerKeys):
    SCOPE = "broker"
