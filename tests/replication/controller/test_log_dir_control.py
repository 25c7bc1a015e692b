"""Log dirs that fail, and replicas that are said to lie in them."""

from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from barnabas.replication.controller.brokers.fencing import unfence_records
from barnabas.replication.controller.partitions.directories import UNASSIGNED_DIRECTORY, directory_of
from barnabas.replication.metadata.image import METADATA_VERSION, MetadataImage, PartitionImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import (
    cluster,
    controller,
    decided,
    new_topic,
    partition_of,
    registration,
    topic_of,
    uuid,
    with_topics,
)

GOOD, BAD, NEW = uuid(301), uuid(302), uuid(303)
"""Dirs of broker 1. The others have one each."""


def two_dirs(*, elr: bool = True, configs: dict[str, str | None] | None = None) -> MetadataImage:
    """Broker 1 leads both partitions of a topic, one in each of its dirs."""
    image = registered(cluster(2, 3, elr=elr), GOOD, BAD)
    topic = new_topic("orders", -1, -1, {0: [1, 2, 3], 1: [1, 2, 3]}, configs)
    image = with_topics(image, topic)
    return replayed(image, decided(assigned(image, {GOOD: [0], BAD: [1]}), image).records)


def registered(image: MetadataImage, *dirs: bytes, incarnation: int = 101) -> MetadataImage:
    """Broker 1, active with these dirs."""
    image = image._replace(end_offset=image.end_offset + 10)
    image = replayed(image, decided(registration(1, incarnation_id=uuid(incarnation), log_dirs=dirs), image).records)
    return replayed(image, unfence_records(1, image, controller().settings))


def assigned(image: MetadataImage, dirs: dict[bytes, list[int]], **changes: Any) -> AssignReplicasToDirsRequest:
    topic_id = changes.pop("topic_id", None) or topic_of(image, "orders").topic_id
    return AssignReplicasToDirsRequest(
        broker_id=changes.get("broker_id", 1),
        broker_epoch=changes.get("broker_epoch", image.brokers[changes.get("broker_id", 1)].broker_epoch),
        directories=[
            AssignedDirectory(
                id=directory,
                topics=[
                    AssignedTopic(
                        topic_id=topic_id, partitions=[AssignedPartition(partition_index=index) for index in indexes]
                    )
                ],
            )
            for directory, indexes in dirs.items()
        ],
    )


def heartbeat(image: MetadataImage, *offline: bytes, want_fence: bool = False) -> BrokerHeartbeatRequest:
    broker_epoch = image.brokers[1].broker_epoch
    return BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=broker_epoch,
        current_metadata_offset=99,
        want_fence=want_fence,
        want_shut_down=False,
        offline_log_dirs=offline,
    )


def after(image: MetadataImage, request: Any) -> MetadataImage:
    return replayed(image, decided(request, image).records)


def both(image: MetadataImage) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Who leads each of the two partitions, who is in sync, and who is eligible."""
    found = [partition_of(image, "orders", index) for index in (0, 1)]
    return [(each.leader, each.isr, each.eligible_leader_replicas) for each in found]


# ---- dirs that fail


def test_a_broker_leaves_what_it_has_in_a_dir_that_failed_and_nothing_else() -> None:
    image = two_dirs()
    records = decided(heartbeat(image, BAD), image).records
    assert [type(record) for record in records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    image = replayed(image, records)
    assert both(image) == [(1, (1, 2, 3), ()), (2, (2, 3), ())]
    assert (image.brokers[1].log_dirs, image.brokers[1].is_active) == ((GOOD,), True)
    assert partition_of(image, "orders", 1).leader_epoch == 1
    assert directory_of(partition_of(image, "orders", 1), 1) == BAD  # it may be back with all that is in it


@pytest.mark.parametrize("offline", [(BAD,), (NEW,), (BAD, NEW)])
def test_a_dir_that_is_known_to_have_failed_or_not_known_at_all_is_no_news(offline: tuple[bytes, ...]) -> None:
    image = two_dirs()
    image = after(image, heartbeat(image, BAD))
    assert decided(heartbeat(image, *offline), image).records == []


def test_a_follower_that_lost_its_dir_is_taken_out_and_the_leader_stays() -> None:
    image = two_dirs()
    topic_id = topic_of(image, "orders").topic_id
    image = replayed(image, [PartitionChangeRecord(partition_id=1, topic_id=topic_id, leader=3)])
    assert both(after(image, heartbeat(image, BAD)))[1] == (3, (2, 3), ())


@pytest.mark.parametrize(
    ("elr", "left"),
    [
        (True, (-1, (), (1,))),  # it may come back with all that it had
        (False, (-1, (1,), ())),
    ],
)
def test_the_last_in_sync_replica_does_not_lead_in_a_dir_that_failed(elr: bool, left: Any) -> None:
    image = two_dirs(elr=elr)
    topic_id = topic_of(image, "orders").topic_id
    image = replayed(image, [PartitionChangeRecord(partition_id=1, topic_id=topic_id, isr=[1])])
    image = after(image, heartbeat(image, BAD))
    assert both(image)[1] == left
    repaired = registered(image, GOOD, BAD, incarnation=102)
    assert partition_of(repaired, "orders", 1).leader == 1  # nobody else had it all


def test_with_too_few_in_sync_the_broker_that_lost_its_dir_is_eligible_like_any_that_leaves() -> None:
    image = two_dirs(configs={"min.insync.replicas": "3"})
    assert both(after(image, heartbeat(image, BAD)))[1] == (2, (2, 3), (1,))


def test_a_broker_that_lost_all_its_dirs_leaves_everything() -> None:
    image = two_dirs()
    image = after(image, heartbeat(image, BAD, GOOD))
    assert both(image) == [(2, (2, 3), ()), (2, (2, 3), ())]
    assert decided(heartbeat(image, BAD, GOOD), image).records == []


def test_a_broker_that_is_unfenced_by_the_same_heartbeat_does_not_get_what_it_lost() -> None:
    image = registered(cluster(), GOOD, BAD)
    image = with_topics(image, new_topic("orders", -1, -1, {0: [1], 1: [1]}))
    image = after(image, assigned(image, {GOOD: [0], BAD: [1]}))
    image = after(image, heartbeat(image, want_fence=True))
    assert [leader for leader, _, _ in both(image)] == [-1, -1]
    image = after(image, heartbeat(image, BAD))
    assert [leader for leader, _, _ in both(image)] == [1, -1]


def test_a_cluster_whose_metadata_know_no_dirs_does_not_hear_of_them() -> None:
    image = replayed(two_dirs(), [FeatureLevelRecord(name=METADATA_VERSION, feature_level=16)])
    assert decided(heartbeat(image, BAD), image).records == []
    with pytest.raises(KafkaError) as raised:
        decided(assigned(image, {GOOD: [0]}), image)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


# ---- where replicas lie


def codes(image: MetadataImage, request: AssignReplicasToDirsRequest) -> tuple[list[int], list[MetadataRecord]]:
    records, response = decided(request, image)
    found = [
        partition.error_code
        for directory in response.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    return found, list(records)


def test_a_broker_with_several_dirs_says_where_its_replicas_lie_and_nothing_else_changes() -> None:
    image = with_topics(registered(cluster(2), GOOD, BAD), new_topic("orders", -1, -1, {0: [1, 2], 1: [2, 1]}))
    before = partition_of(image, "orders", 0)
    assert before.directories == (UNASSIGNED_DIRECTORY, image.brokers[2].log_dirs[0])
    image = after(image, assigned(image, {GOOD: [0], BAD: [1]}))
    found = partition_of(image, "orders", 0)
    assert found.directories == (GOOD, image.brokers[2].log_dirs[0])
    assert found == before._replace(directories=found.directories, partition_epoch=1)
    assert directory_of(partition_of(image, "orders", 1), 1) == BAD
    assert codes(image, assigned(image, {GOOD: [0], BAD: [1]})) == ([0, 0], [])  # it has said so before


@pytest.mark.parametrize(
    ("changes", "index", "code"),
    [
        ({"topic_id": uuid(9)}, 0, ErrorCode.UNKNOWN_TOPIC_ID),
        ({}, 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({}, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"broker_id": 4}, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_cannot_be_assigned_is_refused_alone(changes: dict[str, Any], index: int, code: ErrorCode) -> None:
    image = replayed(two_dirs(), decided(registration(4), two_dirs()).records)
    assert codes(image, assigned(image, {NEW: [index]}, **changes)) == ([code], [])


def test_a_broker_of_an_older_epoch_is_not_heard() -> None:
    image = two_dirs()
    with pytest.raises(KafkaError) as raised:
        decided(assigned(image, {GOOD: [1]}, broker_epoch=5_000), image)
    assert raised.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_replica_that_is_said_to_lie_in_a_dir_that_failed_leaves_with_that() -> None:
    """The broker chose the dir just before it failed, and could not say so in time."""
    image = with_topics(registered(cluster(2, 3), GOOD, BAD), new_topic("orders", -1, -1, {0: [1, 2, 3]}))
    image = after(image, heartbeat(image, BAD))
    assert partition_of(image, "orders", 0).leader == 1  # nobody knows better
    image = after(image, assigned(image, {BAD: [0]}))
    found = partition_of(image, "orders", 0)
    assert (found.leader, found.isr, directory_of(found, 1)) == (2, (2, 3), BAD)


def lost_and_replaced(**options: Any) -> tuple[MetadataImage, PartitionImage]:
    """Only broker 1 was in sync when its dir failed. It comes back with another, and says so."""
    image = two_dirs(**options)
    topic_id = topic_of(image, "orders").topic_id
    image = replayed(image, [PartitionChangeRecord(partition_id=1, topic_id=topic_id, isr=[1])])
    image = after(image, heartbeat(image, BAD))
    image = registered(image, GOOD, NEW, incarnation=102)
    return image, partition_of(image, "orders", 1)


def test_a_dir_that_was_replaced_has_no_leader_until_the_replica_lies_in_another() -> None:
    image, before = lost_and_replaced()
    assert before.leader == -1
    image = after(image, assigned(image, {NEW: [1]}))
    found = partition_of(image, "orders", 1)
    assert (found.leader, directory_of(found, 1), found.leader_recovery_state) == (1, NEW, 1)  # it may miss records


def test_a_replica_that_began_anew_in_another_dir_is_not_eligible_any_more() -> None:
    """The dir was taken out of the configuration, and the broker stopped cleanly: nobody else knows of the loss."""
    image = two_dirs(configs={"min.insync.replicas": "3"})
    image = after(image, heartbeat(image, BAD))
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=image.brokers[1].broker_epoch, log_dirs=[GOOD])
    image = replayed(image, [change])
    assert both(image)[1] == (2, (2, 3), (1,))
    assert both(after(image, assigned(image, {GOOD: [1]})))[1] == (2, (2, 3), ())


def test_a_replica_that_moved_between_dirs_that_work_stays_what_it_was() -> None:
    image = two_dirs(configs={"min.insync.replicas": "3"})
    before = both(image)
    assert both(after(image, assigned(image, {GOOD: [1]}))) == before
