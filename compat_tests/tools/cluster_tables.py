"""Configurations, the cluster, transactions and measurements."""

from compat_tests.tools.invocation import Invocation, ask, of, rarely, wrong

ORDERS = "--entity-type topics --entity-name orders"
READERS = "--entity-type groups --entity-name readers"
CONFIGS = of(
    "kafka.admin.ConfigCommand",
    ask(f"--describe {ORDERS}", "what was set"),
    ask(f"--describe {ORDERS} --all", "and everything else"),
    ask(f"--alter {ORDERS} --add-config cleanup.policy=[compact,delete],retention.bytes=77", "a list"),
    ask(f"--alter {ORDERS} --delete-config retention.ms", "back to the default"),
    wrong(f"--alter {ORDERS} --add-config retention.ms=soon", "a value of the wrong type"),
    wrong(f"--alter {ORDERS} --add-config no.such.key=1", "an unknown key"),
    rarely(f"--alter {ORDERS} --delete-config segment.ms", "a key that is not set"),
    ask(f"--describe {ORDERS}", "what is left"),
    ask("--describe --entity-type topics --entity-name missing", "a topic that is not there"),
    rarely("--describe --entity-type topics", "of every topic", in_any_order=True),
    ask("--describe --entity-type brokers --entity-name 1", "nothing was changed at run time"),
    rarely("--describe --entity-type brokers --entity-default", "nor for all brokers"),
    ask(f"--alter {READERS} --add-config consumer.session.timeout.ms=50000", "a group has its own"),
    ask(f"--describe {READERS}", "as it was set"),
    rarely("--describe --entity-type client-metrics", "there are none"),
    ask("--describe --entity-type clients", "quotas: there are none"),
    rarely("--describe --entity-type users", "passwords", not_served="DescribeUserScramCredentials"),
    rarely(
        "--alter --entity-type users --entity-name u --add-config producer_byte_rate=1024",
        "a quota",
        not_served="AlterClientQuotas",
    ),
    rarely(
        "--alter --entity-type users --entity-name u --add-config SCRAM-SHA-256=[password=p]",
        "a password",
        not_served="AlterUserScramCredentials",
    ),
)

# The voter of that Kafka is configured, which is level 0 of kraft.version, and ours, alone, listens to no other.
FEATURE_LEVELS = r"Epoch: \d+|(?<=kraft\.version).*(?=Epoch)"
# How far it is and since when, who leads and where; what there is to tell, and of whom, is the same.
QUORUM_STATUS = (
    r"(?<=LeaderId: )\d+|(?<=LeaderEpoch: )\d+|(?<=HighWatermark: )\d+|(?<=MaxFollowerLag: )\d+"
    r"|(?<=MaxFollowerLagTimeMs: )-?\d+|(?<=CONTROLLER://)[\w.:]+|(?<=\"directoryId\": \")[^\"]+"
)

CLUSTER = (
    *of("BrokerApiVersionsCommand", ask("", "what a client of the same version can use")),
    *of(
        "ClusterTool",
        ask("cluster-id", "who are we"),
        rarely("list-endpoints", "where are we"),
        wrong("unregister --id 7", "a broker that never was"),
    ),
    *of(
        "FeatureCommand",
        ask("describe", "which features are in use", varies=FEATURE_LEVELS),
        ask("upgrade --feature group.version=1", "one stays"),
        wrong("upgrade --feature group.version=99", "further than the broker goes"),
    ),
    *of(
        "MetadataQuorumCommand",
        ask("describe --status", "who leads the quorum", varies=rf"(?<=CurrentVoters: ).*|{QUORUM_STATUS}"),
        rarely("describe --replication", "who follows", varies=r"\S{22} \d+(?= 0 <time>)"),
    ),
)

FROM_FILE = "--reassignment-json-file {files}/moves.json"
REPLICAS = (
    *of(
        "LeaderElectionCommand",
        ask("--election-type preferred --path-to-json-file {files}/election.json", "an election"),
        rarely("--election-type preferred --all-topic-partitions", "many"),
    ),
    *of(
        "reassign.ReassignPartitionsCommand",
        rarely("--generate --topics-to-move-json-file {files}/to-move.json --broker-list 1", "a plan"),
        ask(f"--execute {FROM_FILE}", "replicas move"),
        rarely(f"--verify {FROM_FILE}", "did they"),
        ask("--list", "do they"),
    ),
)

SECURITY = (
    *of(
        "AclCommand",
        ask("--list", "who may do what: nobody decides that", fails=True),
        rarely("--add --allow-principal User:u --operation read --topic orders", "nor who else may", fails=True),
        rarely("--remove --force --topic orders", "nor who no longer may", fails=True),
    ),
    *of(
        "DelegationTokenCommand",
        rarely("--describe --command-config {files}/none.properties", "tokens", not_served="DescribeDelegationToken"),
    ),
)

TRANSACTIONS = (
    *of(
        "TransactionsCommand",
        ask("list", "which there are"),
        rarely("describe --transactional-id t", "one of them", fails=True),
        ask("describe-producers --topic packed --partition 0", "who wrote here"),
        rarely("find-hanging --broker-id 1", "nobody hangs"),
        rarely(
            "abort --topic made --partition 0 --producer-id 1 --producer-epoch 0 --coordinator-epoch 0",
            "one that hangs",
        ),
    ),
    *of(
        "TransactionalMessageCopier",
        rarely(
            "--input-topic packed --input-partition 0 --output-topic copied --max-messages 2 --consumer-group copiers "
            "--transaction-size 1 --transactional-id copier",
            "from topic to topic exactly once",
            varies=r"\d{4}/\d\d/\d\d [\d:]+",
        ),
    ),
)

NUMBERS = r"\d[\d.,:]*"
MEASUREMENTS = (
    *of(
        "ProducerPerformance",
        ask("--topic measured --num-records 5000 --record-size 100 --throughput -1", "how fast", varies=NUMBERS),
    ),
    *of(
        "ConsumerPerformance",
        rarely("--topic measured --num-records 5000 --timeout 20000", "and back", varies=NUMBERS),
    ),
    *of(
        "EndToEndLatency",
        rarely(
            "--topic measured-alone --num-records 20 --producer-acks all --record-size 100", "by turns", varies=NUMBERS
        ),
    ),
    *of(
        "VerifiableProducer",
        rarely("--topic verified --max-messages 5", "told one by one", own_process=True, varies=r'_throughput":[\d.]+'),
    ),
    *of(
        "VerifiableConsumer",
        rarely("--topic verified --group-id verifiers --max-messages 5", "and read", own_process=True),
    ),
    *of(
        "ReplicaVerificationTool",
        rarely("--topics-include packed --time -2 --report-interval-ms 100", "are replicas equal", until=r"max lag is"),
    ),
)

CLUSTERS: tuple[Invocation, ...] = (*CONFIGS, *CLUSTER, *REPLICAS, *SECURITY, *TRANSACTIONS, *MEASUREMENTS)
