"""Records as they live: idempotent producers, fetch sessions, clocks, compaction's rules, truncation and deletion."""

from typing import Any

from compat_tests.differential.batches import Record
from compat_tests.differential.shapes.records import odd_batch
from compat_tests.differential.stories.anything import WithTopics
from compat_tests.differential.symbols import Symbol
from compat_tests.differential.world import INT32_MAX

TOPIC_CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"message.timestamp.type": "LogAppendTime"},
    {"cleanup.policy": "compact"},
    {"max.message.bytes": "400"},
    {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "200000"},
    {"segment.bytes": "1048576", "index.interval.bytes": "0"},
)


class WithRecords(WithTopics):
    def produce(self, records: Any, *, partition: int = 0, topic: str = "a") -> dict[str, Any]:
        """Returns what the one partition answered, or nothing."""
        version = self.version("Produce", 3)
        name = f"{self.prefix}-{topic}"
        where = {"Name": name} if version < 13 else {"TopicId": self.world.topic_ids[name]}
        data = [{**where, "PartitionData": [{"Index": partition, "Records": records}]}]
        answer = self.ask(
            "Produce", {"Acks": self.random.choice((-1, 1)), "TimeoutMs": 5_000, "TopicData": data}, version
        )
        told: dict[str, Any] = answer["Responses"][0]["PartitionResponses"][0] if answer.get("Responses") else {}
        return told

    def look(self) -> None:
        """Looks at everything that was created, from every side."""
        name = f"{self.prefix}-a"
        version = self.version("Fetch")
        where = {"Topic": name} if version < 13 else {"TopicId": self.world.topic_ids[name]}
        wanted = [{"Partition": 0, "FetchOffset": self.random.choice((0, 0, 1, 3)), "PartitionMaxBytes": 1 << 20}]
        fetched = {"MinBytes": 1, "Topics": [{**where, "Partitions": wanted}]}
        self.ask("Fetch", {**fetched, "IsolationLevel": self.random.randrange(2)}, version)
        version = self.version("ListOffsets", 7)
        times = [{"PartitionIndex": 0, "Timestamp": timestamp} for timestamp in (-1, -2, -3)]
        for asked in (*times, {"PartitionIndex": 0, "Timestamp": self.world.now_ms + self.random.randrange(100_000)}):
            self.ask("ListOffsets", {"ReplicaId": -1, "Topics": [{"Name": name, "Partitions": [asked]}]}, version)
        self.ask("DescribeProducers", {"Topics": [{"Name": name, "PartitionIndexes": [0, 1]}]})
        self.ask("DescribeLogDirs", {"Topics": [{"Topic": name, "Partitions": [0, 1]}]})


class Producers(WithRecords):
    """Idempotent producers: sequences in order, again, out of order and around their end; epochs old and new."""

    def tell(self) -> None:
        self.prepare(self.random.choice(TOPIC_CONFIGS))
        asked = {"TransactionalId": None, "TransactionTimeoutMs": 0}
        producers = [self.ask("InitProducerId", asked)["ProducerId"] for _ in range(2)]
        following = dict.fromkeys(producers, 0)
        for _ in range(14):
            producer = self.random.choice(producers)
            assert isinstance(producer, Symbol)
            batch = self.world.batch(producer_id=producer)
            sequence = self.world.pick(
                following[producer], following[producer] + 1, 0, max(following[producer] - 1, 0), INT32_MAX, p=0.3
            )
            epoch = self.world.pick(0, 1, 2, p=0.1)
            told = self.produce(batch._replace(producer_epoch=epoch, base_sequence=sequence))
            if told.get("ErrorCode") == 0:
                following[producer] = (sequence + len(batch.records)) % (INT32_MAX + 1)
            if self.random.random() < 0.15:
                self.produce(batch._replace(producer_epoch=epoch, base_sequence=sequence))
        self.look()


class Batches(WithRecords):
    """Batches, most of them good, to topics with all sorts of configurations."""

    def tell(self) -> None:
        self.prepare(self.random.choice(TOPIC_CONFIGS))
        for _ in range(10):
            batch = self.world.batch() if self.random.random() < 0.6 else odd_batch(self.world)
            self.produce(batch, partition=self.random.choice((0, 0, 1)))
        large = tuple(Record(key=b"%d" % number, value=bytes(2_000)) for number in range(30))
        self.produce(self.world.batch(records=large))
        self.look()


class Sessions(WithRecords):
    """Incremental fetches: partitions come, change, are forgotten; epochs run on; sessions end."""

    def tell(self) -> None:
        self.prepare()
        version = self.version("Fetch", 7)
        for name in sorted(self.world.topics):
            self.ask("Metadata", {"Topics": [{"Name": name}]}, 12)
        answer = self.fetch(version, 0, 0, {"a": [0, 1], "b": [0]})
        session, epoch = answer.get("SessionId", 0), 1
        for _ in range(10):
            if self.random.random() < 0.4:
                self.produce(self.world.batch(), topic=self.random.choice("ab"))
            wanted = self.world.one({}, {}, {"a": [0]}, {"a": [0, 1], "b": [0]}, {"a": [5]}, {"nope": [0]})
            forgotten = self.world.pick({}, {"a": [1]}, {"b": [0]}, {"nope": [0]}, p=0.3)
            said = self.world.pick(epoch, epoch + 1, epoch - 1, 0, -1, INT32_MAX, p=0.15)
            answer = self.fetch(version, session, said, wanted, forgotten)
            if answer.get("ErrorCode") != 0:
                break
            session = answer["SessionId"]
            epoch = 1 if said == 0 else epoch + 1
            if session == 0:
                break

    def fetch(
        self,
        version: int,
        session: Any,
        epoch: int,
        wanted: dict[str, list[int]],
        forgotten: dict[str, list[int]] | None = None,
    ) -> dict[str, Any]:
        offset = self.random.choice((0, 0, 1, 2, 50))
        topics = [
            {
                **self.entry(version, name),
                "Partitions": [
                    {"Partition": number, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20} for number in numbers
                ],
            }
            for name, numbers in wanted.items()
        ]
        gone = [{**self.entry(version, name), "Partitions": numbers} for name, numbers in (forgotten or {}).items()]
        body = {"MinBytes": 0, "SessionId": session, "SessionEpoch": epoch, "Topics": topics}
        return self.ask("Fetch", {**body, "ForgottenTopicsData": gone}, version)

    def entry(self, version: int, name: str) -> dict[str, Any]:
        full = f"{self.prefix}-{name}"
        return {"Topic": full} if version < 13 else {"TopicId": self.world.topic_ids.get(full, bytes(15) + b"\7")}


class Lifecycle(WithRecords):
    """A topic is written, cut at its beginning, grows, is configured, deleted, and created again under its name."""

    def tell(self) -> None:
        self.prepare()
        name = f"{self.prefix}-a"
        for _ in range(3):
            self.produce(self.world.batch())
        for offset in self.random.sample((1, 2, 3, -1, 99, -2), 3):
            cut = [{"PartitionIndex": 0, "Offset": offset}]
            self.ask("DeleteRecords", {"Topics": [{"Name": name, "Partitions": cut}], "TimeoutMs": 5_000})
            self.look()
        internal = [{"Name": "__consumer_offsets", "Partitions": [{"PartitionIndex": 0, "Offset": 0}]}]
        self.ask("DeleteRecords", {"Topics": internal, "TimeoutMs": 5_000})
        for count in self.random.sample((2, 3, 4), 2):
            more = [{"Name": name, "Count": count, "Assignments": None}]
            self.ask("CreatePartitions", {"Topics": more, "TimeoutMs": 10_000, "ValidateOnly": False})
        self.ask("Metadata", {"Topics": [{"Name": name}]})
        self.produce(self.world.batch(), partition=2)
        old_id = self.world.topic_ids[name]
        by = [{"Name": name}] if self.random.random() < 0.5 else [{"Name": None, "TopicId": old_id}]
        self.ask("DeleteTopics", {"Topics": by, "TimeoutMs": 10_000}, 6)
        self.ask("Metadata", {"Topics": [{"TopicId": old_id, "Name": None}]}, 12)
        again = {"Name": name, "NumPartitions": 1, "ReplicationFactor": 1, "Assignments": [], "Configs": []}
        self.ask("CreateTopics", {"Topics": [again], "timeoutMs": 10_000, "validateOnly": False}, 7)
        stale = [{"TopicId": old_id, "Partitions": [{"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1}]}]
        self.ask("Fetch", {"MinBytes": 1, "Topics": stale}, self.version("Fetch", 13))
        self.produce(self.world.batch())
        self.look()
