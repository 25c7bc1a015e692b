"""Which partitions a broker leads and follows, as the metadata say, and for how long."""

import pytest

from barnabas.broker.partition import ACKS_ALL, Isolation, LeaderPartition, Role
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.protocol.errors import FencedLeaderEpoch, KafkaStorageError, NotLeaderOrFollower, UnknownTopicOrPartition
from barnabas.protocol.stored.metadata_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import MetadataDelta
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
            self.storage.environment,
            image=self.image,
            logs=self.storage.manager,
            log_defaults=LogConfig(),
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


def opened(node: Node) -> LeaderPartition:
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
    outcomes: list[Exception | None] = []
    info = partition.append(memoryview(batch()), now_ms=node.storage.now_ms)
    partition.when_acknowledged(info, ACKS_ALL).when_done(lambda done: outcomes.append(done.error))
    partition.wait(told, Isolation.HIGH_WATERMARK)
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))
    assert told.calls == [0]
    assert [type(outcome) for outcome in outcomes] == [NotLeaderOrFollower]
    with pytest.raises(NotLeaderOrFollower):
        node.replicas.partition("orders", 0)


def test_a_partition_changes_its_role_with_its_leader() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER))
    follower = node.replicas.follower("orders", 0)
    assert (node.replicas.role("orders", 0), follower.leader_epoch) == (Role.FOLLOWER, 0)
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=US))
    assert node.replicas.role("orders", 0) is Role.LEADER
    leader = node.replicas.partition("orders", 0)
    assert leader.log is follower.log
    with pytest.raises(NotLeaderOrFollower):
        node.replicas.follower("orders", 0)
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))
    assert node.replicas.follower("orders", 0).leader_epoch == 2
    node.storage.manager.log_dirs[0].go_offline(OSError("the disk is gone"))
    assert node.replicas.role("orders", 0) is Role.OFFLINE
    with pytest.raises(KafkaStorageError):
        node.replicas.follower("orders", 0).append(memoryview(batch()), node.storage.now_ms)
    node.learn(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert node.replicas.role("orders", 0) is None


def test_a_follower_learns_of_a_new_leader_epoch() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER, leader_epoch=3))
    follower = node.replicas.follower("orders", 0)
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))
    assert follower.leader_epoch == node.replicas.follower("orders", 0).leader_epoch
    assert node.replicas.follower("orders", 0) is follower


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
    partition.wait(told, Isolation.HIGH_WATERMARK)
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
