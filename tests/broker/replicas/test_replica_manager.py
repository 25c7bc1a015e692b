"""Which partitions a broker leads and follows, as the metadata say, and for how long."""

from collections.abc import Callable, Iterable, Sequence

import pytest

from barnabas.broker.replicas.follower import FollowerPartition
from barnabas.broker.replicas.leader import ACKS_ALL, LeaderPartition
from barnabas.broker.replicas.opening_queue import AT_ONCE
from barnabas.broker.replicas.partition import Isolation, Partition, Role
from barnabas.broker.replicas.replica_dirs import ReplicaDirs
from barnabas.broker.replicas.replica_manager import ReplicaManager, ReplicaSettings
from barnabas.protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from barnabas.protocol.stored.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.types import TopicPartition
from barnabas.replication.isr import IsrChange
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import MetadataDelta, replayed
from barnabas.storage.log_config import LogConfig
from tests.broker.replicas.leaders import Appended
from tests.replication.clusters import cluster, uuid
from tests.storage.logs import Broker, batch

US, OTHER = 1, 2
TOPIC_ID = uuid(7)


FLUSHED_AT_ONCE = ConfigRecord(resource_type=2, resource_name="orders", name="flush.messages", value="1")


class Fetched:
    """Implements `Replicator`: notes what is fetched from whom, and in which epoch."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}

    def start(self, partitions: Callable[[], Iterable[Partition]]) -> None:
        self.partitions = partitions

    def propose(self, partition: LeaderPartition, change: IsrChange) -> None:
        raise AssertionError("nobody fetches here")

    def follow(self, partition: FollowerPartition, image: MetadataImage) -> None:
        self.leaders[partition.topic_partition] = (partition.leader_id, partition.leader_epoch)

    def stop(self, topic_partition: TopicPartition) -> None:
        del self.leaders[topic_partition]

    def close(self) -> None:
        self.leaders.clear()


class Told:
    """Implements `Assignments`: notes where replicas are said to lie."""

    def __init__(self) -> None:
        self.directories: dict[tuple[bytes, int], bytes] = {}

    def assign(self, topic_id: bytes, index: int, directory: bytes) -> None:
        self.directories[topic_id, index] = directory

    def close(self) -> None:
        self.directories.clear()


def replica_manager(
    storage: Broker, image: MetadataImage, fetched: Fetched | None = None, told: Told | None = None
) -> ReplicaManager:
    return ReplicaManager(
        ReplicaSettings(US, LogConfig()),
        storage.environment,
        image=image,
        logs=storage.manager,
        dirs=ReplicaDirs(US, storage.manager, lambda: told or Told()),
        new_replication=lambda: fetched or Fetched(),
    )


class Node:
    """One of two brokers, told of what the cluster decides."""

    def __init__(self, *, queued: bool = False, storage: Broker | None = None) -> None:
        self.storage = storage or Broker(queued=queued)
        self.image: MetadataImage = cluster(US, OTHER)
        self.fetched = Fetched()
        self.told = Told()
        self.replicas = replica_manager(self.storage, self.image, self.fetched, self.told)

    def learn(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)  # type: ignore[arg-type]
        self.image, changes = delta.finish(
            end_offset=self.image.end_offset + len(records), epoch=1, timestamp_ms=0, controller_id=OTHER
        )
        self.replicas.apply(self.image, changes)


def led_by(
    leader: int, leader_epoch: int = 0, *, topic_id: bytes = TOPIC_ID, replicas: Sequence[int] = (US, OTHER)
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
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


def test_many_new_topics_are_there_when_they_are_asked_for_and_not_all_at_once() -> None:
    node, ids = Node(), [uuid(number) for number in range(100, 101 + AT_ONCE)]
    topics = [TopicRecord(name=topic_id.hex(), topic_id=topic_id) for topic_id in ids]
    node.learn(*topics, *(led_by(US, topic_id=topic_id) for topic_id in ids))
    assert len(list(node.storage.manager.partitions())) == AT_ONCE
    for topic_id in ids:
        node.replicas.partition(topic_id.hex(), 0)


def test_losing_the_lead_ends_serving_and_tells_those_who_wait() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    partition, told = opened(node), Waiter()
    outcomes: list[Exception | None] = []
    info = partition.append(memoryview(batch()), now_ms=node.storage.now_ms)
    partition.when_acknowledged(info, ACKS_ALL, Appended(outcomes.append), 30_000)
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


def test_what_lies_in_a_dir_that_failed_is_followed_no_more_and_nobody_waits_for_it() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER))
    node.storage.manager.log_dirs[0].go_offline(OSError("the disk is gone"))
    assert node.replicas.dir_failed(node.storage.manager.log_dirs[0]) == 1
    assert node.fetched.leaders == {}
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER))  # in a new epoch
    assert node.fetched.leaders == {}
    with pytest.raises(KafkaStorageError):
        node.replicas.replica("orders", 0)


def test_a_leader_whose_dir_failed_tells_those_who_wait_and_says_so_until_another_leads() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    partition, outcomes = opened(node), Outcomes()
    info = partition.append(memoryview(batch()), now_ms=node.storage.now_ms)
    partition.when_acknowledged(info, ACKS_ALL, Appended(outcomes.note), 30_000)
    node.storage.manager.log_dirs[0].go_offline(OSError("the disk is gone"))
    node.replicas.dir_failed(node.storage.manager.log_dirs[0])
    assert outcomes.errors == [KafkaStorageError]
    for leader, error in ((-1, KafkaStorageError), (OTHER, NotLeaderOrFollower)):
        node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader, isr=[leader]))
        with pytest.raises(error):
            node.replicas.partition("orders", 0)


def test_the_controller_is_told_where_a_replica_lies_if_the_metadata_say_something_else() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER))
    (directory,) = [log_dir.directory_id for log_dir in node.storage.manager.log_dirs]
    assert directory is not None
    assert node.told.directories == {(TOPIC_ID, 0): directory}
    node.told.directories.clear()
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=[directory, uuid(9)]))
    assert node.told.directories == {}  # they say so
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=[uuid(8), uuid(9)]))
    assert node.told.directories == {(TOPIC_ID, 0): directory}


def test_a_start_tells_where_the_replicas_lie_that_it_finds() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    told = Told()
    replica_manager(node.storage, node.image, told=told).adopt(node.image)
    assert list(told.directories) == [(TOPIC_ID, 0)]


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


def test_those_who_wait_for_a_deleted_topic_are_told_that_it_is_gone_not_that_the_disk_failed() -> None:
    node = Node(queued=True)
    node.learn(topic(), led_by(US), FLUSHED_AT_ONCE)
    partition, outcomes = node.replicas.partition("orders", 0), Outcomes()
    info = partition.append(memoryview(batch()), now_ms=node.storage.now_ms)
    partition.when_acknowledged(info, ACKS_ALL, Appended(outcomes.note), 30_000)
    node.learn(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert outcomes.errors == [UnknownTopicOrPartition]


def test_who_reads_again_when_a_topic_is_deleted_finds_the_new_one_of_its_name_and_does_it_no_harm() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    before, found = opened(node), []
    before.wait(Waiter(lambda: found.append(node.replicas.partition("orders", 0))), Isolation.HIGH_WATERMARK)
    created = TopicRecord(name="orders", topic_id=uuid(8)), led_by(US, topic_id=uuid(8))
    node.learn(RemoveTopicRecord(topic_id=TOPIC_ID), *created)
    after = node.replicas.partition("orders", 0)
    assert found == [after]
    assert (after.topic_id, after.log.log_end_offset, after.log.is_closed) == (uuid(8), 0, False)
    assert not node.storage.report.having("moved to"), "the deleted one is deleted"


def test_a_partition_that_moves_away_is_deleted_and_begins_anew_when_it_comes_back() -> None:
    node = Node()
    node.learn(topic(), led_by(US))
    partition, told = opened(node), Waiter()
    partition.wait(told, Isolation.HIGH_WATERMARK)
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=OTHER, replicas=[OTHER], isr=[OTHER]))
    assert told.calls == [0]
    assert list(node.storage.manager.partitions()) == []
    assert node.replicas.role("orders", 0) is None
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[OTHER, US]))
    assert list(node.storage.manager.partitions()) == [("orders", 0)], "a follower has a log"
    assert node.replicas.follower("orders", 0).log.log_end_offset == 0


def test_what_another_broker_leads_is_fetched_from_it_until_that_changes() -> None:
    node, name = Node(), TopicPartition("orders", 0)
    node.learn(topic(), led_by(OTHER))
    assert node.fetched.leaders == {name: (OTHER, 0)}, "nobody has to ask for it"
    node.learn(led_by(OTHER, leader_epoch=1))
    assert node.fetched.leaders == {name: (OTHER, 1)}
    node.learn(led_by(-1, leader_epoch=2))
    assert node.fetched.leaders == {name: (-1, 2)}
    node.learn(led_by(US, leader_epoch=3))
    assert node.fetched.leaders == {}
    node.learn(led_by(OTHER, leader_epoch=4))
    assert node.fetched.leaders == {name: (OTHER, 4)}, "a leader that is replaced follows at once"
    node.learn(led_by(OTHER, leader_epoch=5, replicas=[OTHER]))
    assert node.fetched.leaders == {}
    assert list(node.storage.manager.partitions()) == []


def test_at_start_everything_that_others_lead_is_fetched() -> None:
    node, name = Node(), TopicPartition("orders", 0)
    node.learn(topic(), led_by(OTHER))
    again = replica_manager(node.storage, cluster(US, OTHER), fetched := Fetched())
    again.adopt(node.image)
    node.storage.settle()
    assert fetched.leaders == {name: (OTHER, 0)}


def test_a_deleted_topic_is_fetched_no_more() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER))
    node.learn(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert node.fetched.leaders == {}


def test_a_follower_that_is_needed_no_more_is_deleted() -> None:
    node = Node()
    node.learn(topic(), led_by(OTHER))
    node.replicas.follower("orders", 0)
    node.learn(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[OTHER], isr=[OTHER]))
    assert list(node.storage.manager.partitions()) == []


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ((), "the cluster knows no such partition"),
        ((topic(), led_by(OTHER, replicas=[OTHER])), "other brokers have this partition now"),
        ((TopicRecord(name="orders", topic_id=uuid(8)), led_by(US, topic_id=uuid(8))), "an earlier topic"),
        ((topic(), led_by(US)), None),
        ((topic(), led_by(OTHER)), None),  # a follower
    ],
)
def test_at_start_what_the_cluster_does_not_want_here_is_moved_aside(
    records: tuple[object, ...], reason: str | None
) -> None:
    node = Node()
    node.storage.manager.create(TopicPartition("orders", 0), TOPIC_ID, LogConfig())
    node.image = replayed(node.image, list(records))  # type: ignore[arg-type]
    replica_manager(node.storage, node.image).adopt(node.image)
    is_kept = TopicPartition("orders", 0) in node.storage.manager
    assert is_kept == (reason is None)
    assert reason is None or len(node.storage.report.having(reason)) == 1


class Outcomes:
    def __init__(self) -> None:
        self.errors: list[type] = []

    def note(self, error: KafkaError | None) -> None:
        self.errors.append(type(error))


class Waiter:
    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.calls: list[int] = []
        self._then = then

    def on_bytes(self, size: int) -> None:
        self.calls.append(size)
        self._then()
