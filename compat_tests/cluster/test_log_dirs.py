"""A broker with two log dirs loses one while it leads: ours under our controllers and Kafka's, and a Kafka under ours.

The disk fails as far as the process can tell: no file of it may grow beyond a size that only one log has reached, so
that the next write to that log is refused (EFBIG). With BROKER=kafka both are of one kind.
"""

import resource
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.brokers import BROKER, KAFKA_LIBS, barnabas_cluster
from compat_tests.cluster.members import BarnabasMember, Member
from compat_tests.cluster.test_mixed_clusters import KINDS, SECONDS, Kinds, controllers_of
from compat_tests.conftest import require
from compat_tests.harness.groups import eventually

TOPIC = "in-two-dirs"
PARTITIONS = 4
NEWCOMER = Member.node_id
GROWN_BYTES, SIZE_MAX = 2 << 20, 1 << 20
"""How large the log becomes that fails, and how large a file may be from then on: the others are far from it."""


class Scene:
    def __init__(self, bootstrap: str, newcomer: Member) -> None:
        self.newcomer = newcomer
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        self.acknowledged: list[bytes] = []

    def create_topic(self) -> None:
        assignment = [[NEWCOMER, 1, 2]] * PARTITIONS
        topic = NewTopic(TOPIC, PARTITIONS, replica_assignment=assignment, config={"min.insync.replicas": "2"})
        self.admin.create_topics([topic])[TOPIC].result(SECONDS)

    def lying_in(self, name: str) -> set[int]:
        """Returns the partitions that the newcomer has in one of its dirs."""
        folders = (self.newcomer.folder / name).glob(f"{TOPIC}-[0-9]")
        return {int(folder.name.rpartition("-")[2]) for folder in folders}

    def described(self) -> dict[int, tuple[int, set[int]]]:
        partitions = self.admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions
        return {index: (found.leader, set(found.isrs)) for index, found in sorted(partitions.items())}

    def wait_in_sync(self) -> None:
        def are_in_sync() -> bool:
            found = self.described()
            are_there = len(found) == PARTITIONS == len(self.lying_in("data") | self.lying_in("more"))
            return are_there and all(isr == {1, 2, NEWCOMER} for _, isr in found.values())

        eventually(are_in_sync, "all replicas are in sync", self.described, seconds=SECONDS)

    def wait_until_left(self, lost: set[int]) -> None:
        """Waits until others lead what the newcomer has lost, and checks that it leads the rest."""
        led_by_others = partial(self._are_led_by_others, lost)
        eventually(led_by_others, "others lead what was in the dir", self.described, seconds=SECONDS)
        left = {index: found for index, found in self.described().items() if index not in lost}
        assert all(leader == NEWCOMER and NEWCOMER in isr for leader, isr in left.values()), left

    def _are_led_by_others(self, lost: set[int]) -> bool:
        found = self.described()
        return all(found[index][0] in (1, 2) and NEWCOMER not in found[index][1] for index in lost)

    def produce(self, partition: int, count: int, size: int) -> None:
        """Sends records, each with its own number, and returns when all are acknowledged."""

        def acknowledged(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            value = message.value()
            assert value is not None
            self.acknowledged.append(value[:8])

        first = len(self.acknowledged)
        for number in range(first, first + count):
            value = f"{number:08}".encode().ljust(size, b".")
            self.producer.produce(TOPIC, value, partition=partition, on_delivery=acknowledged)
            self.producer.poll(0)
        assert self.producer.flush(SECONDS) == 0

    def check_read(self, partition: int) -> None:
        """Reads the partition from its start: every record that was acknowledged is there, and once."""
        read: list[bytes] = []
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        while len(read) < len(self.acknowledged):
            message = consumer.poll(SECONDS)
            assert message is not None, f"{len(read)} of {len(self.acknowledged)} records"
            assert message.error() is None, message.error()
            value = message.value()
            assert value is not None
            read.append(value[:8])
        consumer.close()
        assert Counter(read) == Counter(self.acknowledged)


ALL_KINDS = KINDS
if BROKER != "kafka":
    ALL_KINDS = [*KINDS, Kinds("barnabas-joins-barnabas", barnabas_cluster, BarnabasMember)]


@pytest.fixture(params=ALL_KINDS, ids=[kinds.name for kinds in ALL_KINDS])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    require(("java", KAFKA_LIBS))
    kinds: Kinds = request.param
    folders = [tmp_path / name for name in ("cluster", "newcomer")]
    for folder in folders:
        folder.mkdir()
    dirs = {"log.dirs": f"{folders[1] / 'data'},{folders[1] / 'more'}"}
    with (
        kinds.cluster(folders[0], {}) as cluster,
        kinds.newcomer(folders[1], controllers_of(cluster), dirs) as newcomer,
    ):
        yield Scene(cluster.bootstrap, newcomer)


def test_others_lead_what_was_in_a_dir_that_failed_and_the_broker_has_it_again_after_a_restart(scene: Scene) -> None:
    scene.create_topic()
    scene.wait_in_sync()
    lost = scene.lying_in("more")
    victim = min(lost)
    scene.produce(victim, GROWN_BYTES // 1_000, size=1_000)
    _, hard = resource.prlimit(scene.newcomer.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(scene.newcomer.process.pid, resource.RLIMIT_FSIZE, (SIZE_MAX, hard))
    scene.produce(victim, 200, size=100)
    scene.wait_until_left(lost)
    scene.check_read(victim)
    scene.newcomer.stop(signal.SIGKILL)
    scene.newcomer.start()
    scene.wait_in_sync()
    assert scene.lying_in("more") == lost
    scene.produce(victim, 200, size=100)
    scene.check_read(victim)
