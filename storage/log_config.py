"""The configuration of one topic's logs: every topic key of Kafka 4.3, and `barnabas.*` for what is ours.

A topic's value wins over the broker's (`broker_keys`, the strongest first), that one over the default declared here.
A key with `honoured=False` is checked, stored and shown as Kafka does, and changes nothing so far.
Deviation: `remote.storage.enable=true` is refused, as by a Kafka without tiered storage.
"""

from typing import Any, Self

from barnabas.base.config_def import (
    Config,
    Validator,
    at_least,
    between,
    boolean,
    double,
    int32,
    list_of,
    long,
    one_of,
    string,
    string_list,
)
from barnabas.protocol.errors import InvalidConfig
from barnabas.protocol.named_tuple import NamedTuple

LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308
_ALL_REPLICAS = ("*",)


_DIGITS_MAX = 10  # of a partition or a broker; Python refuses to read thousands


class ThrottledReplicas(NamedTuple):
    """Which replicas of a topic obey the replication quota."""

    pairs: frozenset[tuple[int, int]] | None
    """Partitions, each with the broker that has the replica; None: all."""

    @classmethod
    def of(cls, replicas: tuple[str, ...]) -> Self | None:
        """Returns what a list of partition:broker, or *, means; None if it names nobody."""
        if not replicas:
            return None
        if replicas == _ALL_REPLICAS:
            return cls(None)
        pairs = (replica.split(":") for replica in replicas)
        return cls(frozenset((int(partition), int(broker)) for partition, broker in pairs))

    def include(self, partition: int, broker_id: int) -> bool:
        return self.pairs is None or (partition, broker_id) in self.pairs


def _is_throttled_replicas(replicas: tuple[str, ...]) -> bool:
    return replicas == _ALL_REPLICAS or all(
        len(pair := replica.split(":")) == 2
        and all(number.isdecimal() and len(number) <= _DIGITS_MAX for number in pair)
        for replica in replicas
    )


THROTTLED_REPLICAS = Validator("* or a list of partition:broker pairs such as 0:1,1:2", _is_throttled_replicas)
GZIP_LEVEL = Validator("between 1 and 9, or -1", lambda level: level == -1 or 1 <= level <= 9)


class LogConfig(Config):
    SCOPE = "topic"

    cleanup_policy: tuple[str, ...] = string_list(
        "cleanup.policy",
        ("delete",),
        list_of("compact", "delete"),
        "What happens to old segments: `delete` drops those past the retention limits, `compact` keeps the last record "
        "of each key, both may be given, and an empty list keeps everything.",
        broker_keys=("log.cleanup.policy",),
    )
    compression_gzip_level: int = int32(
        "compression.gzip.level",
        -1,
        GZIP_LEVEL,
        "The effort of gzip when the broker compresses; -1 is the library's own choice.",
        broker_keys=("compression.gzip.level",),
        honoured=False,
    )
    compression_lz4_level: int = int32(
        "compression.lz4.level",
        9,
        between(1, 17),
        "The effort of lz4 when the broker compresses.",
        broker_keys=("compression.lz4.level",),
        honoured=False,
    )
    compression_type: str = string(
        "compression.type",
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "The codec a Kafka broker would recompress batches with. Barnabas stores every batch as its producer "
        "compressed it, which is what `producer` means.",
        broker_keys=("compression.type",),
        honoured=False,
    )
    compression_zstd_level: int = int32(
        "compression.zstd.level",
        3,
        between(-131072, 22),
        "The effort of zstd when the broker compresses.",
        broker_keys=("compression.zstd.level",),
        honoured=False,
    )
    delete_retention_ms: int = long(
        "delete.retention.ms",
        86_400_000,
        at_least(0),
        "How long a compacted topic keeps the tombstone of a deleted key, so that a reader who started before sees it.",
        broker_keys=("log.cleaner.delete.retention.ms",),
    )
    file_delete_delay_ms: int = long(
        "file.delete.delay.ms",
        60_000,
        at_least(0),
        "How long the files of a deleted segment stay on disk under a .deleted name before they are removed.",
        broker_keys=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = long(
        "flush.messages",
        LONG_MAX,
        at_least(1),
        "After how many records the log is synced to disk. 1 acknowledges a produce only once an fsync has covered it; "
        "producers that wait at the same time share one.",
        broker_keys=("log.flush.interval.messages",),
    )
    flush_ms: int = long(
        "flush.ms",
        LONG_MAX,
        at_least(0),
        "The longest time that appended records stay unsynced; the sync runs in the background.",
        broker_keys=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = string_list(
        "follower.replication.throttled.replicas",
        (),
        THROTTLED_REPLICAS,
        "The replicas that are copied to at most at the broker's follower.replication.throttled.rate: partition:broker "
        "pairs, or * for all.",
    )
    index_interval_bytes: int = int32(
        "index.interval.bytes",
        4096,
        at_least(0),
        "How many bytes of log lie between two entries of its offset index; fewer make it larger and lookups shorter.",
        broker_keys=("log.index.interval.bytes",),
    )
    internal_segment_bytes: int | None = int32(
        "internal.segment.bytes",
        None,
        "Replaces segment.bytes without its lower limit. For tests.",
        internal=True,
    )
    leader_replication_throttled_replicas: tuple[str, ...] = string_list(
        "leader.replication.throttled.replicas",
        (),
        THROTTLED_REPLICAS,
        "The replicas that are copied from at most at the broker's leader.replication.throttled.rate: partition:broker "
        "pairs, or * for all.",
    )
    local_retention_bytes: int = long(
        "local.retention.bytes",
        -2,
        at_least(-2),
        "With tiered storage, the bytes kept on local disk; -2 follows retention.bytes.",
        broker_keys=("log.local.retention.bytes",),
        honoured=False,
    )
    local_retention_ms: int = long(
        "local.retention.ms",
        -2,
        at_least(-2),
        "With tiered storage, the time segments stay on local disk; -2 follows retention.ms.",
        broker_keys=("log.local.retention.ms",),
        honoured=False,
    )
    max_compaction_lag_ms: int = long(
        "max.compaction.lag.ms",
        LONG_MAX,
        at_least(1),
        "The longest time a record of a compacted topic may escape compaction.",
        broker_keys=("log.cleaner.max.compaction.lag.ms",),
    )
    max_message_bytes: int = int32(
        "max.message.bytes",
        1_048_588,
        at_least(0),
        "The largest batch, as its producer compressed it, that the topic takes; a larger one is MESSAGE_TOO_LARGE.",
        broker_keys=("message.max.bytes",),
    )
    message_timestamp_after_max_ms: int = long(
        "message.timestamp.after.max.ms",
        3_600_000,
        at_least(0),
        "How far ahead of the broker's clock a record's timestamp may lie under CreateTime.",
        broker_keys=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        at_least(0),
        "How far behind the broker's clock a record's timestamp may lie under CreateTime.",
        broker_keys=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type: str = string(
        "message.timestamp.type",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose clock stamps the records: the producer's, or the broker's at the moment of the append.",
        broker_keys=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = double(
        "min.cleanable.dirty.ratio",
        0.5,
        between(0, 1),
        "The share of a compacted log that must be uncompacted before it is worth another pass.",
        broker_keys=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = long(
        "min.compaction.lag.ms",
        0,
        at_least(0),
        "How long a record of a compacted topic is safe from compaction.",
        broker_keys=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = int32(
        "min.insync.replicas",
        1,
        at_least(1),
        "How many replicas must be in sync for a produce with acks=all to be taken.",
        broker_keys=("min.insync.replicas",),
    )
    preallocate: bool = boolean(
        "preallocate",
        False,
        "Reserve the whole file when a segment is created. Barnabas never does: measured, it gains nothing.",
        broker_keys=("log.preallocate",),
        honoured=False,
    )
    remote_log_copy_disable: bool = boolean(
        "remote.log.copy.disable", False, "With tiered storage, stop uploading and only read.", honoured=False
    )
    remote_log_delete_on_disable: bool = boolean(
        "remote.log.delete.on.disable",
        False,
        "With tiered storage, drop what was uploaded when it is switched off.",
        honoured=False,
    )
    remote_storage_enable: bool = boolean(
        "remote.storage.enable", False, "Tiered storage. There is none here: true is refused.", honoured=False
    )
    retention_bytes: int = long(
        "retention.bytes",
        -1,
        "How many bytes a partition keeps under the delete policy, in whole segments; negative is no limit.",
        broker_keys=("log.retention.bytes",),
    )
    retention_ms: int = long(
        "retention.ms",
        604_800_000,
        at_least(-1),
        "How long the delete policy keeps a segment, counted from its newest timestamp; -1 is forever.",
        broker_keys=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = int32(
        "segment.bytes",
        1_073_741_824,
        at_least(1_048_576),
        "The size at which a segment is closed and the next begun. Retention removes whole segments.",
        broker_keys=("log.segment.bytes",),
    )
    segment_index_bytes: int = int32(
        "segment.index.bytes",
        10_485_760,
        at_least(4),
        "The largest offset index; a segment whose index is full is closed early.",
        broker_keys=("log.index.size.max.bytes",),
    )
    segment_jitter_ms: int = long(
        "segment.jitter.ms",
        0,
        at_least(0),
        "The most that segment.ms is shortened by, at random, so that many logs do not roll at once.",
        broker_keys=("log.roll.jitter.ms", "log.roll.jitter.hours"),
        honoured=False,
    )
    segment_ms: int = long(
        "segment.ms",
        604_800_000,
        at_least(1),
        "The age at which a segment is closed though it is not full, so that retention can reach its records.",
        broker_keys=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable: bool = boolean(
        "unclean.leader.election.enable",
        False,
        "Let a replica that is not in sync lead when no other is left, at the price of the records it lacks.",
        broker_keys=("unclean.leader.election.enable",),
    )
    barnabas_record_validation: str = string(
        "barnabas.record.validation",
        "header",
        one_of("header", "full"),
        "How much of a produced batch is checked. `header` trusts the batch header if its CRC holds and opens records "
        "only where a rule needs them; `full` decompresses and checks every record, as Kafka does, at its price.",
    )

    # What follows from the keys.
    compact: bool
    delete: bool
    is_log_append_time: bool
    trusts_headers: bool
    """A client's batch is judged by its header alone if the header's timestamps fit."""
    max_segment_ms: int
    """The age at which a segment must be closed: compaction's longest lag counts too."""
    syncs_every_append: bool
    """A produce is acknowledged only after an fsync."""
    throttled_followers: ThrottledReplicas | None
    throttled_leaders: ThrottledReplicas | None

    def _derive(self, values: dict[str, Any]) -> None:
        values["compact"] = "compact" in self.cleanup_policy
        values["delete"] = "delete" in self.cleanup_policy
        values["is_log_append_time"] = self.message_timestamp_type == "LogAppendTime"
        values["trusts_headers"] = self.barnabas_record_validation == "header" and not self.compact
        values["max_segment_ms"] = min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
        values["syncs_every_append"] = self.flush_messages == 1
        values["throttled_followers"] = ThrottledReplicas.of(self.follower_replication_throttled_replicas)
        values["throttled_leaders"] = ThrottledReplicas.of(self.leader_replication_throttled_replicas)
        if self.internal_segment_bytes is not None:
            values["segment_bytes"] = self.internal_segment_bytes

    def check(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) is above "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )
        if self.remote_storage_enable:
            raise InvalidConfig("remote.storage.enable cannot be true: this broker has no tiered storage")
