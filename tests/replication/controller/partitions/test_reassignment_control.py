from typing import Any, NamedTuple

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.metadata.image import MetadataImage, PartitionImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, decided, new_topic, partition_of, topic_of, uuid, with_topics

E = ErrorCode


def orders(replicas: list[int], configs: dict[str, str | None] | None = None, **changes: Any) -> MetadataImage:
    """A partition on some of five brokers, of which the fifth is fenced."""
    image = cluster(1, 2, 3, 4, 5, fenced=(5,))
    image = with_topics(image, new_topic("orders", -1, -1, {0: replicas}, configs))
    if changes:
        topic_id = topic_of(image, "orders").topic_id
        image = replayed(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, **changes)])
    return image


def reassigned(
    image: MetadataImage, replicas: list[int] | None, *, topic: str = "orders", index: int = 0, may_change: bool = True
) -> tuple[MetadataImage, E]:
    """The image after a request for one partition, and its error code."""
    partition = ReassignablePartition(partition_index=index, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])], allow_replication_factor_change=may_change
    )
    records, response = decided(request, image)
    assert response.allow_replication_factor_change == may_change
    (result,) = response.responses[0].partitions
    assert (result.error_message is None) == (result.error_code == E.NONE)
    return replayed(image, records), E(result.error_code)


def in_sync(image: MetadataImage, *isr: int) -> tuple[MetadataImage, AlteredPartition]:
    """The leader says who is in sync."""
    partition = orders_of(image)
    data = AlterPartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
    )
    request = AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=image.brokers[partition.leader].broker_epoch,
        topics=[AlterPartitionTopic(topic_id=topic_of(image, "orders").topic_id, partitions=[data])],
    )
    records, response = decided(request, image)
    (answer,) = response.topics[0].partitions
    assert isinstance(answer, AlteredPartition)
    return replayed(image, records), answer


def orders_of(image: MetadataImage) -> PartitionImage:
    return partition_of(image, "orders", 0)


class Moving(NamedTuple):
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def moving(image: MetadataImage) -> Moving:
    partition = orders_of(image)
    return Moving(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def listed(image: MetadataImage, *topics: tuple[str, list[int]]) -> list[tuple[str, int]]:
    asked = [ListPartitionReassignmentsTopics(name=name, partition_indexes=ids) for name, ids in topics] or None
    records, response = decided(ListPartitionReassignmentsRequest(topics=asked), image)
    assert not records
    return [(topic.name, each.partition_index) for topic in response.topics for each in topic.partitions]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ([2, 3, 4], Moving((2, 3, 4, 1), (4,), (1,))),  # one for another
        ([1, 2, 3, 4], Moving((1, 2, 3, 4), (4,))),  # one more
        ([5, 4], Moving((5, 4, 1, 2, 3), (4, 5), (1, 2, 3))),  # also to a fenced broker
        ([1, 2], Moving((1, 2))),  # one less: all that stay are in sync, so that is all
        ([3, 2, 1], Moving((3, 2, 1))),  # another order
        ([1, 2, 3], Moving((1, 2, 3))),  # nothing
    ],
)
def test_the_target_joins_the_replicas_until_it_is_in_sync(target: list[int], expected: Moving) -> None:
    image = orders([1, 2, 3])
    after, code = reassigned(image, target)
    assert (code, moving(after)) == (E.NONE, expected)
    assert listed(after) == ([("orders", 0)] if expected.adding or expected.removing else [])
    assert (orders_of(after).leader, orders_of(after).partition_epoch) == (1, int(target != [1, 2, 3]))
    assert orders_of(after).leader_epoch == (target == [1, 2])  # only who is removed makes a new one


def test_a_reassignment_ends_when_all_that_were_added_are_in_sync() -> None:
    image, _ = reassigned(orders([1, 2, 3]), [2, 3, 4])
    image, answer = in_sync(image, 1, 2, 3)
    assert (answer.error_code, moving(image).adding) == (E.NONE, (4,))  # not yet
    image, answer = in_sync(image, 1, 2, 3, 4)
    assert answer.error_code == E.NEW_LEADER_ELECTED  # though the record is written
    partition = orders_of(image)
    assert (moving(image), partition.isr) == (Moving((2, 3, 4)), (2, 3, 4))
    assert (partition.leader, partition.leader_epoch, partition.directories[2]) == (2, 1, uuid(204))
    assert listed(image) == []


def test_a_leader_that_stays_is_told_how_its_partition_is_now() -> None:
    image, _ = reassigned(orders([1, 2]), [1, 3])
    image, answer = in_sync(image, 1, 2, 3)
    assert (answer.error_code, answer.leader_id, tuple(answer.isr)) == (E.NONE, 1, (1, 3))
    assert (answer.leader_epoch, answer.partition_epoch) == (1, 2)  # a replica was removed: a new leader epoch
    assert moving(image) == Moving((1, 3))


def test_with_fewer_replicas_than_before_all_of_them_must_be_in_sync() -> None:
    image, _ = reassigned(orders([1, 2, 3], isr=[1, 2]), [2, 3])
    assert moving(image) == Moving((2, 3, 1), (), (1,))  # it would end with one in sync where there are two
    image, answer = in_sync(image, 1, 2, 3)
    assert (answer.error_code, moving(image), orders_of(image).isr) == (E.NEW_LEADER_ELECTED, Moving((2, 3)), (2, 3))


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ([1, 2, 4], Moving((1, 2, 4, 3), (4,), (3,))),  # another target
        ([1, 2, 3], Moving((1, 2, 3), (3,))),  # 1 stays after all
        ([1, 2], Moving((1, 2))),  # back again: at once, as these are in sync
        ([2, 3], Moving((2, 3, 1), (3,), (1,))),  # the same again
    ],
)
def test_a_new_target_takes_the_place_of_one_that_is_not_reached(second: list[int], expected: Moving) -> None:
    image, _ = reassigned(orders([1, 2]), [2, 3])
    assert moving(image) == Moving((2, 3, 1), (3,), (1,))
    image, code = reassigned(image, second)
    assert (code, moving(image)) == (E.NONE, expected)


def test_a_reassignment_that_is_cancelled_leaves_the_replicas_that_were_there() -> None:
    image, _ = reassigned(orders([1, 2]), [2, 3])
    image, code = reassigned(image, None)
    partition = orders_of(image)
    assert (code, partition.replicas, partition.isr, partition.leader) == (E.NONE, (2, 1), (1, 2), 1)
    assert (partition.leader_epoch, moving(image).adding) == (1, ())  # 3 must know that it is out


@pytest.mark.parametrize(("unclean", "code"), [("false", E.INVALID_REPLICA_ASSIGNMENT), ("true", E.NONE)])
def test_with_only_new_replicas_in_sync_a_cancellation_is_an_unclean_election(unclean: str, code: E) -> None:
    image = orders([1, 2], {"unclean.leader.election.enable": unclean})
    image, _ = reassigned(image, [2, 3, 4])
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_of(image, "orders").topic_id, isr=[3], leader=3)
    image, found = reassigned(replayed(image, [change]), None)
    assert found == code
    assert (orders_of(image).leader, orders_of(image).isr) == ((2, (2,)) if code == E.NONE else (3, (3,)))


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"replicas": [1, 9]}, E.INVALID_REPLICA_ASSIGNMENT),  # nobody knows broker 9
        ({"replicas": [1, 1]}, E.INVALID_REPLICA_ASSIGNMENT),
        ({"replicas": []}, E.INVALID_REPLICA_ASSIGNMENT),
        ({"replicas": [1, -1]}, E.INVALID_REPLICA_ASSIGNMENT),
        ({"replicas": [1, 3], "index": 1}, E.UNKNOWN_TOPIC_OR_PARTITION),
        ({"replicas": [1, 3], "index": -1}, E.UNKNOWN_TOPIC_OR_PARTITION),
        ({"replicas": [1, 3], "topic": "payments"}, E.UNKNOWN_TOPIC_OR_PARTITION),
        ({"replicas": None}, E.NO_REASSIGNMENT_IN_PROGRESS),
        ({"replicas": [1, 2, 3], "may_change": False}, E.INVALID_REPLICATION_FACTOR),
        ({"replicas": [1], "may_change": False}, E.INVALID_REPLICATION_FACTOR),
        ({"replicas": [1, 3], "may_change": False}, E.NONE),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], code: E) -> None:
    image = orders([1, 2])
    after, found = reassigned(image, **asked)
    assert found == code
    assert (after == image) == (code != E.NONE)


@pytest.mark.parametrize(("target", "code"), [([4, 5], E.NONE), ([4, 5, 1], E.INVALID_REPLICATION_FACTOR)])
def test_the_number_of_replicas_is_that_at_the_end_of_what_is_under_way(target: list[int], code: E) -> None:
    image, _ = reassigned(orders([1, 2]), [2, 3])
    assert len(orders_of(image).replicas) == 3
    assert reassigned(image, target, may_change=False)[1] == code


def test_every_partition_stands_or_falls_alone() -> None:
    image = orders([1, 2])
    partitions = [ReassignablePartition(partition_index=index, replicas=[3, 4]) for index in (7, 0)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="orders", partitions=partitions)])
    records, response = decided(request, image)
    codes = [result.error_code for result in response.responses[0].partitions]
    assert (codes, len(records)) == ([E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE], 1)


def test_reassignments_are_listed_where_they_are_asked_for_and_what_is_unknown_is_left_out() -> None:
    image, _ = reassigned(orders([1, 2]), [2, 3])
    assert listed(image, ("payments", [0])) == []
    assert listed(image, ("orders", [0, 1, -1])) == [("orders", 0)]
    assert listed(image, ("orders", [])) == []


def test_a_partition_that_is_named_twice_is_refused_both_times() -> None:
    """The second time nobody would know of the first: replicas of the one, and those in sync of the other."""
    image = orders([1, 2])
    named = [ReassignablePartition(partition_index=0, replicas=replicas) for replicas in ([3, 4], [2])]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="orders", partitions=[partition]) for partition in named]
    )
    records, response = decided(request, image)
    codes = [result.error_code for topic in response.responses for result in topic.partitions]
    assert (list(records), codes) == ([], [E.INVALID_REQUEST, E.INVALID_REQUEST])
