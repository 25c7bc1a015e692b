"""What a story knows to be there, and random choices among that and what is not there."""

from random import Random
from typing import Any, TypeVar

from compat_tests.differential.batches import Batch, Record
from compat_tests.differential.sides import Answer, Request
from compat_tests.differential.symbols import Symbol

T = TypeVar("T")

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
NO_TIMESTAMP = -1
STRANGE_ID = bytes(range(1, 17))
"""A topic id that no topic has."""
METADATA_TOPIC_ID = bytes(15) + b"\1"
"""The id of Kafka's own log, which clients cannot read."""

INVALID_NAMES = ("", ".", "..", "a b", "a/b", "é", "x" * 250)


class World:
    def __init__(self, random: Random, prefix: str, now_ms: int) -> None:
        self.random = random
        self.prefix = prefix
        self.now_ms = now_ms
        self.topics: dict[str, int] = {}  # and how many partitions they have
        self.topic_ids: dict[str, Symbol] = {}
        self.groups = [f"{prefix}-group-{number}" for number in range(3)]
        self.member_ids: list[Symbol] = []
        self.producer_ids: list[Symbol] = []
        self.session_ids: list[Symbol] = []

    def learn(self, request: Request, answer: Answer) -> None:
        """Remembers what an answer brought into being, or took away."""
        name = request.api.name
        if name == "CreateTopics" and not request.body.get("validateOnly"):
            for topic in answer.get("Topics", ()):
                if topic["ErrorCode"] == 0:
                    self.topics[topic["Name"]] = max(topic.get("NumPartitions", 1), 1)
                    if "TopicId" in topic:
                        self.topic_ids[topic["Name"]] = topic["TopicId"]
        elif name == "DeleteTopics":
            for topic in answer.get("Responses", ()):
                if topic["ErrorCode"] == 0:
                    self.topics.pop(topic["Name"], None)
                    self.topic_ids.pop(topic["Name"], None)
        elif name == "Metadata":
            for topic in answer.get("Topics", ()):
                if topic["Name"] in self.topics and isinstance(topic.get("TopicId"), Symbol):
                    self.topic_ids[topic["Name"]] = topic["TopicId"]
        for field, known in (
            ("MemberId", self.member_ids),
            ("ProducerId", self.producer_ids),
            ("SessionId", self.session_ids),
        ):
            if isinstance(symbol := answer.get(field), Symbol) and symbol not in known:
                known.append(symbol)

    # ---- choices

    def one(self, *values: T) -> T:
        return self.random.choice(values)

    def pick(self, normal: T, *odd: T, p: float = 0.15) -> T:
        """Returns the normal one, or now and then one of the others."""
        return self.random.choice(odd) if odd and self.random.random() < p else normal

    def some(self, make: Any, most: int = 3) -> list[Any]:
        """Returns usually one or two, sometimes none, sometimes one twice."""
        made = [make() for _ in range(self.pick(self.random.randint(1, most), 0, p=0.05))]
        return made + made[:1] if self.random.random() < 0.07 else made

    def flag(self) -> bool:
        return self.random.random() < 0.5

    # ---- topics

    def known_topic(self) -> str:
        return self.random.choice(sorted(self.topics)) if self.topics else f"{self.prefix}-none"

    def topic(self) -> str:
        return self.pick(self.known_topic(), f"{self.prefix}-nope", self.one(*INVALID_NAMES))

    def new_topic(self) -> str:
        """Returns a name that is free, most likely."""
        return f"{self.prefix}-new-{self.random.randrange(40)}"

    def topic_id(self) -> Any:
        known = self.random.choice(sorted(self.topic_ids.values())) if self.topic_ids else STRANGE_ID
        return self.pick(known, STRANGE_ID, bytes(16), METADATA_TOPIC_ID, p=0.12)

    def topic_entry(self, version: int, ids_since: int, name: str = "Name") -> dict[str, Any]:
        """Returns a topic by its name or by its id, as the version has it."""
        return {"TopicId": self.topic_id()} if version >= ids_since else {name: self.topic()}

    def partition(self) -> int:
        return self.pick(self.random.randrange(2), 2, 3, -1, 99, INT32_MAX, p=0.12)

    def leader_epoch(self) -> int:
        return self.pick(-1, 0, 1, -2, 7, INT32_MAX, p=0.25)

    def offset(self) -> int:
        return self.pick(self.random.randrange(12), -1, -2, 100, INT64_MAX, -INT64_MAX, p=0.2)

    # ---- groups

    def group(self) -> str:
        return self.pick(
            self.random.choice(self.groups),
            "",
            f"{self.prefix}-nobody",
            f"{self.prefix}-é",
            self.prefix + "x" * 300,
            p=0.1,
        )

    def member(self) -> Any:
        return self.pick(self.random.choice(self.member_ids) if self.member_ids else "", "", "stranger", p=0.3)

    def instance(self) -> str | None:
        return self.pick(None, "instance-1", "instance-2", "", p=0.15)

    def generation(self) -> int:
        return self.pick(self.one(-1, 0, 1, 2), -2, 7, INT32_MAX)

    # ---- records

    def records(self) -> tuple[Record, ...]:
        return tuple(
            Record(
                key=self.pick(b"key-%d" % self.random.randrange(4), None, b"", p=0.3),
                value=self.pick(b"value" * self.random.randint(1, 30), None, b"", p=0.2),
                headers=self.pick((), (("h", b"x"),), (("h", None), ("", b"")), p=0.2),
                timestamp_delta=self.one(0, number, number * 1_000),
            )
            for number in range(self.random.randint(1, 4))
        )

    def batch(self, **options: Any) -> Batch:
        """Returns a batch that no broker refuses; now and then one without timestamps."""
        timestamp, records = self.now_ms + self.random.randrange(100_000), self.records()
        if self.random.random() < 0.1:
            timestamp, records = NO_TIMESTAMP, tuple(record._replace(timestamp_delta=0) for record in records)
        return Batch(**{"records": records, "timestamp": timestamp, "codec": self.random.randrange(5), **options})
