"""A cluster of Apache Kafka becomes one of Barnabas, and Kafka's again, while a topic is written and a group reads.

Every process is replaced, broker and controller: what stays is the id of the cluster, its metadata and its records.
These are the steps of docs/operations.md. With BROKER=kafka the newcomers are Kafkas: what fails then is the test's
fault.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.brokers import BROKER, KAFKA_LIBS, REPLICATED, free_ports
from compat_tests.cluster.load import Load
from compat_tests.cluster.members import BarnabasMember, KafkaMember, Member
from compat_tests.conftest import Drivers, require
from compat_tests.harness.driver import Driver
from compat_tests.harness.groups import eventually
from compat_tests.harness.not_served import FEATURES_NOT_SERVED

TOPIC, GROUP = "moving", "readers"
PARTITIONS = 3
OLD, NEW = (1, 2, 3), (4, 5, 6)
SECONDS = 120  # a JVM takes its time on a busy machine
COMMITTED = 17


class FirstKafka(KafkaMember):
    """One of the Kafkas that the cluster begins with, as they are formatted who think of nothing else."""

    @property
    def formatting(self) -> tuple[str, ...]:
        addresses = self.settings["controller.quorum.bootstrap.servers"].split(",")
        voters = [f"{node_id}@{at}:{node_id}{'A' * 21}" for node_id, at in zip(OLD, addresses, strict=False)]
        return ("--initial-controllers", ",".join(voters))


class Nodes:
    """Six nodes, of which some run. Each is a broker and a controller."""

    def __init__(self, folder: Path, tools: Driver) -> None:
        first = free_ports(len(OLD + NEW)) - 1
        self._addresses = {node_id: f"127.0.0.1:{first + node_id}" for node_id in OLD + NEW}
        self._controllers = {node_id: f"127.0.0.1:{first + 10_000 + node_id}" for node_id in OLD + NEW}
        self._folder = folder
        self._tools = tools
        self.bootstrap = ",".join(self._addresses.values())
        self._members = {node_id: self._member(FirstKafka, node_id) for node_id in OLD}
        newcomer = KafkaMember if BROKER == "kafka" else BarnabasMember
        self._members |= {node_id: self._member(newcomer, node_id) for node_id in NEW}

    def _member(self, kind: type[Member], node_id: int) -> Member:
        (folder := self._folder / str(node_id)).mkdir()
        own = {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"PLAINTEXT://{self._addresses[node_id]},CONTROLLER://{self._controllers[node_id]}",
            "offsets.topic.num.partitions": "3",
        }
        return kind(folder, ",".join(self._controllers.values()), {**REPLICATED, **own})

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *_: object) -> None:
        for member in self._members.values():
            member.__exit__()

    def start(self, node_ids: Iterable[int]) -> None:
        """Starts them together: the first ones serve when most of them run."""
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda node_id: self._members[node_id].start(), node_ids))

    # ---- what an operator does

    def barnabas(self, arguments: str) -> str:
        """Runs a command of ours. It succeeds."""
        environment = {**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": self.bootstrap}
        command = (sys.executable, "-m", "barnabas", *arguments.split())
        done = subprocess.run(
            command, env=environment, cwd=self._folder, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def kafka(self, tool: str, arguments: str) -> str:
        """Runs a command of Kafka's. Returns what it said."""
        controllers = ("--bootstrap-controller", ",".join(self._controllers.values()))
        arguments_of_tool = [*controllers, *arguments.split()]
        said = self._tools.ask("tool", tool=f"org.apache.kafka.tools.{tool}", arguments=arguments_of_tool)
        return f"{said['printed']}{said['complained']}"

    def disable_what_is_not_served(self) -> None:
        features = " ".join(f"--feature {feature}" for feature in FEATURES_NOT_SERVED)
        said = self.kafka("FeatureCommand", f"disable {features}")
        assert said.count("was disabled") == len(FEATURES_NOT_SERVED), said

    def move_everything_to(self, node_ids: Sequence[int]) -> None:
        plan = self.barnabas(f"cluster reassign plan --brokers {','.join(map(str, node_ids))}")
        (self._folder / "plan.json").write_text(plan)
        self.barnabas("cluster reassign execute plan.json --wait")

    def add_voter(self, node_id: int) -> None:
        config = self._members[node_id].folder / "server.properties"
        self._change_voters(f"--command-config {config} add-controller", "Added controller|DuplicateVoter")

    def remove_voter(self, node_id: int) -> None:
        properties = (self._members[node_id].data_dir / "meta.properties").read_text()
        (directory_id,) = re.findall("directory.id=(.*)", properties)
        change = f"remove-controller --controller-id {node_id} --controller-directory-id {directory_id}"
        self._change_voters(change, "Removed KRaft controller|VoterNotFound")

    def _change_voters(self, change: str, success: str) -> None:
        """Repeats it until the quorum can: the leader may have changed, or the newcomer be behind."""
        said: list[str] = []

        def succeeds() -> bool:
            said.append(self.kafka("MetadataQuorumCommand", change))
            return re.search(success, said[-1]) is not None

        eventually(succeeds, change, lambda: said[-1], seconds=SECONDS)

    def voters(self) -> list[int]:
        said = self.kafka("MetadataQuorumCommand", "describe --status")
        (row,) = re.findall(r"CurrentVoters: +(.*)", said)
        return sorted(map(int, re.findall(r'"id": (\d+)', row)))

    def retire(self, node_id: int) -> None:
        self._members[node_id].stop()
        self.barnabas(f"cluster unregister {node_id}")

    # ---- what is to be seen of it

    def are_equal(self, partition: int, node_ids: Sequence[int]) -> bool:
        """Returns whether the partition's log is the same bytes on each of these brokers."""
        folders = [self._members[node_id].data_dir / f"{TOPIC}-{partition}" for node_id in node_ids]
        return len({b"".join(file.read_bytes() for file in sorted(folder.glob("*.log"))) for folder in folders}) == 1


@pytest.fixture
def nodes(tmp_path: Path, drivers: Drivers) -> Iterator[Nodes]:
    require(("java", KAFKA_LIBS))
    with Nodes(tmp_path, drivers["java-4.3"]) as nodes:
        yield nodes


def commit(nodes: Nodes) -> None:
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": GROUP})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, COMMITTED)], asynchronous=False)
        except KafkaException:
            return False  # the first commit ever creates the topic
        return True

    eventually(is_committed, "an offset is committed", seconds=SECONDS)
    consumer.close()


def committed(nodes: Nodes) -> int:
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, "group.id": GROUP})
    (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=SECONDS)
    consumer.close()
    offset: int = found.offset
    return offset


def migrate(nodes: Nodes, load: Load, old: Sequence[int], new: Sequence[int]) -> None:
    """Puts the new nodes in the place of the old ones, while records are written."""
    nodes.start(new)
    nodes.move_everything_to(new)
    load.goes_on()
    for old_id, new_id in zip(old, new, strict=True):
        nodes.add_voter(new_id)
        nodes.remove_voter(old_id)
    assert nodes.voters() == list(new)
    for node_id in old:
        nodes.retire(node_id)
    load.goes_on()
    assert committed(nodes) == COMMITTED


@pytest.mark.timeout(900)
def test_a_cluster_of_kafka_becomes_one_of_barnabas_and_kafkas_again(nodes: Nodes) -> None:
    nodes.start(OLD)
    nodes.disable_what_is_not_served()
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(SECONDS)
    with Load(nodes.bootstrap, TOPIC, PARTITIONS) as load:
        load.goes_on()
        commit(nodes)
        migrate(nodes, load, OLD, NEW)
        migrate(nodes, load, NEW, OLD)
        load.finish()
    load.assert_read_back()
    for partition in range(PARTITIONS):
        eventually(partial(nodes.are_equal, partition, OLD), f"all replicas of partition {partition} are equal")
