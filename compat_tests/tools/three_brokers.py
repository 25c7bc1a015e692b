"""What Kafka's tools are asked of three brokers. Replicas are assigned by hand: others are placed by chance."""

from compat_tests.tools.cluster_tables import QUORUM_STATUS
from compat_tests.tools.invocation import Invocation, ask, of, wrong

COORDINATOR = r"(?<=<port> \()\d(?=\))"  # the one partition of the groups is on any of them
TOPICS = of(
    "TopicCommand",
    ask("--create --topic spread --replica-assignment 1,2,3", "a partition on each broker"),
    ask("--create --topic wide --partitions 7", "where they please"),
    wrong("--create --topic far --partitions 1 --replication-factor 4", "more replicas than brokers"),
    wrong("--create --topic far --replica-assignment 1,9", "a broker that is not there"),
    ask("--describe --topic spread", "who leads what"),
    ask("--alter --topic spread --partitions 4 --replica-assignment 1,2,3,2", "one more, on the second"),
    wrong("--alter --topic spread --partitions 5 --replica-assignment 1,2,3,2,9", "not where no broker is"),
    ask("--describe --topic spread", "and where it is"),
    ask("--describe --topic wide", "seven", varies=r"(?<=Leader: )\d|(?<=Replicas: )[\d,]+|(?<=Isr: )[\d,]+"),
    ask("--list", "all topics"),
    ask("--describe --at-min-isr-partitions --topic spread", "replicas at the minimum"),
    ask("--describe --unavailable-partitions", "without a leader"),
    ask("--describe --under-replicated-partitions", "out of sync"),
)

RECORDS = (
    *of(
        "ConsoleProducer",
        ask(
            "--sync --timeout 0 --topic spread --reader-property parse.key=true",
            "records for every broker",
            stdin="".join(f"k{number}\tv{number}\n" for number in range(12)),
        ),
    ),
    *of(
        "consumer.ConsoleConsumer",
        ask(
            "--topic spread --from-beginning --max-messages 12 --group readers "
            "--formatter-property print.partition=true --formatter-property print.offset=true",
            "from every broker, in a group",
            in_any_order=True,
        ),
    ),
    *of(
        "GetOffsetShell",
        ask("--topic spread", "the ends"),
        ask("--topic spread --time earliest", "the beginnings"),
    ),
    *of(
        "DeleteRecordsCommand",
        ask("--offset-json-file {files}/delete-spread.json", "on two brokers", in_any_order=True),
    ),
    *of("GetOffsetShell", ask("--topic spread --time earliest", "as it was told")),
)

GROUPS = of(
    "consumer.group.ConsumerGroupCommand",
    ask("--list", "from whoever coordinates it"),
    ask("--describe --group readers", "offsets and lags", in_any_order=True),
    ask("--describe --group readers --state", "who coordinates it", varies=COORDINATOR),
    ask("--reset-offsets --group readers --topic spread --to-latest --execute", "the ends", in_any_order=True),
    wrong("--describe --group missing", "a group that is not there"),
    ask("--delete --group readers", "a group goes"),
)

ON_2, DEFAULT = "--entity-type brokers --entity-name 2", "--entity-type brokers --entity-default"
SPREAD = "--entity-type topics --entity-name spread"
CONFIGS = of(
    "kafka.admin.ConfigCommand",
    ask(f"--alter {SPREAD} --add-config retention.ms=700000", "a topic on all of them"),
    ask(f"--describe {SPREAD}", "as it was set"),
    ask(f"--describe {ON_2}", "nothing was changed at run time"),
    ask(f"--alter {ON_2} --add-config message.max.bytes=2000000", "of one broker"),
    ask(f"--describe {ON_2}", "which tells it itself"),
    ask("--describe --entity-type brokers --entity-name 3", "and of no other"),
    ask(f"--alter {DEFAULT} --add-config message.max.bytes=3000000", "of all"),
    ask(f"--describe {DEFAULT}", "as it was set"),
    ask(f"--describe {ON_2}", "its own is stronger"),
    ask("--describe --entity-type brokers --entity-name 3", "and the default elsewhere"),
    ask(f"--alter {ON_2} --delete-config message.max.bytes", "its own goes"),
    ask(f"--describe {ON_2}", "and leaves the default"),
    wrong(f"--alter {ON_2} --add-config message.max.bytes=many", "a value of the wrong type"),
    wrong("--alter --entity-type brokers --entity-name 9 --add-config message.max.bytes=1", "of no broker"),
)

REPLICATION = r"(?m)^\d \S{22} \d+ \d+ \S+ \S+"
QUORUM = of(
    "MetadataQuorumCommand",
    ask("describe --status", "who leads the quorum", varies=QUORUM_STATUS),
    ask("describe --replication", "who follows", varies=REPLICATION, in_any_order=True),
    ask("describe --replication --human-readable", "in words", varies=r"(?m)^\d \S{22} .* ago", in_any_order=True),
    wrong("remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ", "no such voter"),
)

CLUSTER = (
    *of("BrokerApiVersionsCommand", ask("", "all of them the same", in_any_order=True)),
    *of(
        "ClusterTool",
        ask("cluster-id", "who are we"),
        ask("list-endpoints", "where are we", in_any_order=True),
        wrong("unregister --id 7", "a broker that never was"),
    ),
    *of(
        "FeatureCommand",
        ask("describe", "which features are in use", varies=r"Epoch: \d+"),
        ask("upgrade --feature group.version=1", "one that is as it is to be"),
        wrong("upgrade --feature group.version=99", "further than brokers go"),
        wrong("downgrade --feature no.such.feature=0", "one that is not there"),
    ),
    *of("LogDirsCommand", ask("--describe --topic-list spread", "sizes, to the byte")),
    *of("LogDirsCommand", ask("--describe --broker-list 2 --topic-list spread", "of one broker")),
    *of(
        "LeaderElectionCommand",
        ask("--election-type preferred --all-topic-partitions", "they lead already"),
        wrong("--election-type preferred --topic missing --partition 0", "a topic that is not there"),
    ),
    *of("reassign.ReassignPartitionsCommand", ask("--list", "nothing moves")),
    *of("TopicCommand", ask("--delete --topic wide", "a topic goes, on all brokers"), ask("--list", "it is gone")),
)

THREE_BROKERS: tuple[Invocation, ...] = (*TOPICS, *RECORDS, *GROUPS, *CONFIGS, *QUORUM, *CLUSTER)

PARTITIONS = ",".join(f'{{"topic":"spread","partition":{partition},"offset":1}}' for partition in (0, 1))
FILES = {"delete-spread.json": f'{{"version":1,"partitions":[{PARTITIONS}]}}'}
