"""Leaders and coordinators that move from broker to broker, as an operator moves them, while clients are at work."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition

from compat_tests.brokers import BROKER, NODES, Broker
from compat_tests.harness.features import LIFE, NEW_LIFE
from compat_tests.harness.groups import Group, Kind, Topic, eventually, kinds

pytestmark = pytest.mark.skipif(BROKER != "barnabas-cluster", reason="one broker has nowhere to move to")

OFFSETS = "__consumer_offsets"
KINDS = kinds(LIFE, NEW_LIFE)
PREFERRED = 0


class Operator:
    def __init__(self, broker: Broker) -> None:
        self.client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)

    def lead(self, node_id: int, *topics: str) -> None:
        """Has every partition of the topics led by this broker."""
        replicas = [(node_id + number - 1) % NODES + 1 for number in range(NODES)]
        partitions = {
            topic["name"]: [partition["partition_index"] for partition in topic["partitions"]]
            for topic in self.described(*topics)
        }
        self.client.alter_partition_reassignments(
            {TopicPartition(topic, index): replicas for topic, indexes in partitions.items() for index in indexes}
        )
        self.client.elect_leaders(PREFERRED, partitions)
        eventually(lambda: self.leaders(*topics) == {node_id}, f"{node_id} leads", lambda: self.leaders(*topics))

    def leaders(self, *topics: str) -> set[int]:
        described = self.described(*topics)
        return {partition["leader_id"] for topic in described for partition in topic["partitions"]}

    def described(self, *topics: str) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = self.client.describe_topics(list(topics))
        return described


@pytest.fixture(scope="module")
def operator(broker: Broker) -> Iterator[Operator]:
    operator = Operator(broker)
    yield operator
    operator.client.close()


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_a_group_reads_on_while_its_leaders_and_its_coordinator_move(
    kind: Kind, group: Group, topic: Topic, operator: Operator
) -> None:
    # kafkajs commits when it has read. If the coordinator moves in between, it joins again at its last commit.
    group.may_repeat = kind.client == "kafkajs"
    topic.write()
    for _ in range(2):
        group.join(kind, topic.name)
    group.wait_until_shared(topic.name)
    group.wait_until_read(topic.written)
    for node_id in range(1, NODES + 1):
        operator.lead(node_id, topic.name, OFFSETS)
        topic.write()
        group.wait_until_read(topic.written)
    group.leave()
    group.join(kind, topic.name)  # goes on where they stopped
    topic.write()
    group.wait_until_read(topic.written)
