"""Broker keys about quotas: how fast replicas are copied that are throttled.

Deviation: Kafka takes the rates from what was altered at run time only. Here they may be in the properties, too.
"""

from barnabas.base.config_def import Config, UpdateMode, at_least, int32, long


class ReplicationQuotaKeys(Config):
    leader_replication_throttled_rate: int | None = long(
        "leader.replication.throttled.rate",
        None,
        at_least(0),
        "How many bytes a second the broker sends of what leader.replication.throttled.replicas of topics name. "
        "Replicas that are in sync count, and do not wait. Not set: no limit.",
        update_mode=UpdateMode.CLUSTER_WIDE,
        internal=True,
    )
    follower_replication_throttled_rate: int | None = long(
        "follower.replication.throttled.rate",
        None,
        at_least(0),
        "How many bytes a second the broker fetches of what follower.replication.throttled.replicas of topics name. "
        "Replicas that are in sync count, and do not wait. Not set: no limit.",
        update_mode=UpdateMode.CLUSTER_WIDE,
        internal=True,
    )
    replication_quota_window_num: int = int32(
        "replication.quota.window.num", 11, at_least(1), "Over how many windows these rates are measured."
    )
    replication_quota_window_size_seconds: int = int32(
        "replication.quota.window.size.seconds", 1, at_least(1), "How long each of these windows is."
    )
