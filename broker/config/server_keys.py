"""Broker keys about the server itself: who it is, where it listens, what it lets in, its metadata, and `barnabas.*`."""

from barnabas.base.config_def import (
    Config,
    UpdateMode,
    Validator,
    at_least,
    boolean,
    filled,
    int32,
    list_of,
    long,
    string,
    string_list,
)
from barnabas.broker.config.quota_keys import ReplicationQuotaKeys

INT_MAX = 2**31 - 1


class IdentityKeys(Config):
    node_id: int = int32("node.id", 1, at_least(0), "This broker's number in the cluster; no two are alike.")
    broker_id: int = int32("broker.id", -1, "The old name of node.id; if both are given they must agree.")
    broker_rack: str | None = string(
        "broker.rack", None, "Where the broker stands; replicas of a partition are spread over racks."
    )
    process_roles: tuple[str, ...] = string_list(
        "process.roles",
        ("broker", "controller"),
        list_of("broker", "controller", minimum=1),
        "The parts this process plays: broker, controller, or both.",
    )
    log_dirs: tuple[str, ...] = string_list(
        "log.dirs", ("./data",), filled(1), "The directories that hold the logs; each should be on a disk of its own."
    )
    log_dir: tuple[str, ...] = string_list(
        "log.dir", ("./data",), filled(1), "Stands in for log.dirs where that is not set."
    )


class ListenerKeys(Config):
    listeners: tuple[str, ...] = string_list(
        "listeners",
        ("PLAINTEXT://127.0.0.1:9092",),
        filled(1),
        "The addresses to bind, as NAME://host:port. An empty host is every interface, port 0 any free port.",
    )
    advertised_listeners: tuple[str, ...] | None = string_list(
        "advertised.listeners",
        None,
        filled(1),
        "The addresses that clients dial. Not set: each client gets the address that it dialled.",
    )
    listener_security_protocol_map: str = string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name, as NAME:PROTOCOL pairs. Only PLAINTEXT is supported so far.",
    )
    inter_broker_listener_name: str | None = string(
        "inter.broker.listener.name",
        None,
        "The listener that brokers dial each other on; not set: the first for clients.",
    )
    controller_listener_names: tuple[str, ...] = string_list(
        "controller.listener.names",
        ("CONTROLLER",),
        filled(1),
        "The listeners that belong to the controller: other nodes dial them, clients do not.",
    )


class SocketKeys(Config):
    socket_request_max_bytes: int = int32(
        "socket.request.max.bytes", 104_857_600, at_least(1), "The largest request; a larger one closes its connection."
    )
    socket_listen_backlog_size: int = int32(
        "socket.listen.backlog.size", 50, at_least(1), "How many connections may wait to be accepted."
    )
    socket_send_buffer_bytes: int = int32(
        "socket.send.buffer.bytes", -1, "The kernel's send buffer of a connection; -1 lets the system adapt it."
    )
    socket_receive_buffer_bytes: int = int32(
        "socket.receive.buffer.bytes", -1, "The kernel's receive buffer of a connection; -1 lets the system adapt it."
    )
    max_connections: int = int32(
        "max.connections",
        INT_MAX,
        at_least(0),
        "How many connections the broker holds at once; further ones are closed as they arrive.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    max_connections_per_ip: int = int32(
        "max.connections.per.ip",
        INT_MAX,
        at_least(0),
        "How many connections one address may hold; 0 admits only those that the overrides name.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides: str = string(
        "max.connections.per.ip.overrides",
        "",
        "Addresses with a limit of their own, as address:connections pairs.",
        update_mode=UpdateMode.CLUSTER_WIDE,
    )
    max_connection_creation_rate: int = int32(
        "max.connection.creation.rate",
        INT_MAX,
        at_least(0),
        "How many connections may be opened in a second.",
        update_mode=UpdateMode.CLUSTER_WIDE,
        honoured=False,
    )
    connections_max_idle_ms: int = long(
        "connections.max.idle.ms", 600_000, "A connection that is silent for so long is closed; negative is never."
    )
    queued_max_requests: int = int32(
        "queued.max.requests",
        500,
        at_least(1),
        "How many requests wait for a thread. There is no such queue here: a busy client is simply read later.",
        honoured=False,
    )
    queued_max_request_bytes: int = long(
        "queued.max.request.bytes", -1, "How many bytes of requests wait for a thread; -1 is no limit.", honoured=False
    )


class TopicKeys(Config):
    auto_create_topics_enable: bool = boolean(
        "auto.create.topics.enable",
        True,
        "Create a topic when a client asks for one that does not exist and allows it.",
    )
    delete_topic_enable: bool = boolean("delete.topic.enable", True, "Allow topics to be deleted.")
    num_partitions: int = int32(
        "num.partitions", 1, at_least(1), "The partitions of a topic whose creator names no number."
    )
    default_replication_factor: int = int32(
        "default.replication.factor", 1, "The replicas of a topic whose creator names no number."
    )
    fetch_max_bytes: int = int32(
        "fetch.max.bytes", 57_671_680, at_least(1024), "The most that one fetch is answered with, whatever it asks for."
    )
    max_incremental_fetch_session_cache_slots: int = int32(
        "max.incremental.fetch.session.cache.slots", 1000, at_least(0), "How many fetch sessions are remembered."
    )
    max_request_partition_size_limit: int = int32(
        "max.request.partition.size.limit",
        2000,
        at_least(1),
        "The most partitions one DescribeTopicPartitions returns.",
    )
    request_timeout_ms: int = int32(
        "request.timeout.ms", 30_000, "How long the broker waits for an answer to a request of its own.", honoured=False
    )


class MetadataKeys(Config):
    metadata_log_dir: str | None = string(
        "metadata.log.dir",
        None,
        "Where the metadata log lies; not set: in the first of log.dirs.",
        honoured=False,
    )
    metadata_log_max_record_bytes_between_snapshots: int = long(
        "metadata.log.max.record.bytes.between.snapshots",
        20_971_520,
        at_least(1),
        "A snapshot of the metadata is written once so many bytes of records follow the last.",
    )
    metadata_log_max_snapshot_interval_ms: int = long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        at_least(0),
        "A snapshot is written at the latest so long after the last, if there are new records; 0 is by size alone.",
    )
    metadata_log_segment_bytes: int = int32(
        "metadata.log.segment.bytes", 1_073_741_824, at_least(8_388_608), "The size of a segment of the metadata log."
    )
    metadata_log_segment_ms: int = long(
        "metadata.log.segment.ms", 604_800_000, "The age at which a segment of the metadata log is closed."
    )
    metadata_max_retention_bytes: int = long(
        "metadata.max.retention.bytes",
        104_857_600,
        "How many bytes of metadata segments and snapshots are kept.",
        honoured=False,
    )
    metadata_max_retention_ms: int = long(
        "metadata.max.retention.ms",
        604_800_000,
        "How long metadata segments and snapshots are kept.",
        honoured=False,
    )
    metadata_max_idle_interval_ms: int = int32(
        "metadata.max.idle.interval.ms",
        500,
        at_least(0),
        "How often a quorum writes a no-op record to prove progress. A quorum of one has nobody to prove it to.",
        honoured=False,
    )


class QuorumKeys(Config):
    controller_quorum_voters: tuple[str, ...] = string_list(
        "controller.quorum.voters",
        (),
        filled(),
        "The nodes of the metadata quorum, as id@host:port. Not set: this node alone.",
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = string_list(
        "controller.quorum.bootstrap.servers",
        (),
        filled(),
        "Where to find the metadata quorum, as host:port; its log says who votes.",
    )
    controller_quorum_auto_join_enable: bool = boolean(
        "controller.quorum.auto.join.enable",
        False,
        "Let a controller that does not vote join the voters by itself, where the log says who votes.",
    )
    controller_quorum_election_timeout_ms: int = int32(
        "controller.quorum.election.timeout.ms",
        1000,
        at_least(0),
        "How long a voter waits for a leader to be elected before it stands itself.",
    )
    controller_quorum_election_backoff_max_ms: int = int32(
        "controller.quorum.election.backoff.max.ms",
        1000,
        at_least(0),
        "The longest a voter waits after a lost election.",
    )
    controller_quorum_fetch_timeout_ms: int = int32(
        "controller.quorum.fetch.timeout.ms",
        2000,
        at_least(0),
        "How long a voter goes without a successful fetch before it calls an election.",
    )
    controller_quorum_request_timeout_ms: int = int32(
        "controller.quorum.request.timeout.ms",
        2000,
        at_least(0),
        "How long a request inside the quorum may take.",
    )
    broker_heartbeat_interval_ms: int = int32(
        "broker.heartbeat.interval.ms", 2000, "How often a broker reports to the controller."
    )
    broker_session_timeout_ms: int = int32(
        "broker.session.timeout.ms", 9000, "How long a broker may be silent before it is fenced."
    )
    initial_broker_registration_timeout_ms: int = int32(
        "initial.broker.registration.timeout.ms",
        60_000,
        "How long a start tries to register with the controller before it gives up.",
    )


class LeaderKeys(Config):
    auto_leader_rebalance_enable: bool = boolean(
        "auto.leader.rebalance.enable",
        True,
        "Whether the first replica of a partition leads again by itself, once it is in sync and its broker has run for "
        "five minutes.",
    )
    leader_imbalance_check_interval_seconds: int = long(
        "leader.imbalance.check.interval.seconds",
        300,
        at_least(1),
        "How often the controller looks for such partitions.",
    )
    unclean_leader_election_interval_ms: int = long(
        "unclean.leader.election.interval.ms",
        300_000,
        at_least(1),
        "How often the controller looks for partitions without a leader whose topic allows unclean elections.",
        internal=True,
    )


class ReplicaKeys(Config):
    replica_lag_time_max_ms: int = long(
        "replica.lag.time.max.ms",
        30_000,
        "How long a follower may go without having caught up with its leader before it is out of sync.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        "replica.high.watermark.checkpoint.interval.ms",
        5_000,
        "How often a broker notes on the disk how far its replicated partitions are committed.",
    )
    replica_fetch_max_bytes: int = int32(
        "replica.fetch.max.bytes", 1_048_576, at_least(0), "How much of one partition a follower asks for at once."
    )
    replica_fetch_response_max_bytes: int = int32(
        "replica.fetch.response.max.bytes",
        10_485_760,
        at_least(0),
        "How much of all partitions a follower asks for at once.",
    )
    replica_fetch_wait_max_ms: int = int32(
        "replica.fetch.wait.max.ms", 500, "How long a follower lets the leader wait for records before it answers."
    )
    replica_fetch_min_bytes: int = int32(
        "replica.fetch.min.bytes", 1, "How many bytes the leader waits for before it answers a follower."
    )
    replica_fetch_backoff_ms: int = int32(
        "replica.fetch.backoff.ms",
        1000,
        at_least(0),
        "The longest pause of a follower before it tries a partition again that it could not fetch; the first are "
        "shorter.",
    )
    replica_socket_timeout_ms: int = int32(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for its leader's answer; never longer than 10 s after it was due.",
    )
    replica_selector_class: str | None = string(
        "replica.selector.class",
        None,
        "Who tells a consumer which replica to read: org.apache.kafka.common.replica.RackAwareReplicaSelector sends it "
        "to one in its own rack. Not set: the leader.",
    )


class BarnabasKeys(Config):
    barnabas_min_free_bytes: int = long(
        "barnabas.min.free.bytes",
        -1,
        at_least(-1),
        "The free space below which a disk takes no more of what clients produce, here or by way of another broker, so "
        "that it never fills up; fetches go on. -1 is 64 MiB, or an eighth of the file system if that is less.",
    )
    barnabas_max_open_files: int = int32(
        "barnabas.max.open.files",
        0,
        Validator("0, or at least 16", lambda count: count == 0 or count >= 16),
        "How many files of logs are held open at once; those not used for longest are closed until needed again. 0 is "
        "three quarters of what the system lets the process open (a quarter inside another program), 65,536 at most.",
    )
    barnabas_transaction_first_producer_epoch: int = int32(
        "barnabas.transaction.first.producer.epoch",
        0,
        Validator("between 0 and 32766", lambda epoch: 0 <= epoch <= 32_766),
        "The epoch in which the producer of a new transactional id begins. For tests of what happens when the epochs "
        "of a producer id are used up.",
    )


class ServerKeys(
    IdentityKeys,
    ListenerKeys,
    SocketKeys,
    TopicKeys,
    MetadataKeys,
    QuorumKeys,
    LeaderKeys,
    ReplicaKeys,
    ReplicationQuotaKeys,
    BarnabasKeys,
):
    SCOPE = "broker"
