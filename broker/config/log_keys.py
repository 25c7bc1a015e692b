"""Broker keys about logs. Most are the defaults of topic keys and say no more than which."""

from typing import Any

from barnabas.base.config_def import Config, UpdateMode, at_least, int32, long
from barnabas.storage.log_config import LONG_MAX, LogConfig
from barnabas.storage.log_manager_config import LogManagerConfig


def default_of(topic_key: str, name: str) -> Any:
    """Declares a broker key that differs only by its name from the topic key whose default it gives."""
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


class LogKeys(TopicDefaultKeys, TimeKeys, LogManagerConfig):
    SCOPE = "broker"
