"""Any request at any time: every API in every version, valid, borderline and wrong."""

from typing import Any

from compat_tests.differential.mutation import NOT_UTF_8, mutated
from compat_tests.differential.schemas import apis
from compat_tests.differential.shapes import SHAPES
from compat_tests.differential.sides import Answer, Request
from compat_tests.differential.story import Arena, Story
from compat_tests.differential.world import World

MAY_WAIT = ("JoinGroup", "SyncGroup")

OFTEN = {
    "Produce": 4,
    "Fetch": 4,
    "ListOffsets": 2,
    "Metadata": 2,
    "CreateTopics": 2,
    "OffsetCommit": 2,
    "OffsetFetch": 2,
}


class WithTopics(Story):
    """A story that begins with two topics and records in them."""

    def __init__(self, arena: Arena, seed: int) -> None:
        super().__init__(arena, seed)
        self.world = World(self.random, self.prefix, arena.now_ms)

    def on_answer(self, request: Request, answer: Answer, on: str) -> None:
        self.world.learn(request, answer)

    def prepare(self, configs: dict[str, str] | None = None) -> None:
        topics = [
            {
                "Name": f"{self.prefix}-{name}",
                "NumPartitions": partitions,
                "ReplicationFactor": 1,
                "Assignments": [],
                "Configs": [{"Name": key, "Value": value} for key, value in (configs or {}).items()],
            }
            for name, partitions in (("a", 2), ("b", 1))
        ]
        self.ask("CreateTopics", {"Topics": topics, "timeoutMs": 10_000, "validateOnly": False}, 7)
        data = [
            {
                "Name": topic["Name"],
                "PartitionData": [{"Index": 0, "Records": self.world.batch()}],
            }
            for topic in topics
        ]
        for _ in range(self.random.randint(1, 3)):
            self.ask("Produce", {"Acks": -1, "TimeoutMs": 5_000, "TopicData": data}, self.version("Produce", 7, 12))

    def ask_for(self, name: str, version: int, *, mutate: float = 0.0) -> None:
        body: dict[str, Any] = SHAPES[name](self.world, version)
        if self.random.random() < mutate:
            body = mutated(self.random, apis()[name].request, version, body, self.prefix)
        if name in MAY_WAIT:
            self.send(name, body, version, on=f"{name}-{self.step}")
        else:
            self.ask(name, body, version, on=self.random.choice(("main", "main", "other")))


class Anything(WithTopics):
    STEPS = 30

    def tell(self) -> None:
        self.prepare()
        names = [name for name in self.arena.versions if name in SHAPES]
        weights = [OFTEN.get(name, 1) for name in names]
        for name in self.random.choices(names, weights, k=self.STEPS):
            self.ask_for(name, self.version(name), mutate=0.35)
        self.settle()


class EveryVersion(WithTopics):
    """One request of every API in every version, in any order; a part of them, so that one difference hides few."""

    PARTS = 16

    @classmethod
    def calls(cls, arena: Arena, seed: int) -> list[tuple[str, int]]:
        both = (*arena.versions.items(), *arena.refused.items())
        return [(name, version) for name, versions in both for version in versions][seed % cls.PARTS :: cls.PARTS]

    def tell(self) -> None:
        self.prepare()
        calls = self.calls(self.arena, self.seed)
        self.random.shuffle(calls)
        for name, version in calls:
            if version in self.arena.versions[name]:
                self.ask_for(name, version)
            else:
                served = self.arena.versions[name][0]
                self.ask(name, SHAPES[name](self.world, served), served, sent_version=version)
        self.settle()


class Frames(WithTopics):
    """Requests that end too early or too late, that say another version or another API, or carry unknown fields."""

    STEPS = 12

    def tell(self) -> None:
        self.prepare()
        names = [name for name in self.arena.versions if name in SHAPES and name not in MAY_WAIT]
        for name in self.random.choices(names, k=self.STEPS):
            version = self.version(name)
            body: dict[str, Any] = SHAPES[name](self.world, version)
            if body.get("Acks") == 0:
                body["Acks"] = 1
            wrong: dict[str, Any] = self.random.choice(
                (
                    {"tail": b"\0"},
                    {"tail": b"more"},
                    {"cut": 1},
                    {"cut": self.random.randint(1, 12)},
                    {"client_id": None},
                    {"client_id": ""},
                    {"client_id": "x" * 1_000},
                    {"client_id": NOT_UTF_8[0]},
                    {"sent_version": self.arena.versions[name][-1] + 20},
                    {"sent_version": -1},
                    {"sent_key": 999},
                    {"sent_key": -1},
                )
            )
            self.ask(name, body, version, on="main", **wrong)
