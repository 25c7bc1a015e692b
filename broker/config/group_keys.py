"""The keys that a group can set for itself: ConfigResource GROUP (KIP-848, KIP-1043).

`broker_keys` names the broker key that holds for groups which set nothing. There are no share and no streams groups
here: their keys are known, checked one by one, stored and shown.
"""

from typing import Any

from barnabas.base.config_def import Config, Validator, at_least, boolean, int32, one_of, string


def _stored_int(name: str, default: int, minimum: int, documentation: str) -> Any:
    return int32(name, default, at_least(minimum), documentation, broker_keys=(f"group.{name}",), honoured=False)


def _is_auto_offset_reset(value: str) -> bool:
    return value in ("latest", "earliest") or value.startswith("by_duration:P")


class GroupConfigKeys(Config):
    SCOPE = "group"

    consumer_assignment_interval_ms: int = int32(
        "consumer.assignment.interval.ms",
        1000,
        at_least(0),
        "The shortest time between two assignments of the group.",
        broker_keys=("group.consumer.assignment.interval.ms",),
    )
    consumer_heartbeat_interval_ms: int = int32(
        "consumer.heartbeat.interval.ms",
        5000,
        at_least(1),
        "How often members are asked to send a heartbeat.",
        broker_keys=("group.consumer.heartbeat.interval.ms",),
    )
    consumer_session_timeout_ms: int = int32(
        "consumer.session.timeout.ms",
        45_000,
        at_least(1),
        "How long a member may be silent before it is removed.",
        broker_keys=("group.consumer.session.timeout.ms",),
    )
    share_assignment_interval_ms: int = _stored_int(
        "share.assignment.interval.ms", 1000, 0, "The shortest time between two assignments of a share group."
    )
    share_auto_offset_reset: str = string(
        "share.auto.offset.reset",
        "latest",
        Validator("latest, earliest or by_duration:<duration in ISO 8601>", _is_auto_offset_reset),
        "Where a share group starts to read.",
        honoured=False,
    )
    share_delivery_count_limit: int = _stored_int(
        "share.delivery.count.limit", 5, 2, "How often a share group is given a record."
    )
    share_heartbeat_interval_ms: int = _stored_int(
        "share.heartbeat.interval.ms", 5000, 1, "How often members of a share group send a heartbeat."
    )
    share_isolation_level: str = string(
        "share.isolation.level",
        "read_uncommitted",
        one_of("read_committed", "read_uncommitted"),
        "Whether a share group reads records of transactions that are not committed.",
        honoured=False,
    )
    share_partition_max_record_locks: int = _stored_int(
        "share.partition.max.record.locks", 2000, 100, "How many records of a partition a share group holds at once."
    )
    share_record_lock_duration_ms: int = _stored_int(
        "share.record.lock.duration.ms", 30_000, 1000, "How long a member of a share group may hold a record."
    )
    share_renew_acknowledge_enable: bool = boolean(
        "share.renew.acknowledge.enable",
        True,
        "Whether a member of a share group may ask to hold a record for longer.",
        honoured=False,
    )
    share_session_timeout_ms: int = _stored_int(
        "share.session.timeout.ms", 45_000, 1, "How long a member of a share group may be silent."
    )
    streams_assignment_interval_ms: int = _stored_int(
        "streams.assignment.interval.ms", 1000, 0, "The shortest time between two assignments of a streams group."
    )
    streams_heartbeat_interval_ms: int = _stored_int(
        "streams.heartbeat.interval.ms", 5000, 1, "How often members of a streams group send a heartbeat."
    )
    streams_initial_rebalance_delay_ms: int = _stored_int(
        "streams.initial.rebalance.delay.ms", 3000, 0, "How long a new streams group waits for more members."
    )
    streams_num_standby_replicas: int = _stored_int(
        "streams.num.standby.replicas", 0, 0, "How many standby replicas each task of a streams group has."
    )
    streams_session_timeout_ms: int = _stored_int(
        "streams.session.timeout.ms", 45_000, 1, "How long a member of a streams group may be silent."
    )
