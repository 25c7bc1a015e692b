"""Which partitions a broker serves, as the metadata say: those that it leads, for as long as it leads them."""

import pytest

from barnabas.broker.partition import Partition
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.protocol.errors import FencedLeaderEpoch, KafkaError, NotLeaderOrFollower, UnknownTopicOrPartition
from barnabas.protocol.metadata_records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from barnabas.replication.image import MetadataImage
from barnabas.replication.image_delta import MetadataDelta
from barnabas.storage.log_config import LogConfig
from tests.replication.clusters import cluster, uuid
from tests.storage.logs import Broker, batch

US, OTHER = 1, 2
TOPIC_ID = uuid(7)


class Node:
    """One of two brokers, told of what the cluster decides."""

    def __init__(self) -> None:
        self.storage = Broker()
        self.image: MetadataImage = cluster(US, OTHER)
        self.replicas = ReplicaManager(
            US,
            image=self.image,
            logs=self.storage.manager,
            log_defaults=LogConfig(),
            clock=self.storage.clock,
            report=self.storage.report,
        )

    def learn(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)  # type: ignore[arg-type]
        self.image, changes = delta.finish(
            end_offset=self.image.end_offset + len(records), epoch=1, timestamp_ms=0, controller_id=OTHER
        )
        self.replicas.apply(self.image, changes)


def led_by(leader: int, leader_epoch: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[US, OTHER],
        isr=[US, OTHER],
        removing_replicas=[],
        adding_replicas=[],
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=0,
    )


def topic() -> TopicRecord:
    return TopicRecord(name="orders", topic_id=TOPIC_ID)


def opened(node: Node) -> Partition:
    partition = node.replicas.partition("orders", 0)
    partition.append(memoryview(batch()), now_ms=node.storage.now_ms)
    return partition


def test_a_partition_that_is_led_here_is_served() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    assert opened(node).log.log_end_offset == 1


def test_a_partition_that_another_broker_leads_is_not_served_here() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER))
    with pytest.raises(NotLeaderOrFollower, match="led by broker 2"):
        node.replicas.partition("orders", 0)


@pytest.mark.parametrize(("name", "index"), [("orders", 1), ("orders", -1), ("other", 0)])
def test_what_does_not_exist_is_unknown(name: str, index: int) -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    with pytest.raises(UnknownTopicOrPartition):
        node.replicas.partition(name, index)


def test_losing_the_lead_ends_serving_and_tells_those_who_wait() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    partition, told = opened(node), Waiter()
    outcomes: list[KafkaError | None] = []
    info = partition.append(memoryview(batch()), now_ms=node.storage.now_ms)
    partition.when_committed(info, outcomes.append)
    partition.fetch_waiters[told] = None
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))
    assert told.calls == [0]
    assert [type(outcome) for outcome in outcomes] == [NotLeaderOrFollower]
    with pytest.raises(NotLeaderOrFollower):
        node.replicas.partition("orders", 0)


def test_leading_again_is_a_new_epoch_on_the_same_log() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    opened(node)
    for leader in (OTHER, US):
        node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader))
    partition = node.replicas.partition("orders", 0)
    assert (partition.leader_epoch, partition.log.log_end_offset) == (2, 1)
    with pytest.raises(FencedLeaderEpoch):
        partition.check_leader_epoch(0)


def test_a_topic_that_is_deleted_takes_its_partitions_and_their_logs() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    partition, told = opened(node), Waiter()
    partition.fetch_waiters[told] = None
    node.learn(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert told.calls == [0]
    with pytest.raises(UnknownTopicOrPartition):
        node.replicas.partition("orders", 0)
    assert list(node.storage.manager.partitions()) == []


class Waiter:
    def __init__(self) -> None:
        self.calls: list[int] = []

    def on_bytes(self, size: int) -> None:
        self.calls.append(size)
