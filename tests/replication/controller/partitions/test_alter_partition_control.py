from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.decision import Decision
from barnabas.replication.metadata.image import MetadataImage, PartitionImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import (
    cluster,
    controller,
    decided,
    new_topic,
    partition_of,
    topic_of,
    uuid,
    with_topics,
)

E = ErrorCode


def orders(image: MetadataImage, replicas: list[int] | None = None, **changes: Any) -> MetadataImage:
    """A topic of one partition, changed once: it has partition epoch 1, and leader epoch 0 unless that changed."""
    image = with_topics(image, new_topic("orders", -1, -1, {0: replicas or [1, 2, 3]}))
    change = PartitionChangeRecord(partition_id=0, topic_id=topic_of(image, "orders").topic_id, **changes)
    return replayed(image, [change])


IMAGE = orders(cluster(1, 2, 3, 4), isr=[1, 2])


def states(image: MetadataImage, *isr: int | tuple[int, int]) -> list[BrokerState]:
    """Brokers, each with the epoch under which it is registered if none is given."""
    found = []
    for each in isr:
        known = each if isinstance(each, tuple) else (each, image.brokers[each].broker_epoch)
        found.append(BrokerState(broker_id=known[0], broker_epoch=known[1]))
    return found


def asked(
    image: MetadataImage, *isr: int | tuple[int, int], broker_id: int = 1, topic_id: bytes | None = None, **data: Any
) -> AlterPartitionRequest:
    partition = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 1, **data}
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=image.brokers[broker_id].broker_epoch,
        topics=[
            AlterPartitionTopic(
                topic_id=topic_id or topic_of(image, "orders").topic_id,
                partitions=[AlterPartitionData(new_isr_with_epochs=states(image, *isr), **partition)],
            )
        ],
    )


def altered(image: MetadataImage, request: AlterPartitionRequest) -> tuple[PartitionImage, AlteredPartition]:
    """The partition after the request, and what was answered about it."""
    decision: Decision[Any] = decided(request, image)
    (answer,) = decision.response.topics[0].partitions
    return partition_of(replayed(image, decision.records), "orders", 0), answer


FENCED = orders(cluster(1, 2, 3, 4, fenced=(3,)), isr=[1, 2])
STOPPING = orders(cluster(1, 2, 3, 4, stopping=(3,)), isr=[1, 2])
FAILED_DIR = orders(cluster(1, 2, 3, 4), isr=[1, 2], directories=[uuid(201), uuid(202), uuid(999)])
RECOVERING = orders(cluster(1, 2, 3), isr=[1], leader_recovery_state=1)


@pytest.mark.parametrize(
    ("image", "request_", "code"),
    [
        (IMAGE, asked(IMAGE, 1, 2, 3), E.NONE),  # 3 has caught up
        (IMAGE, asked(IMAGE, 1), E.NONE),  # 2 is too slow
        (IMAGE, asked(IMAGE, 1, 2), E.NONE),  # as it is
        (IMAGE, asked(IMAGE, 1, 2, 3, leader_epoch=1), E.NOT_CONTROLLER),  # it knows more than this controller
        (IMAGE, asked(IMAGE, 1, 2, 3, partition_epoch=2), E.NOT_CONTROLLER),
        (IMAGE, asked(IMAGE, 1, 2, 3, leader_epoch=-1), E.FENCED_LEADER_EPOCH),
        (IMAGE, asked(IMAGE, 1, 2, 3, broker_id=2), E.INVALID_REQUEST),  # it does not lead
        (IMAGE, asked(IMAGE, 1, 2, 3, partition_epoch=0), E.INVALID_UPDATE_VERSION),
        (IMAGE, asked(IMAGE, 1, 2, 4), E.INVALID_REQUEST),  # 4 is no replica
        (IMAGE, asked(IMAGE, 1, 2, 2), E.INVALID_REQUEST),
        (IMAGE, asked(IMAGE, 2, 3), E.INVALID_REQUEST),  # without the leader
        (IMAGE, asked(IMAGE), E.INVALID_REQUEST),
        (IMAGE, asked(IMAGE, 1, leader_recovery_state=1), E.INVALID_REQUEST),  # it has recovered already
        (IMAGE, asked(IMAGE, 1, leader_recovery_state=2), E.INVALID_REQUEST),  # there is no such state
        (FAILED_DIR, asked(FAILED_DIR, 1, 2, 3), E.INELIGIBLE_REPLICA),  # 3 has no such log dir any more
        (FAILED_DIR, asked(FAILED_DIR, 1, 2), E.NONE),
        (
            RECOVERING,
            asked(RECOVERING, 1, 2, leader_recovery_state=1),
            E.INVALID_REQUEST,
        ),  # not before it has recovered
        (RECOVERING, asked(RECOVERING, 1, leader_recovery_state=1), E.NONE),
        (RECOVERING, asked(RECOVERING, 1, 2), E.NONE),  # it has, and 2 is in sync
        (FENCED, asked(FENCED, 1, 2, 3), E.INELIGIBLE_REPLICA),
        (STOPPING, asked(STOPPING, 1, 2, 3), E.INELIGIBLE_REPLICA),
        (IMAGE, asked(IMAGE, 1, 2, (3, 999)), E.INELIGIBLE_REPLICA),  # another life of it
        (IMAGE, asked(IMAGE, 1, 2, (3, -1)), E.NONE),  # the leader does not know its epoch
        (IMAGE, asked(IMAGE, 1, topic_id=uuid(9)), E.UNKNOWN_TOPIC_ID),
        (IMAGE, asked(IMAGE, 1, partition_index=1), E.UNKNOWN_TOPIC_OR_PARTITION),
        (IMAGE, asked(IMAGE, 1, partition_index=-1), E.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_change_is_taken_or_refused_for_the_reason_kafka_gives(
    image: MetadataImage, request_: AlterPartitionRequest, code: E
) -> None:
    after, answer = altered(image, request_)
    assert answer.error_code == code
    if code != E.NONE:
        assert after == partition_of(image, "orders", 0)
        return
    isr = tuple(state.broker_id for state in request_.topics[0].partitions[0].new_isr_with_epochs)
    assert (after.isr, after.leader, after.leader_epoch) == (isr, 1, 0)
    told = (answer.leader_id, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr))
    assert told == (after.leader, after.leader_epoch, after.partition_epoch, after.isr)
    assert answer.leader_recovery_state == after.leader_recovery_state


def test_a_replica_that_is_not_registered_cannot_be_in_sync() -> None:
    image = IMAGE._replace(brokers={broker_id: IMAGE.brokers[broker_id] for broker_id in (1, 2)})
    assert altered(image, asked(IMAGE, 1, 2, 3))[1].error_code == E.INELIGIBLE_REPLICA


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 99), (9, 0)])
def test_a_stale_broker_is_refused_as_a_whole(broker_id: int, broker_epoch: int) -> None:
    request = asked(IMAGE, 1)
    request.broker_id, request.broker_epoch = broker_id, broker_epoch
    with pytest.raises(KafkaError) as raised:
        decided(request, IMAGE)
    assert raised.value.code == E.STALE_BROKER_EPOCH


def test_what_is_as_it_was_asked_to_be_is_answered_without_a_record() -> None:
    decision = decided(asked(IMAGE, 1, 2), IMAGE)
    assert (list(decision.records), decision.response.topics[0].partitions[0].partition_epoch) == ([], 1)


def test_version_2_names_replicas_without_their_epochs() -> None:
    request = asked(IMAGE)
    request.topics[0].partitions[0].new_isr = [1, 2, 3]
    decision = controller().decide(request, ControllerRequestContext(2), IMAGE, now_ms=0)
    assert decision.response.topics[0].partitions[0].isr == (1, 2, 3)


def test_a_leader_that_has_recovered_says_so() -> None:
    after, answer = altered(RECOVERING, asked(RECOVERING, 1))
    assert (after.leader_recovery_state, answer.leader_recovery_state, after.partition_epoch) == (0, 0, 2)


def test_every_partition_stands_or_falls_alone() -> None:
    request = asked(IMAGE, 1, 2, 3)
    unknown = AlterPartitionTopic(topic_id=uuid(9), partitions=request.topics[0].partitions)
    request.topics = [unknown, *request.topics]
    decision = decided(request, IMAGE)
    codes = [topic.partitions[0].error_code for topic in decision.response.topics]
    assert (codes, len(decision.records)) == ([E.UNKNOWN_TOPIC_ID, E.NONE], 1)


def test_who_leaves_below_the_minimum_is_eligible_until_enough_are_in_sync_again() -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2]}, {"min.insync.replicas": "2"}))
    decision = decided(asked(image, 1, partition_epoch=0), image)
    image = replayed(image, decision.records)
    assert partition_of(image, "orders", 0).eligible_leader_replicas == (2,)
    image = replayed(image, decided(asked(image, 1, 2), image).records)
    assert partition_of(image, "orders", 0).eligible_leader_replicas == ()
