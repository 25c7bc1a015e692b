"""What Kafka's tools are asked of partitions that three brokers replicate: while all are there, while the third is
frozen and has lost its session, and after it came back."""

from compat_tests.tools.invocation import Invocation, ask, of, wrong

SAFE, STRICT = "1:2:3,2:3:1,3:1:2", "3:1:2"
TOPICS = of(
    "TopicCommand",
    ask(f"--create --topic safe --replica-assignment {SAFE} --config min.insync.replicas=2", "three replicas"),
    ask(f"--create --topic strict --replica-assignment {STRICT} --config min.insync.replicas=3", "all are needed"),
    ask("--create --topic lonely --replica-assignment 3", "one replica"),
    ask("--create --topic pair --replica-assignment 3:2 --config min.insync.replicas=1", "two replicas"),
    wrong("--create --topic twice --replica-assignment 1:1", "one broker twice"),
    ask("--describe", "who leads and who is in sync"),
)
TROUBLES = of(
    "TopicCommand",
    ask("--describe", "who leads, who is in sync, and who is eligible to lead"),
    ask("--describe --under-replicated-partitions", "some replica is missing"),
    ask("--describe --under-min-isr-partitions", "too few for acks=all"),
    ask("--describe --at-min-isr-partitions", "just enough"),
    ask("--describe --unavailable-partitions", "nobody leads"),
)

WRITE = of(
    "ConsoleProducer",
    ask(
        "--sync --timeout 0 --topic safe --producer-property acks=all --reader-property parse.key=true",
        "records for all replicas",
        stdin="".join(f"k{number}\tv{number}\n" for number in range(30)),
    ),
)
READ = of(
    "consumer.ConsoleConsumer",
    ask("--topic safe --from-beginning --partition 2 --timeout-ms 3000", "what was acknowledged"),
)
VERIFICATION = of(
    "ReplicaVerificationTool",
    ask(
        "--topics-include safe --time -2 --report-interval-ms 500",
        "all replicas hold the same",
        until=r"max lag is 0 for partition",
        varies=r"(?s).*max lag is 0 for partition safe-\d at offset \d+",
    ),
)

ASSIGNMENT = r"(?m)^\{.*\}$"  # the broker that gets the first replica is chosen by chance
REASSIGN = "reassign.ReassignPartitionsCommand"
REASSIGNMENT = of(
    REASSIGN,
    ask(
        "--generate --topics-to-move-json-file {files}/topics.json --broker-list 1,2,3",
        "a plan",
        varies=ASSIGNMENT,
    ),
    ask(
        "--execute --reassignment-json-file {files}/moved.json --throttle 20000000",
        "one replica is added, not too fast",
    ),
    ask("--verify --reassignment-json-file {files}/moved.json --preserve-throttles", "it is there"),
)
THROTTLES = of(
    "kafka.admin.ConfigCommand",
    ask("--describe --entity-type brokers --entity-name 2", "the rates"),
    ask("--describe --entity-type topics --entity-name pair", "the replicas"),
)
WAY_BACK = of(
    REASSIGN,
    ask("--verify --reassignment-json-file {files}/moved.json", "it is there, and the throttles are gone"),
    ask("--list", "nothing moves any more"),
    ask("--execute --reassignment-json-file {files}/back.json --throttle 10000000", "it moves back, not too fast"),
    ask("--verify --reassignment-json-file {files}/back.json", "it is back, and the throttles are gone"),
    ask("--cancel --reassignment-json-file {files}/back.json", "nothing is left to cancel"),
    wrong("--execute --reassignment-json-file {files}/nowhere.json", "a broker that is not there"),
)
UNDER_WAY = of(
    REASSIGN,
    ask("--list", "one waits for a broker that is not there"),
    ask("--verify --reassignment-json-file {files}/stuck.json --preserve-throttles", "it is under way"),
    ask("--cancel --reassignment-json-file {files}/stuck.json --preserve-throttles", "it is given up"),
    ask("--list", "nothing moves"),
)

PREFERRED = of(
    "LeaderElectionCommand",
    ask("--election-type preferred --all-topic-partitions", "the first replicas lead", in_any_order=True),
    ask("--election-type preferred --topic safe --partition 2", "it leads already"),
)
NOT_ELECTED = of(
    "LeaderElectionCommand",
    wrong("--election-type preferred --topic safe --partition 2", "its first replica is not there"),
    wrong("--election-type unclean --topic lonely --partition 0", "it has no other replica"),
    ask("--election-type unclean --topic safe --partition 0", "it has a leader"),
)
UNCLEAN = (
    *of("TopicCommand", ask("--describe --topic pair", "nobody is in sync: who is gone is eligible")),
    *of("LeaderElectionCommand", ask("--election-type unclean --topic pair --partition 0", "who is left leads")),
    *of("TopicCommand", ask("--describe --topic pair", "who leads is in sync")),
)
LOG_DIRS = of(
    "LogDirsCommand",
    ask("--describe --topic-list safe,pair", "every replica, to the byte"),
    ask("--describe --broker-list 2 --topic-list safe", "of one broker"),
)

REASSIGNED = (*REASSIGNMENT, *THROTTLES, *WAY_BACK, *THROTTLES)

ALL_THERE: tuple[Invocation, ...] = (*TOPICS, *WRITE, *LOG_DIRS, *VERIFICATION, *REASSIGNED)
ONE_FROZEN: tuple[Invocation, ...] = (*TROUBLES, *NOT_ELECTED, *WRITE, *READ)
ONE_WAITS_FOR_IT: tuple[Invocation, ...] = UNDER_WAY
BACK: tuple[Invocation, ...] = (*TROUBLES, *PREFERRED, *of("TopicCommand", ask("--describe", "as it was at first")))


def assignment(topic: str, *replicas: list[int]) -> str:
    """Returns a plan as the tool reads it."""
    partitions = ",".join(
        f'{{"topic":"{topic}","partition":{partition},"replicas":{on}}}' for partition, on in enumerate(replicas)
    )
    return f'{{"version":1,"partitions":[{partitions}]}}'


FILES = {
    "topics.json": '{"version":1,"topics":[{"topic":"safe"}]}',
    "moved.json": assignment("pair", [1, 2, 3]),
    "back.json": assignment("pair", [3, 2]),
    "nowhere.json": assignment("pair", [3, 9]),
    "stuck.json": assignment("alone", [1, 3]),
}
