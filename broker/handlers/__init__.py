"""The APIs that a client can call. Dispatch, version checks, ApiVersions and the table in the docs come from here."""

from collections.abc import Callable
from typing import Any

from barnabas.protocol.api_keys import ApiKey


class Handler:
    """One API, handled in the module of that name, which is imported when it is first called: a start needs few.

    `versions` is what ApiVersions says; what is served is the part of it that the request declares.
    """

    handle: Callable[..., Any]
    request: Any

    def __init__(self, name: str, versions: range, *, flexible_since: int | None) -> None:
        self.name = name
        self.versions = versions
        self.flexible_since = flexible_since

    def __getattr__(self, attribute: str) -> Any:
        """Called for what is not there yet."""
        if attribute not in ("handle", "request"):
            raise AttributeError(attribute)
        module = __import__(f"{__name__}.{self.name}", fromlist=["handle"])
        self.handle = module.handle
        self.request = getattr(module, "".join(word.capitalize() for word in self.name.split("_")) + "Request")
        return self.__dict__[attribute]


HANDLERS = {
    ApiKey.PRODUCE: Handler("produce", range(0, 14), flexible_since=9),
    ApiKey.FETCH: Handler("fetch", range(4, 19), flexible_since=12),
    ApiKey.LIST_OFFSETS: Handler("list_offsets", range(1, 12), flexible_since=6),
    ApiKey.METADATA: Handler("metadata", range(0, 14), flexible_since=9),
    ApiKey.OFFSET_COMMIT: Handler("offset_commit", range(2, 11), flexible_since=8),
    ApiKey.OFFSET_FETCH: Handler("offset_fetch", range(1, 11), flexible_since=6),
    ApiKey.FIND_COORDINATOR: Handler("find_coordinator", range(0, 7), flexible_since=3),
    ApiKey.JOIN_GROUP: Handler("join_group", range(0, 10), flexible_since=6),
    ApiKey.HEARTBEAT: Handler("heartbeat", range(0, 5), flexible_since=4),
    ApiKey.LEAVE_GROUP: Handler("leave_group", range(0, 6), flexible_since=4),
    ApiKey.SYNC_GROUP: Handler("sync_group", range(0, 6), flexible_since=4),
    ApiKey.DESCRIBE_GROUPS: Handler("describe_groups", range(0, 7), flexible_since=5),
    ApiKey.LIST_GROUPS: Handler("list_groups", range(0, 6), flexible_since=3),
    ApiKey.API_VERSIONS: Handler("api_versions", range(0, 5), flexible_since=3),
    ApiKey.CREATE_TOPICS: Handler("create_topics", range(2, 8), flexible_since=5),
    ApiKey.DELETE_TOPICS: Handler("delete_topics", range(1, 7), flexible_since=4),
    ApiKey.DELETE_RECORDS: Handler("delete_records", range(0, 3), flexible_since=2),
    ApiKey.INIT_PRODUCER_ID: Handler("init_producer_id", range(0, 6), flexible_since=2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler("offset_for_leader_epoch", range(2, 5), flexible_since=4),
    ApiKey.DESCRIBE_CONFIGS: Handler("describe_configs", range(1, 5), flexible_since=4),
    ApiKey.ALTER_CONFIGS: Handler("alter_configs", range(0, 3), flexible_since=2),
    ApiKey.DESCRIBE_LOG_DIRS: Handler("describe_log_dirs", range(1, 6), flexible_since=2),
    ApiKey.CREATE_PARTITIONS: Handler("create_partitions", range(0, 4), flexible_since=2),
    ApiKey.DELETE_GROUPS: Handler("delete_groups", range(0, 3), flexible_since=2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler("incremental_alter_configs", range(0, 2), flexible_since=1),
    ApiKey.OFFSET_DELETE: Handler("offset_delete", range(0, 1), flexible_since=None),
    ApiKey.DESCRIBE_CLUSTER: Handler("describe_cluster", range(0, 3), flexible_since=0),
    ApiKey.DESCRIBE_PRODUCERS: Handler("describe_producers", range(0, 1), flexible_since=0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler("consumer_group_heartbeat", range(0, 2), flexible_since=0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Handler("consumer_group_describe", range(0, 2), flexible_since=0),
    ApiKey.LIST_CONFIG_RESOURCES: Handler("list_config_resources", range(0, 2), flexible_since=0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler("describe_topic_partitions", range(0, 1), flexible_since=0),
}
