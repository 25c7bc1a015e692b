"""Broker keys about groups, offsets and transactions."""

from typing import Any

from barnabas.base.config_def import (
    Config,
    UpdateMode,
    Validator,
    at_least,
    boolean,
    filled,
    int32,
    invalid_value,
    list_of,
    long,
    one_of_ignoring_case,
    short,
    string,
    string_list,
)
from barnabas.broker.config.server_keys import INT_MAX


def _count(name: str, default: int, *rest: Validator | str, mode: UpdateMode = UpdateMode.READ_ONLY) -> Any:
    return int32(name, default, *rest, update_mode=mode, honoured=False)


class OffsetsKeys(Config):
    offset_metadata_max_bytes: int = int32(
        "offset.metadata.max.bytes", 4096, "The largest note that a committed offset may carry."
    )
    offsets_commit_timeout_ms: int = int32(
        "offsets.commit.timeout.ms", 5000, at_least(1), "How long a commit waits for the replicas of the offsets topic."
    )
    offsets_load_buffer_size: int = int32(
        "offsets.load.buffer.size",
        5_242_880,
        at_least(1),
        "How much of the offsets topic is read at a time on loading.",
    )
    offsets_retention_check_interval_ms: int = long(
        "offsets.retention.check.interval.ms",
        600_000,
        at_least(1),
        "How often expired offsets are looked for.",
    )
    offsets_retention_minutes: int = int32(
        "offsets.retention.minutes", 10_080, at_least(1), "How long a group without members keeps its offsets."
    )
    offsets_topic_compression_codec: int = int32(
        "offsets.topic.compression.codec",
        0,
        "The codec of batches in the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    )
    offsets_topic_num_partitions: int = int32(
        "offsets.topic.num.partitions", 50, at_least(1), "The partitions of the offsets topic when it is created."
    )
    offsets_topic_replication_factor: int = short(
        "offsets.topic.replication.factor",
        3,
        at_least(1),
        "The replicas of the offsets topic when it is created.",
    )
    offsets_topic_segment_bytes: int = int32(
        "offsets.topic.segment.bytes", 104_857_600, at_least(1), "The size of a segment of the offsets topic."
    )


class ClassicGroupKeys(Config):
    group_initial_rebalance_delay_ms: int = int32(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long the first rebalance of an empty group waits for more members.",
    )
    group_max_session_timeout_ms: int = int32(
        "group.max.session.timeout.ms", 1_800_000, "The longest session timeout a member may ask for."
    )
    group_max_size: int = int32("group.max.size", INT_MAX, at_least(1), "The most members of a group.")
    group_min_session_timeout_ms: int = int32(
        "group.min.session.timeout.ms", 6000, "The shortest session timeout a member may ask for."
    )


class CoordinatorKeys(Config):
    group_coordinator_append_linger_ms: int = _count(
        "group.coordinator.append.linger.ms",
        -1,
        at_least(-1),
        "How long the coordinator gathers records into one write; -1 adapts to the load.",
    )
    group_coordinator_background_threads: int = _count(
        "group.coordinator.background.threads",
        2,
        at_least(1),
        "How many threads resolve regular expressions for groups.",
    )
    group_coordinator_cached_buffer_max_bytes: int = _count(
        "group.coordinator.cached.buffer.max.bytes",
        1_048_588,
        at_least(524_288),
        "The largest write buffer the coordinator keeps for reuse.",
        mode=UpdateMode.CLUSTER_WIDE,
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = string_list(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        list_of("consumer", "classic", "share", "streams", minimum=1),
        "The kinds of group that are served.",
        honoured=False,
    )
    group_coordinator_threads: int = _count(
        "group.coordinator.threads", 4, at_least(1), "How many threads run the coordinator. Here it runs on the loop."
    )


class ConsumerGroupKeys(Config):
    group_consumer_assignment_interval_ms: int = int32(
        "group.consumer.assignment.interval.ms",
        1000,
        at_least(0),
        "The shortest time between two assignments of a group.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    group_consumer_max_assignment_interval_ms: int = int32(
        "group.consumer.max.assignment.interval.ms", 15_000, at_least(0), "The longest a group may set that time to."
    )
    group_consumer_min_assignment_interval_ms: int = int32(
        "group.consumer.min.assignment.interval.ms", 0, at_least(0), "The shortest a group may set that time to."
    )
    group_consumer_assignors: tuple[str, ...] = string_list(
        "group.consumer.assignors",
        ("uniform", "range"),
        filled(1),
        "The assignors a group may choose from; the first is the default.",
    )
    group_consumer_heartbeat_interval_ms: int = int32(
        "group.consumer.heartbeat.interval.ms", 5000, at_least(1), "How often members are asked to send a heartbeat."
    )
    group_consumer_max_heartbeat_interval_ms: int = int32(
        "group.consumer.max.heartbeat.interval.ms", 15_000, at_least(1), "The longest heartbeat interval of a group."
    )
    group_consumer_min_heartbeat_interval_ms: int = int32(
        "group.consumer.min.heartbeat.interval.ms", 5000, at_least(1), "The shortest heartbeat interval of a group."
    )
    group_consumer_max_session_timeout_ms: int = int32(
        "group.consumer.max.session.timeout.ms", 60_000, at_least(1), "The longest session timeout of a group."
    )
    group_consumer_min_session_timeout_ms: int = int32(
        "group.consumer.min.session.timeout.ms", 45_000, at_least(1), "The shortest session timeout of a group."
    )
    group_consumer_session_timeout_ms: int = int32(
        "group.consumer.session.timeout.ms",
        45_000,
        at_least(1),
        "How long a member may be silent before it is removed.",
    )
    group_consumer_max_size: int = int32(
        "group.consumer.max.size", INT_MAX, at_least(1), "The most members of a group."
    )
    group_consumer_migration_policy: str = string(
        "group.consumer.migration.policy",
        "bidirectional",
        one_of_ignoring_case("disabled", "downgrade", "upgrade", "bidirectional"),
        "Whether a group may move between the classic and the consumer protocol, and in which direction.",
    )
    group_consumer_regex_refresh_interval_ms: int = int32(
        "group.consumer.regex.refresh.interval.ms",
        600_000,
        at_least(10_000),
        "How often the topics that match a subscribed pattern are looked up again.",
        internal=True,
    )


class TransactionKeys(Config):
    add_partitions_to_txn_retry_backoff_max_ms: int = int32(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        at_least(0),
        "How long a request that begins a transaction waits for the end of the last one.",
    )
    add_partitions_to_txn_retry_backoff_ms: int = int32(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        at_least(1),
        "The longest pause before another broker is asked again whether that transaction has ended.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _count(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        at_least(1),
        "How often transactions past their timeout are looked for.",
    )
    transaction_partition_verification_enable: bool = boolean(
        "transaction.partition.verification.enable",
        True,
        "Check on produce that the partition was added to the transaction.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = int32(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        at_least(1),
        "How often transactional ids that nobody uses any more are looked for.",
    )
    transaction_state_log_load_buffer_size: int = int32(
        "transaction.state.log.load.buffer.size",
        5_242_880,
        at_least(1),
        "How much of the transaction log is read at a time on loading.",
    )
    transaction_state_log_min_isr: int = int32(
        "transaction.state.log.min.isr",
        2,
        at_least(1),
        "min.insync.replicas of the transaction log when it is created.",
    )
    transaction_state_log_num_partitions: int = int32(
        "transaction.state.log.num.partitions",
        50,
        at_least(1),
        "The partitions of the transaction log when it is created.",
    )
    transaction_state_log_replication_factor: int = short(
        "transaction.state.log.replication.factor",
        3,
        at_least(1),
        "The replicas of the transaction log when it is created.",
    )
    transaction_state_log_segment_bytes: int = int32(
        "transaction.state.log.segment.bytes", 104_857_600, at_least(1), "The size of a segment of the transaction log."
    )
    transaction_two_phase_commit_enable: bool = boolean(
        "transaction.two.phase.commit.enable",
        False,
        "Let an outside coordinator hold transactions open without a timeout.",
        honoured=False,
    )
    transactional_id_expiration_ms: int = int32(
        "transactional.id.expiration.ms", 604_800_000, at_least(1), "How long an unused transactional id is remembered."
    )


class GroupKeys(OffsetsKeys, ClassicGroupKeys, CoordinatorKeys, ConsumerGroupKeys, TransactionKeys):
    SCOPE = "broker"

    def check(self) -> None:
        for setting in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms"):
            self._check_limits(setting)
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            rule = f"less than group.consumer.session.timeout.ms ({self.group_consumer_session_timeout_ms})"
            raise invalid_value("group.consumer.heartbeat.interval.ms", self.group_consumer_heartbeat_interval_ms, rule)
        if not set(self.group_consumer_assignors) <= _ASSIGNORS:
            rule = f"a list of {', '.join(sorted(_ASSIGNORS))}"
            raise invalid_value("group.consumer.assignors", ",".join(self.group_consumer_assignors), rule)
        if "classic" not in self.group_coordinator_rebalance_protocols:
            protocols = ",".join(self.group_coordinator_rebalance_protocols)
            raise invalid_value("group.coordinator.rebalance.protocols", protocols, "a list with classic in it")
        if not 0 <= self.offsets_topic_compression_codec <= _LAST_CODEC:
            codec = self.offsets_topic_compression_codec
            raise invalid_value("offsets.topic.compression.codec", codec, f"between 0 and {_LAST_CODEC}")

    def _check_limits(self, setting: str) -> None:
        name, lowest, highest = (f"group.consumer.{prefix}{setting}" for prefix in ("", "min.", "max."))
        value, minimum, maximum = (vars(self)[key.replace(".", "_")] for key in (name, lowest, highest))
        if not minimum <= value <= maximum:
            raise invalid_value(name, value, f"between {lowest} ({minimum}) and {highest} ({maximum})")


_ASSIGNORS = {"range", "uniform"}
_LAST_CODEC = 4
