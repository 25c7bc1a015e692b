"""Brokers of both kinds in one cluster, under load: an Apache Kafka under our controllers, our broker under Kafka's.

Each follows and leads what the other leads and follows. With BROKER=kafka the newcomer is of the cluster's own kind:
what fails then is the test's fault.
"""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.brokers import BROKER, KAFKA_LIBS, Broker, barnabas_cluster, kafka_cluster
from compat_tests.cluster.load import Load
from compat_tests.cluster.members import BarnabasMember, KafkaController, KafkaMember, Member
from compat_tests.conftest import Drivers, require
from compat_tests.harness.groups import eventually
from compat_tests.harness.not_served import FEATURES_NOT_SERVED
from compat_tests.tools.invocation import ask, of
from compat_tests.tools.runs import Side

TOPIC = "mixed"
NEWCOMER = Member.node_id
REPLICAS = [[NEWCOMER, 1, 2], [1, NEWCOMER, 2], [2, 3, NEWCOMER]]
"""One partition that the newcomer leads, one that it leads next, and one that it only follows."""

SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1"}
"""A snapshot after every change: whoever joins begins with one."""

SECONDS = 60  # as Kafka misses a broker after nine, and a JVM starts slowly on a busy machine


def kafka_without_what_is_not_served(folder: Path, settings: dict[str, str]) -> AbstractContextManager[Broker]:
    """Starts Apache Kafkas whose features are those that both kinds have."""
    levels = [part for feature in FEATURES_NOT_SERVED for part in ("--feature", f"{feature}=0")]
    return kafka_cluster(folder, settings, *levels)


class Kinds(NamedTuple):
    name: str
    cluster: Callable[[Path, dict[str, str]], AbstractContextManager[Broker]]
    newcomer: type[Member]


KINDS = [
    Kinds("kafka-joins-barnabas", barnabas_cluster, KafkaMember),
    Kinds("barnabas-joins-kafka", kafka_without_what_is_not_served, BarnabasMember),
]
if BROKER == "kafka":
    KINDS = [Kinds("kafka-joins-kafka", kafka_without_what_is_not_served, KafkaMember)]


class Mixed:
    """Three brokers of one kind, a fourth of the other, and a topic that is on both."""

    def __init__(self, cluster: Broker, newcomer: Member) -> None:
        self.cluster = cluster
        self.newcomer = newcomer
        self.bootstrap = cluster.bootstrap
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topic(self) -> None:
        topic = NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS, config={"min.insync.replicas": "2"})
        self.admin.create_topics([topic])[TOPIC].result(SECONDS)

    def described(self) -> list[tuple[int, set[int]]]:
        """Returns who leads each partition, and who is in sync, as any broker tells it."""
        partitions = self.admin.list_topics(TOPIC, timeout=SECONDS).topics[TOPIC].partitions
        return [(partitions[index].leader, set(partitions[index].isrs)) for index in sorted(partitions)]

    def wait_in_sync(self) -> None:
        everybody = [set(replicas) for replicas in REPLICAS]
        self._wait(lambda: [isr for _, isr in self.described()] == everybody, "all replicas are in sync")

    def wait_without_newcomer(self) -> None:
        self._wait(
            lambda: all(leader not in (NEWCOMER, -1) and NEWCOMER not in isr for leader, isr in self.described()),
            "the others lead without the newcomer",
        )

    def elect_preferred(self) -> None:
        """Asks for the first replicas to lead, and waits until they do."""
        partitions = [TopicPartition(TOPIC, partition) for partition in range(len(REPLICAS))]
        self.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(SECONDS)
        preferred = [replicas[0] for replicas in REPLICAS]
        self._wait(lambda: [leader for leader, _ in self.described()] == preferred, "the first replicas lead")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        eventually(condition, what, self.described, seconds=SECONDS)

    def wait_for_equal_logs(self) -> None:
        """Waits until all replicas of a partition are the same bytes."""
        for partition in range(len(REPLICAS)):
            self._wait(partial(self._are_equal, partition), f"all replicas of partition {partition} are equal")

    def _are_equal(self, partition: int) -> bool:
        return len(set(self.logs(partition).values())) == 1

    def logs(self, partition: int) -> dict[int, bytes]:
        """Returns the bytes of the partition's log, by broker."""
        dirs = {**dict(enumerate(self.cluster.data_dirs, 1)), NEWCOMER: self.newcomer.data_dir}
        return {
            node_id: b"".join(
                file.read_bytes() for file in sorted((dirs[node_id] / f"{TOPIC}-{partition}").glob("*.log"))
            )
            for node_id in REPLICAS[partition]
        }


@pytest.fixture(params=KINDS, ids=[kinds.name for kinds in KINDS])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mixed]:
    """Starts the cluster and the newcomer."""
    require(("java", KAFKA_LIBS))
    kinds: Kinds = request.param
    folders = [tmp_path / name for name in ("cluster", "newcomer")]
    for folder in folders:
        folder.mkdir()
    with (
        kinds.cluster(folders[0], SNAPSHOTS) as cluster,
        kinds.newcomer(folders[1], controllers_of(cluster), {}) as newcomer,
    ):
        yield Mixed(cluster, newcomer)


def controllers_of(cluster: Broker) -> str:
    return ",".join(f"127.0.0.1:{port + 10_000}" for port in cluster.ports)


def test_a_broker_of_the_other_kind_follows_leads_is_killed_and_comes_back(mixed: Mixed) -> None:
    mixed.create_topic()
    with Load(mixed.bootstrap, TOPIC, len(REPLICAS)) as load:
        mixed.wait_in_sync()
        load.goes_on()

        mixed.newcomer.stop(signal.SIGKILL)
        mixed.wait_without_newcomer()
        load.goes_on()

        mixed.newcomer.start()
        mixed.wait_in_sync()
        mixed.elect_preferred()
        load.goes_on()

        mixed.newcomer.stop(signal.SIGTERM)
        mixed.wait_without_newcomer()
        load.goes_on()

        mixed.newcomer.start()
        mixed.wait_in_sync()
        mixed.elect_preferred()
        load.goes_on()
        load.finish()
    load.assert_read_back()
    mixed.wait_for_equal_logs()


@pytest.mark.skipif(BROKER == "kafka", reason="its controllers know each other")
def test_a_controller_of_kafka_follows_our_metadata_and_votes(tmp_path: Path, drivers: Drivers) -> None:
    """It begins with our snapshot, and replays all that we write: it would end if it could not."""
    require(("java", KAFKA_LIBS))
    status, add = of(
        "MetadataQuorumCommand",
        ask("describe --replication", ""),
        ask("--command-config {files}/server.properties add-controller", ""),
    )
    create, describe = of(
        "TopicCommand", ask("--create --topic later --partitions 3", ""), ask("--describe --topic later", "")
    )
    folders = [tmp_path / name for name in ("cluster", "controller")]
    for folder in folders:
        folder.mkdir()
    with barnabas_cluster(folders[0], SNAPSHOTS) as cluster:
        side = Side(cluster, drivers["java-4.3"], folders[1])

        def is_caught_up(role: str) -> bool:
            pattern = rf"(?m)^{KafkaController.node_id} \S+ \d+ 0 <time> <time> {role}$"
            return re.search(pattern, side.run(status).printed) is not None

        with KafkaController(folders[1], controllers_of(cluster), {}):
            eventually(lambda: is_caught_up("Observer"), "it observes", lambda: side.run(status), seconds=SECONDS)
            assert not side.run(add).is_failure
            eventually(lambda: is_caught_up("Follower"), "it votes", lambda: side.run(status), seconds=SECONDS)
            assert not side.run(create).is_failure
            eventually(lambda: is_caught_up("Follower"), "it goes on", lambda: side.run(status), seconds=SECONDS)
            assert side.run(describe).printed.count("Leader: ") == 3
            metadata = folders[1] / "data" / "__cluster_metadata-0"
            eventually(lambda: list(metadata.glob("*.checkpoint")), "it has a snapshot")
