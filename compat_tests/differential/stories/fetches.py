"""Fetches that take their time: whether they wait for more, and what becomes of a session whose topic is deleted."""

from collections.abc import Callable
from typing import Any, NamedTuple

from compat_tests.differential.batches import Record
from compat_tests.differential.stories.records import Sessions, WithRecords
from compat_tests.differential.story import LONG_WAIT_MS

MANY_BYTES = 10_000_000
SEGMENT_BYTES = 1_048_576  # the smallest that Kafka takes


class Wait(NamedTuple):
    """What a fetch asks for. Partition 0 has an old segment and a new one, 1 is empty, 2 has small batches."""

    min_bytes: int
    max_bytes: int = 2 * MANY_BYTES
    partition_max_bytes: int = 1 << 20
    offset: int = 0
    partitions: tuple[int, ...] = (0,)


WAITS = (
    Wait(1_000, partition_max_bytes=1_000, partitions=(2,)),  # as much as may come is there
    Wait(1_001, partition_max_bytes=1_000, partitions=(2,)),  # more than ever may
    Wait(1_001, partition_max_bytes=1_000),  # but that the first batch comes however large it is
    Wait(5_000, max_bytes=1_000, partitions=(2,)),  # more than the whole answer may hold
    Wait(5_000, max_bytes=1_000),
    Wait(5_000, partitions=(2,)),  # more than there is
    Wait(1, max_bytes=0, partitions=(1,)),  # nothing may come
    Wait(0, partitions=(1,)),
    Wait(1, partitions=(1,)),
    Wait(MANY_BYTES),  # of a segment that nothing is added to
    Wait(MANY_BYTES, offset=3),  # of the one that grows
    Wait(1, offset=4),  # at its end
    Wait(1, partitions=(1, 9)),  # an unknown partition says so only when the wait is over
    Wait(1, partitions=(9,)),
    Wait(1, offset=99),  # an error does not wait
    Wait(1, offset=99, partitions=(0, 1)),
)


class Waits(WithRecords):
    def tell(self) -> None:
        self.prepare()
        fresh = {"Name": f"{self.prefix}-c", "NumPartitions": 3, "ReplicationFactor": 1, "Assignments": []}
        configs = [{"Name": "segment.bytes", "Value": str(SEGMENT_BYTES)}]
        self.ask("CreateTopics", {"Topics": [{**fresh, "Configs": configs}], "timeoutMs": 10_000}, 7)
        for _ in range(4):  # three of them fill a segment
            self.fill(0, 340_000)
        for _ in range(6):
            self.fill(2, 200)
        for wait in self.random.sample(WAITS, 3):
            self.fetch(wait)

    def fill(self, partition: int, size: int) -> None:
        batch = self.world.batch(records=(Record(value=bytes(size)),), timestamp=self.world.now_ms, codec=0)
        self.produce(batch, partition=partition, topic="c")

    def fetch(self, wait: Wait) -> None:
        version = self.version("Fetch")
        name = f"{self.prefix}-c"
        where = {"Topic": name} if version < 13 else {"TopicId": self.world.topic_ids[name]}
        most = {"PartitionMaxBytes": wait.partition_max_bytes}
        wanted = [{"Partition": n, "FetchOffset": 0 if n else wait.offset, **most} for n in wait.partitions]
        sizes = {"MaxWaitMs": LONG_WAIT_MS, "MinBytes": wait.min_bytes, "MaxBytes": wait.max_bytes}
        self.ask("Fetch", {**sizes, "Topics": [{**where, "Partitions": wanted}]}, version)


class SessionOfTheDeleted(Sessions):
    """A session outlives a topic that it asked for by its id, and that topic's successor under the same name."""

    def tell(self) -> None:
        self.prepare()
        version = self.version("Fetch", 13)
        session = self.fetch(version, 0, 0, {"a": [0, 1], "b": [0]})["SessionId"]
        steps: tuple[Callable[[], object], ...] = (self.delete, self.create, self.produce_beside)
        epoch = 1
        for step in steps:
            step()
            for _ in range(self.random.randint(1, 2)):
                epoch = self.go_on(version, session, epoch, {})
        epoch = self.go_on(version, session, epoch, {"a": [0]})  # now by the new id
        self.produce(self.world.batch())
        epoch = self.go_on(version, session, epoch, {})
        self.go_on(version, session, epoch, {}, self.world.one({}, {"a": [0]}, {"b": [0]}))

    def go_on(self, version: int, session: Any, epoch: int, wanted: Any, forgotten: Any = None) -> int:
        answer = self.fetch(version, session, epoch, wanted, forgotten)
        return epoch + 1 if answer.get("ErrorCode") == 0 else epoch

    def produce_beside(self) -> None:
        self.produce(self.world.batch(), topic="b")

    def delete(self) -> None:
        self.ask("DeleteTopics", {"Topics": [{"Name": f"{self.prefix}-a"}], "TimeoutMs": 10_000}, 6)

    def create(self) -> None:
        again = {"Name": f"{self.prefix}-a", "NumPartitions": 2, "ReplicationFactor": 1, "Assignments": []}
        self.ask("CreateTopics", {"Topics": [again], "timeoutMs": 10_000, "validateOnly": False}, 7)
