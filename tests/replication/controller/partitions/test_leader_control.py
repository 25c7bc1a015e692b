import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.stored.metadata_records import FenceBrokerRecord, PartitionChangeRecord
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, decided, new_topic, partition_of, topic_of, with_topics

E = ErrorCode
PREFERRED, UNCLEAN = 0, 1


def orders(image: MetadataImage, replicas: list[int], leader: int, isr: list[int]) -> MetadataImage:
    image = with_topics(image, new_topic("orders", -1, -1, {0: replicas}))
    topic_id = topic_of(image, "orders").topic_id
    return replayed(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=isr)])


def elect(election_type: int, *partitions: int, topic: str = "orders") -> ElectLeadersRequest:
    asked = [TopicPartitions(topic=topic, partitions=partitions)]
    return ElectLeadersRequest(election_type=election_type, topic_partitions=asked)


@pytest.mark.parametrize(
    ("election_type", "image", "code", "leader", "isr"),
    [
        (PREFERRED, orders(cluster(1, 2), [1, 2], 2, [2, 1]), E.NONE, 1, (2, 1)),
        (PREFERRED, orders(cluster(1, 2), [1, 2], 1, [1, 2]), E.ELECTION_NOT_NEEDED, 1, (1, 2)),
        (PREFERRED, orders(cluster(1, 2), [1, 2], 2, [2]), E.PREFERRED_LEADER_NOT_AVAILABLE, 2, (2,)),
        (PREFERRED, orders(cluster(1, 2, fenced=(1,)), [1, 2], 2, [2, 1]), E.PREFERRED_LEADER_NOT_AVAILABLE, 2, (2, 1)),
        (PREFERRED, orders(cluster(1, 2, 3), [1, 2, 3], -1, [3, 2]), E.NONE, 2, (3, 2)),  # better than none
        (PREFERRED, orders(cluster(1, 2), [1, 2], -1, [3]), E.PREFERRED_LEADER_NOT_AVAILABLE, -1, (3,)),
        (UNCLEAN, orders(cluster(1, 2), [1, 2], 2, [2]), E.ELECTION_NOT_NEEDED, 2, (2,)),  # it has a leader
        (UNCLEAN, orders(cluster(1, 2), [1, 2], -1, [2]), E.NONE, 2, (2,)),  # one in sync is there
        (UNCLEAN, orders(cluster(1, 2, fenced=(2,)), [1, 2], -1, [2]), E.NONE, 1, (1,)),  # records may be lost
        (UNCLEAN, orders(cluster(1, 2, stopping=(2,)), [1, 2], -1, [2]), E.NONE, 1, (1,)),
    ],
)
def test_an_election(
    election_type: int, image: MetadataImage, code: ErrorCode, leader: int, isr: tuple[int, ...]
) -> None:
    records, response = decided(elect(election_type, 0), image)
    assert response.replica_election_results[0].partition_result[0].error_code == code
    partition = partition_of(replayed(image, records), "orders", 0)
    assert (partition.leader, partition.isr) == (leader, isr)
    was_in_sync = leader in partition_of(image, "orders", 0).isr
    assert partition.leader_recovery_state == (code == E.NONE and not was_in_sync)
    assert bool(records) == (code == E.NONE)


def test_without_any_replica_alive_nobody_is_eligible() -> None:
    image = orders(cluster(1), [1], -1, [1])
    image = replayed(image, [FenceBrokerRecord(id=1, epoch=image.brokers[1].broker_epoch)])
    _, response = decided(elect(UNCLEAN, 0), image)
    assert response.replica_election_results[0].partition_result[0].error_code == E.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize(("topic", "partition"), [("orders", 1), ("payments", 0)])
def test_a_partition_that_does_not_exist_is_the_only_one_to_fail(topic: str, partition: int) -> None:
    image = orders(cluster(1, 2), [1, 2], 2, [2, 1])
    request = ElectLeadersRequest(
        election_type=PREFERRED,
        topic_partitions=[
            TopicPartitions(topic=topic, partitions=[partition]),
            TopicPartitions(topic="orders", partitions=[0]),
        ],
    )
    records, response = decided(request, image)
    codes = [result.partition_result[0].error_code for result in response.replica_election_results]
    assert (codes, len(records)) == ([E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE], 1)


def test_of_all_partitions_only_those_that_needed_an_election_are_in_the_answer() -> None:
    image = with_topics(cluster(1, 2), new_topic("payments", -1, -1, {0: [1, 2], 1: [2, 1]}))
    image = orders(image, [1, 2], 2, [2, 1])
    records, response = decided(ElectLeadersRequest(topic_partitions=None), image)
    found = {
        result.topic: [partition.partition_id for partition in result.partition_result]
        for result in response.replica_election_results
    }
    assert (found, len(records)) == ({"orders": [0], "payments": []}, 1)


def test_an_unknown_type_of_election_is_refused() -> None:
    with pytest.raises(KafkaError) as raised:
        decided(elect(2, 0), cluster(1))
    assert raised.value.code == E.INVALID_REQUEST
