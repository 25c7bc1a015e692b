"""Kafka's tools say of replicated partitions what they say of Apache Kafka's, while a broker is frozen and after it.

With BROKER=kafka two clusters of Kafka are compared: what differs then is not the broker's doing.
"""

import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from compat_tests.brokers import BROKER, Broker, barnabas_cluster, kafka_cluster
from compat_tests.cluster.frozen import frozen
from compat_tests.conftest import Drivers
from compat_tests.tools.admin_calls import CALLS
from compat_tests.tools.invocation import Invocation, ask, of
from compat_tests.tools.replicated import ALL_THERE, BACK, FILES, ONE_FROZEN, ONE_WAITS_FOR_IT, UNCLEAN
from compat_tests.tools.runs import Said, Side

START = kafka_cluster if BROKER == "kafka" else barnabas_cluster
SETTINGS = {"auto.leader.rebalance.enable": "false"}  # leaders move when they are told to
SECONDS = 60
ATTEMPTS = 10
STAGES = {"all": ALL_THERE, "frozen": ONE_FROZEN, "waits": ONE_WAITS_FOR_IT, "back": BACK, "unclean": UNCLEAN}


class Compared:
    """Two clusters to which the same happens."""

    def __init__(self, clusters: list[Broker], drivers: Drivers, files: Path) -> None:
        self.clusters = clusters
        # Tools begin at the first broker: it is never frozen.
        first = [cluster._replace(bootstrap=cluster.addresses[0]) for cluster in clusters]
        self.sides = [Side(cluster, drivers["java-4.3"], files) for cluster in first]
        self.said: dict[tuple[str, int], tuple[Said, Said]] = {}
        self.told: dict[str, list[Any]] = {}

    def run(self, stage: str) -> None:
        for number, invocation in enumerate(STAGES[stage]):
            self.said[stage, number] = self._said(invocation)

    def _said(self, invocation: Invocation) -> tuple[Said, Said]:
        """Returns what a tool says of both. What only looks may come too early, and looks again while they differ."""
        looks = any(word in invocation.arguments for word in ("--describe", "--list", "--verify"))
        for _ in range(ATTEMPTS if looks else 1):
            ours, theirs = (in_sync_as_sets(side.run(invocation)) for side in self.sides)
            if ours == theirs and "still in progress" not in ours.printed:
                break
            time.sleep(0.2)
        return ours, theirs

    def call(self) -> None:
        """Asks kafka-python's admin client."""
        for side, cluster in zip(self.sides, self.clusters):
            admin = KafkaAdminClient(bootstrap_servers=side.broker.bootstrap)
            try:
                for name, call in CALLS.items():
                    self.told.setdefault(name, []).append(call(admin, cluster))
            finally:
                admin.close()

    def wait_for(self, topic: str, leader: int, isr: set[int]) -> None:
        """Waits until both clusters say so of the topic's last partition."""
        deadline = time.monotonic() + SECONDS
        for side in self.sides:
            while (found := last_partition(side.broker.bootstrap, topic)) != (leader, isr):
                assert time.monotonic() < deadline, f"{topic}: {found} instead of {(leader, isr)}"
                time.sleep(0.1)

    def create_and_move_to_a_frozen_broker(self) -> None:
        """Does what the tool refuses: it does not see a broker that has no session."""
        (create,) = of("TopicCommand", ask("--create --topic alone --replica-assignment 1", ""))
        for side in self.sides:
            side.run(create)
            client = KafkaAdminClient(bootstrap_servers=side.broker.bootstrap)
            try:
                client.alter_partition_reassignments({TopicPartition("alone", 0): [1, 3]})
            finally:
                client.close()


def in_sync_as_sets(said: Said) -> Said:
    """Sorts who is in sync: a Kafka that leads tells it in the order of a hash table."""
    in_order = re.sub(r"(?<=Isr: )[\d,]+", lambda found: ",".join(sorted(found[0].split(","), key=int)), said.printed)
    return said._replace(printed=in_order)


def last_partition(bootstrap: str, topic: str) -> tuple[int, set[int]]:
    """Asks with a new client: one that knows a frozen broker may wait for its answer."""
    partitions = (
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=SECONDS).topics[topic].partitions
    )
    last = partitions[max(partitions)]
    return last.leader, set(last.isrs)


@pytest.fixture(scope="module")
def compared(drivers: Drivers, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Returns what was said of the cluster and of Apache Kafka's, stage by stage."""
    folders = [tmp_path_factory.mktemp(name) for name in ("cluster", "kafkas", "files")]
    for name, text in FILES.items():
        (folders[2] / name).write_text(text)
    with START(folders[0], SETTINGS) as cluster, kafka_cluster(folders[1], SETTINGS) as kafkas, ExitStack() as thirds:
        compared = Compared([cluster, kafkas], drivers, folders[2])
        compared.run("all")
        compared.call()
        with frozen(3, *compared.clusters):
            compared.wait_for("safe", 1, {1, 2})
            compared.run("frozen")
            compared.create_and_move_to_a_frozen_broker()
            compared.run("waits")
        compared.wait_for("safe", 1, {1, 2, 3})
        compared.wait_for("strict", 1, {1, 2, 3})
        compared.wait_for("pair", 2, {2, 3})
        compared.run("back")
        with frozen(2, *compared.clusters):
            compared.wait_for("pair", 3, {3})
            thirds.enter_context(frozen(3, *compared.clusters))
        # The second goes on, and has not heard of the third since.
        compared.wait_for("pair", -1, set())
        compared.run("unclean")
        return compared


@pytest.mark.parametrize(
    ("stage", "number", "invocation"),
    [(stage, number, invocation) for stage, table in STAGES.items() for number, invocation in enumerate(table)],
    ids=[f"{stage} {invocation}" for stage, table in STAGES.items() for invocation in table],
)
def test_a_tool_says_the_same_of_both_clusters(
    compared: Compared, stage: str, number: int, invocation: Invocation
) -> None:
    ours, kafkas = compared.said[stage, number]
    assert kafkas.is_failure == invocation.fails, kafkas
    assert ours == kafkas


@pytest.mark.parametrize("name", CALLS)
def test_an_admin_client_is_told_the_same_by_both_clusters(compared: Compared, name: str) -> None:
    ours, kafkas = compared.told[name]
    assert ours == kafkas
