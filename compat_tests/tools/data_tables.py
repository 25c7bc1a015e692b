"""Topics, records, groups and logs."""

from compat_tests.tools.invocation import Invocation, ask, of, rarely, wrong

FILES = {
    "delete-records.json": '{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}], "version": 1}',
    "delete-too-many.json": '{"partitions": [{"topic": "orders", "partition": 0, "offset": 999}], "version": 1}',
    "election.json": '{"partitions": [{"topic": "orders", "partition": 0}]}',
    "to-move.json": '{"topics": [{"topic": "orders"}], "version": 1}',
    "moves.json": '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}',
    "none.properties": "",
    "reset.csv": "orders,0,1\norders,1,0\n",
}

TOPICS = of(
    "TopicCommand",
    ask("--create --topic orders --partitions 2 --config retention.ms=99999999 --config flush.ms=60000", "configs"),
    wrong("--create --topic orders", "a name that is taken"),
    ask("--create --topic orders --if-not-exists", "and that may be"),
    ask("--create --topic packed --config cleanup.policy=compact", "numbers that are left to the broker"),
    ask("--create --topic placed --replica-assignment 1,1,1", "replicas that are placed by hand"),
    wrong("--create --topic misplaced --replica-assignment 7", "on a broker that is not there"),
    wrong("--create --topic large --replication-factor 3", "more replicas than brokers"),
    wrong("--create --topic 'not a name'", "a name that is none"),
    wrong("--create --topic odd --config retention.ms=never", "a value of the wrong type"),
    wrong("--create --topic odd --config retention.ms=-5", "a value out of range"),
    wrong("--create --topic odd --partitions 0", "no partitions"),
    ask("--alter --topic orders --partitions 3", "more partitions"),
    wrong("--alter --topic orders --partitions 2", "never fewer"),
    wrong("--alter --topic missing --partitions 2", "of a topic that is not there"),
    ask("--list", "all topics"),
    rarely("--list --topic 'p.*'", "those that match"),
    ask("--describe", "every topic", in_any_order=True),
    ask("--describe --topic orders", "one topic"),
    ask("--describe --topic-id {topic_id}", "by its id"),
    wrong("--describe --topic-id AAAAAAAAAAAAAAAAAAAAAQ", "an id that no topic has"),
    wrong("--describe --topic missing", "a topic that is not there"),
    ask("--describe --topics-with-overrides", "what differs from the defaults", in_any_order=True),
    ask("--describe --at-min-isr-partitions", "replicas at the minimum", in_any_order=True),
    rarely("--describe --under-min-isr-partitions", "below it"),
    rarely("--describe --under-replicated-partitions", "out of sync"),
    rarely("--describe --unavailable-partitions", "without a leader"),
    ask("--delete --topic placed", "a topic goes"),
    wrong("--delete --topic missing", "one that is not there"),
    rarely("--delete --topic missing --if-exists", "and need not be"),
)

ALONE = "--sync --timeout 0"  # each record is a batch, and waits for no other
KEYED = "--reader-property parse.key=true"
PRODUCED = of(
    "ConsoleProducer",
    ask(
        f"{ALONE} --topic orders {KEYED} --reader-property parse.headers=true --reader-property null.marker=NULL",
        "keys, headers and tombstones, a batch each",
        stdin="a:1,b:2\tk1\tfirst\nNULL\tk2\tsecond\na:1\tk3\tNULL\nc:\tk4\tfourth\nNULL\tk5\tfifth\n",
    ),
    *(
        ask(
            f"--topic packed --compression-codec {codec} {KEYED}",
            "one batch of this codec",
            stdin=f"{codec}-1\tone\n{codec}-2\ttwo\n",
            everyday=codec in ("none", "zstd"),
        )
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    ),
    ask(f"{ALONE} --topic made", "a topic that is made by writing to it", stdin="one\n"),
    rarely(
        f"{ALONE} --topic made --max-partition-memory-bytes 4000000 --command-property max.request.size=4000000",
        "a record that is larger than the broker takes",
        stdin="x" * 1_500_000 + "\n",
        fails=True,
    ),
)

SHOWN = " ".join(
    f"--formatter-property print.{what}=true" for what in ("key", "headers", "offset", "partition", "timestamp")
)
CONSUMED = of(
    "consumer.ConsoleConsumer",
    ask(f"--topic orders --from-beginning --max-messages 5 {SHOWN}", "all of a topic", in_any_order=True),
    ask(f"--topic packed --partition 0 --offset 1 --max-messages 2 {SHOWN}", "from inside a batch"),
    rarely("--topic packed --partition 0 --offset earliest --max-messages 3 --isolation-level read_committed", "sure"),
    ask("--topic packed --group readers --from-beginning --max-messages 3", "a group that commits"),
    rarely("--topic packed --group readers --max-messages 1 --timeout-ms 5000", "and goes on"),
)

NAMED_BY_CHANCE = r"console-consumer-\d+"
GROUPS = of(
    "consumer.group.ConsumerGroupCommand",
    ask("--list", "all groups", in_any_order=True, varies=NAMED_BY_CHANCE),
    rarely("--list --state --type", "and what they are", in_any_order=True, varies=NAMED_BY_CHANCE),
    ask("--describe --group readers", "offsets and lags", in_any_order=True),
    rarely("--describe --group readers --offsets --verbose", "with leader epochs", in_any_order=True),
    ask("--describe --group readers --members --verbose", "nobody is in it"),
    ask("--describe --group readers --state --verbose", "who coordinates it"),
    wrong("--describe --group missing", "a group that is not there"),
    ask("--reset-offsets --group readers --topic packed --to-latest --dry-run", "what would be"),
    ask("--reset-offsets --group readers --topic packed --shift-by -1 --execute", "one back"),
    rarely("--reset-offsets --group readers --all-topics --to-current --export --dry-run", "as a file"),
    ask("--reset-offsets --group written --from-file {files}/reset.csv --execute", "from one", in_any_order=True),
    rarely("--reset-offsets --group readers --topic missing --to-earliest --dry-run", "of no topic", fails=True),
    ask("--delete-offsets --group readers --topic packed", "offsets go"),
    rarely("--delete-offsets --group missing --topic packed", "of a group that is not there", fails=True),
    ask("--delete --group written", "a group goes"),
    wrong("--delete --group missing", "one that is not there"),
)

OTHER_GROUPS = (
    *of(
        "GroupsCommand",
        ask("--list", "groups of every type", in_any_order=True, varies=NAMED_BY_CHANCE),
        rarely("--list --share", "of one that there is none of"),
    ),
    *of(
        "consumer.group.ShareGroupCommand",
        rarely("--list", "there are none"),
        rarely("--describe --group missing", "nor this one", not_served="ShareGroupDescribe"),
    ),
)

OFFSETS = of(
    "GetOffsetShell",
    ask("--topic-partitions orders,packed:0", "the ends"),
    ask("--topic orders --partitions 0,1 --time earliest", "the beginnings"),
    ask("--topic made --time max-timestamp", "the newest record"),
    rarely("--topic packed --time earliest-local", "what is not in tiered storage"),
    rarely("--topic packed --time latest-tiered", "and what is"),
    rarely("--topic orders --time 1000", "the first after a time"),
    ask("--topic orders --time 99999999999999", "none is that new"),
    wrong("--topic missing", "a topic that is not there"),
)

DELETED_RECORDS = (
    *of(
        "DeleteRecordsCommand",
        ask("--offset-json-file {files}/delete-records.json", "the beginning moves"),
        wrong("--offset-json-file {files}/delete-too-many.json", "not beyond the end"),
    ),
    *of("GetOffsetShell", ask("--topic orders --time earliest", "as it was told")),
)

LOG_DIRS = of(
    "LogDirsCommand",
    ask("--describe --topic-list orders,packed", "sizes, to the byte", varies=r'(?<="packed-0","size":)\d+'),
    rarely("--describe --broker-list 7", "of a broker that is not there", fails=True),
)

FIRST_SEGMENT = "00000000000000000000.log"
PACKED = f"--files {{data}}/packed-0/{FIRST_SEGMENT}"
CHECKSUM = r"crc: \d+"  # of the times too
COMPRESSED = rf"{CHECKSUM}|(?<= size: )\d+|(?<=position: )\d+"  # times take a byte more or less
DUMPED = of(
    "DumpLogSegments",
    ask(f"--deep-iteration --print-data-log {PACKED}", "the same on disk", varies=COMPRESSED),
    ask(
        f"--files {{data}}/orders-1/{FIRST_SEGMENT},{{data}}/orders-2/{FIRST_SEGMENT}",
        "batch by batch",
        varies=CHECKSUM,
    ),
    rarely(f"--max-bytes 100 {PACKED}", "the beginning only", varies=COMPRESSED),
    rarely(f"--skip-record-metadata --print-data-log {PACKED}", "only what was written", varies=COMPRESSED),
)

DATA: tuple[Invocation, ...] = (
    *TOPICS,
    *PRODUCED,
    *CONSUMED,
    *GROUPS,
    *OTHER_GROUPS,
    *OFFSETS,
    *DELETED_RECORDS,
    *LOG_DIRS,
    *DUMPED,
)
