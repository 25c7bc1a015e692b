"""The APIs that are served. Dispatch, version checks, ApiVersions and the table in the docs come from here.

A row says which versions are advertised, on which listeners the API answers, and which permissions a call needs once
there are ACLs: each entry of `authorize` is checked where the request names a resource of that kind, as in Kafka.
Nothing is enforced so far.
"""

from collections.abc import Callable
from typing import Any

from barnabas.broker.authorization import Access, AclOperation, AclResource
from barnabas.broker.network.session import ListenerType
from barnabas.protocol.api_keys import ApiKey

ON_BROKERS = (ListenerType.BROKER,)
ON_CONTROLLERS = (ListenerType.CONTROLLER,)
EVERYWHERE = (ListenerType.BROKER, ListenerType.CONTROLLER)


class Handler:
    """One API, handled in the module of that name, which is imported when it is first called: a start needs few.

    `versions` is what ApiVersions lists; of these, the versions that the request declares are served.
    """

    handle: Callable[..., Any]
    request: Any

    def __init__(
        self,
        name: str,
        versions: range,
        *,
        flexible_since: int | None,
        listeners: tuple[ListenerType, ...] = ON_BROKERS,
        authorize: tuple[Access, ...] = (),
    ) -> None:
        self.name = name
        self.versions = versions
        self.flexible_since = flexible_since
        self.listeners = listeners
        self.authorize = authorize

    def __getattr__(self, attribute: str) -> Any:
        """Imports the module when one of its two names is first asked for."""
        if attribute not in ("handle", "request"):
            raise AttributeError(attribute)
        module = __import__(f"{__name__}.{self.name}", fromlist=["handle"])
        self.handle = module.handle
        self.request = getattr(module, "".join(word.capitalize() for word in self.name.split("_")) + "Request")
        return self.__dict__[attribute]


ALTER_CLUSTER = (AclOperation.ALTER, AclResource.CLUSTER)
ALTER_CONFIGS_CLUSTER = (AclOperation.ALTER_CONFIGS, AclResource.CLUSTER)
CLUSTER_ACTION_CLUSTER = (AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
CREATE_CLUSTER = (AclOperation.CREATE, AclResource.CLUSTER)
DESCRIBE_CLUSTER = (AclOperation.DESCRIBE, AclResource.CLUSTER)
DESCRIBE_CONFIGS_CLUSTER = (AclOperation.DESCRIBE_CONFIGS, AclResource.CLUSTER)
IDEMPOTENT_WRITE_CLUSTER = (AclOperation.IDEMPOTENT_WRITE, AclResource.CLUSTER)
ALTER_CONFIGS_GROUP = (AclOperation.ALTER_CONFIGS, AclResource.GROUP)
DELETE_GROUP = (AclOperation.DELETE, AclResource.GROUP)
DESCRIBE_GROUP = (AclOperation.DESCRIBE, AclResource.GROUP)
DESCRIBE_CONFIGS_GROUP = (AclOperation.DESCRIBE_CONFIGS, AclResource.GROUP)
READ_GROUP = (AclOperation.READ, AclResource.GROUP)
ALTER_TOPIC = (AclOperation.ALTER, AclResource.TOPIC)
ALTER_CONFIGS_TOPIC = (AclOperation.ALTER_CONFIGS, AclResource.TOPIC)
CREATE_TOPIC = (AclOperation.CREATE, AclResource.TOPIC)
DELETE_TOPIC = (AclOperation.DELETE, AclResource.TOPIC)
DESCRIBE_TOPIC = (AclOperation.DESCRIBE, AclResource.TOPIC)
DESCRIBE_CONFIGS_TOPIC = (AclOperation.DESCRIBE_CONFIGS, AclResource.TOPIC)
READ_TOPIC = (AclOperation.READ, AclResource.TOPIC)
WRITE_TOPIC = (AclOperation.WRITE, AclResource.TOPIC)
DESCRIBE_TRANSACTIONAL_ID = (AclOperation.DESCRIBE, AclResource.TRANSACTIONAL_ID)
WRITE_TRANSACTIONAL_ID = (AclOperation.WRITE, AclResource.TRANSACTIONAL_ID)


def _between_nodes(name: str, versions: range) -> Handler:
    """Returns the row of an API with which the nodes of a cluster ask their controller."""
    return Handler(name, versions, flexible_since=0, listeners=ON_CONTROLLERS, authorize=(CLUSTER_ACTION_CLUSTER,))


HANDLERS = {
    ApiKey.PRODUCE: Handler(
        "produce",
        range(0, 14),
        flexible_since=9,
        authorize=(WRITE_TOPIC, WRITE_TRANSACTIONAL_ID),
    ),
    ApiKey.FETCH: Handler(
        "fetch",
        range(4, 19),
        flexible_since=12,
        listeners=EVERYWHERE,
        authorize=(READ_TOPIC, CLUSTER_ACTION_CLUSTER),
    ),
    ApiKey.LIST_OFFSETS: Handler("list_offsets", range(1, 12), flexible_since=6, authorize=(DESCRIBE_TOPIC,)),
    ApiKey.METADATA: Handler(
        "metadata",
        range(0, 14),
        flexible_since=9,
        authorize=(DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_CLUSTER),
    ),
    ApiKey.OFFSET_COMMIT: Handler(
        "offset_commit",
        range(2, 11),
        flexible_since=8,
        authorize=(READ_GROUP, READ_TOPIC),
    ),
    ApiKey.OFFSET_FETCH: Handler(
        "offset_fetch",
        range(1, 11),
        flexible_since=6,
        authorize=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ),
    ApiKey.FIND_COORDINATOR: Handler(
        "find_coordinator",
        range(0, 7),
        flexible_since=3,
        authorize=(DESCRIBE_GROUP, DESCRIBE_TRANSACTIONAL_ID),
    ),
    ApiKey.JOIN_GROUP: Handler("join_group", range(0, 10), flexible_since=6, authorize=(READ_GROUP,)),
    ApiKey.HEARTBEAT: Handler("heartbeat", range(0, 5), flexible_since=4, authorize=(READ_GROUP,)),
    ApiKey.LEAVE_GROUP: Handler("leave_group", range(0, 6), flexible_since=4, authorize=(READ_GROUP,)),
    ApiKey.SYNC_GROUP: Handler("sync_group", range(0, 6), flexible_since=4, authorize=(READ_GROUP,)),
    ApiKey.DESCRIBE_GROUPS: Handler("describe_groups", range(0, 7), flexible_since=5, authorize=(DESCRIBE_GROUP,)),
    ApiKey.LIST_GROUPS: Handler(
        "list_groups",
        range(0, 6),
        flexible_since=3,
        authorize=(DESCRIBE_CLUSTER, DESCRIBE_GROUP),
    ),
    ApiKey.API_VERSIONS: Handler("api_versions", range(0, 6), flexible_since=3, listeners=EVERYWHERE),
    ApiKey.CREATE_TOPICS: Handler(
        "create_topics",
        range(2, 8),
        flexible_since=5,
        listeners=EVERYWHERE,
        authorize=(CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC),
    ),
    ApiKey.DELETE_TOPICS: Handler(
        "delete_topics",
        range(1, 7),
        flexible_since=4,
        listeners=EVERYWHERE,
        authorize=(DELETE_TOPIC, DESCRIBE_TOPIC),
    ),
    ApiKey.DELETE_RECORDS: Handler("delete_records", range(0, 3), flexible_since=2, authorize=(DELETE_TOPIC,)),
    ApiKey.INIT_PRODUCER_ID: Handler(
        "init_producer_id",
        range(0, 6),
        flexible_since=2,
        authorize=(WRITE_TRANSACTIONAL_ID, IDEMPOTENT_WRITE_CLUSTER, WRITE_TOPIC),
    ),
    ApiKey.WRITE_TXN_MARKERS: Handler(
        "write_txn_markers",
        range(1, 3),
        flexible_since=1,
        authorize=(ALTER_CLUSTER, CLUSTER_ACTION_CLUSTER),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(
        "offset_for_leader_epoch",
        range(2, 5),
        flexible_since=4,
        authorize=(DESCRIBE_TOPIC, CLUSTER_ACTION_CLUSTER),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: Handler(
        "add_partitions_to_txn",
        range(0, 6),
        flexible_since=3,
        authorize=(WRITE_TRANSACTIONAL_ID, WRITE_TOPIC, CLUSTER_ACTION_CLUSTER),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: Handler(
        "add_offsets_to_txn",
        range(0, 5),
        flexible_since=3,
        authorize=(WRITE_TRANSACTIONAL_ID, READ_GROUP),
    ),
    ApiKey.END_TXN: Handler("end_txn", range(0, 6), flexible_since=3, authorize=(WRITE_TRANSACTIONAL_ID,)),
    ApiKey.TXN_OFFSET_COMMIT: Handler(
        "txn_offset_commit",
        range(0, 7),
        flexible_since=3,
        authorize=(WRITE_TRANSACTIONAL_ID, READ_GROUP, READ_TOPIC),
    ),
    ApiKey.DESCRIBE_ACLS: Handler(
        "describe_acls",
        range(1, 4),
        flexible_since=2,
        listeners=EVERYWHERE,
        authorize=(DESCRIBE_CLUSTER,),
    ),
    ApiKey.CREATE_ACLS: Handler(
        "create_acls",
        range(1, 4),
        flexible_since=2,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.DELETE_ACLS: Handler(
        "delete_acls",
        range(1, 4),
        flexible_since=2,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.DESCRIBE_CONFIGS: Handler(
        "describe_configs",
        range(1, 5),
        flexible_since=4,
        listeners=EVERYWHERE,
        authorize=(DESCRIBE_CONFIGS_CLUSTER, DESCRIBE_CONFIGS_TOPIC, DESCRIBE_CONFIGS_GROUP),
    ),
    ApiKey.ALTER_CONFIGS: Handler(
        "alter_configs",
        range(0, 3),
        flexible_since=2,
        listeners=EVERYWHERE,
        authorize=(ALTER_CONFIGS_CLUSTER, ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP),
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Handler(
        "alter_replica_log_dirs",
        range(1, 3),
        flexible_since=2,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.DESCRIBE_LOG_DIRS: Handler(
        "describe_log_dirs",
        range(1, 6),
        flexible_since=2,
        authorize=(DESCRIBE_CLUSTER,),
    ),
    ApiKey.CREATE_PARTITIONS: Handler(
        "create_partitions",
        range(0, 4),
        flexible_since=2,
        listeners=EVERYWHERE,
        authorize=(ALTER_TOPIC,),
    ),
    ApiKey.DELETE_GROUPS: Handler("delete_groups", range(0, 4), flexible_since=2, authorize=(DELETE_GROUP,)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(
        "incremental_alter_configs",
        range(0, 2),
        flexible_since=1,
        listeners=EVERYWHERE,
        authorize=(ALTER_CONFIGS_CLUSTER, ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_GROUP),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Handler(
        "alter_partition_reassignments",
        range(0, 2),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Handler(
        "list_partition_reassignments",
        range(0, 1),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(DESCRIBE_CLUSTER,),
    ),
    ApiKey.OFFSET_DELETE: Handler(
        "offset_delete",
        range(0, 1),
        flexible_since=None,
        authorize=(DELETE_GROUP, READ_TOPIC),
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Handler(
        "describe_client_quotas",
        range(0, 2),
        flexible_since=1,
        authorize=(DESCRIBE_CONFIGS_CLUSTER,),
    ),
    ApiKey.DESCRIBE_CLUSTER: Handler(
        "describe_cluster",
        range(0, 3),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(DESCRIBE_CLUSTER,),
    ),
    ApiKey.DESCRIBE_PRODUCERS: Handler("describe_producers", range(0, 1), flexible_since=0, authorize=(READ_TOPIC,)),
    ApiKey.DESCRIBE_TRANSACTIONS: Handler(
        "describe_transactions",
        range(0, 1),
        flexible_since=0,
        authorize=(DESCRIBE_TRANSACTIONAL_ID, DESCRIBE_TOPIC),
    ),
    ApiKey.LIST_TRANSACTIONS: Handler(
        "list_transactions", range(0, 3), flexible_since=0, authorize=(DESCRIBE_TRANSACTIONAL_ID,)
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler(
        "consumer_group_heartbeat",
        range(0, 2),
        flexible_since=0,
        authorize=(READ_GROUP, DESCRIBE_TOPIC),
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Handler(
        "consumer_group_describe",
        range(0, 2),
        flexible_since=0,
        authorize=(DESCRIBE_GROUP, DESCRIBE_TOPIC),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: Handler(
        "list_config_resources",
        range(0, 2),
        flexible_since=0,
        authorize=(DESCRIBE_CONFIGS_CLUSTER,),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(
        "describe_topic_partitions",
        range(0, 1),
        flexible_since=0,
        authorize=(DESCRIBE_TOPIC,),
    ),
    ApiKey.ELECT_LEADERS: Handler(
        "elect_leaders",
        range(0, 3),
        flexible_since=2,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.VOTE: _between_nodes("vote", range(0, 3)),
    ApiKey.BEGIN_QUORUM_EPOCH: Handler(
        "begin_quorum_epoch",
        range(0, 2),
        flexible_since=1,
        listeners=ON_CONTROLLERS,
        authorize=(CLUSTER_ACTION_CLUSTER,),
    ),
    ApiKey.END_QUORUM_EPOCH: Handler(
        "end_quorum_epoch",
        range(0, 2),
        flexible_since=1,
        listeners=ON_CONTROLLERS,
        authorize=(CLUSTER_ACTION_CLUSTER,),
    ),
    ApiKey.DESCRIBE_QUORUM: Handler(
        "describe_quorum",
        range(0, 3),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(DESCRIBE_CLUSTER,),
    ),
    ApiKey.ALTER_PARTITION: _between_nodes("alter_partition", range(2, 4)),
    ApiKey.UPDATE_FEATURES: Handler(
        "update_features",
        range(0, 3),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.ENVELOPE: _between_nodes("envelope", range(0, 1)),
    ApiKey.FETCH_SNAPSHOT: _between_nodes("fetch_snapshot", range(0, 2)),
    ApiKey.BROKER_REGISTRATION: _between_nodes("broker_registration", range(0, 5)),
    ApiKey.BROKER_HEARTBEAT: _between_nodes("broker_heartbeat", range(0, 3)),
    ApiKey.UNREGISTER_BROKER: Handler(
        "unregister_broker",
        range(0, 1),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.ALLOCATE_PRODUCER_IDS: _between_nodes("allocate_producer_ids", range(0, 1)),
    ApiKey.CONTROLLER_REGISTRATION: _between_nodes("controller_registration", range(0, 1)),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: _between_nodes("assign_replicas_to_dirs", range(0, 1)),
    ApiKey.ADD_RAFT_VOTER: Handler(
        "add_raft_voter",
        range(0, 2),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.REMOVE_RAFT_VOTER: Handler(
        "remove_raft_voter",
        range(0, 1),
        flexible_since=0,
        listeners=EVERYWHERE,
        authorize=(ALTER_CLUSTER,),
    ),
    ApiKey.UPDATE_RAFT_VOTER: _between_nodes("update_raft_voter", range(0, 1)),
}
