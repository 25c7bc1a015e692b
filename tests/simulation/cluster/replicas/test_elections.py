"""The invariants of what a controller decides see what they are there for."""

from typing import Any

import pytest

from barnabas.protocol.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionTopic,
    BrokerState,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.replication.controller.brokers.fencing import UNFENCE
from barnabas.replication.metadata.image import (
    BrokerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
    empty_image,
)
from tests.simulation.cluster.replicas.elections import Decision, check_decision

TOPIC_ID = b"t" * 16
PARTITION = PartitionImage(leader=1, leader_epoch=5, partition_epoch=7, replicas=(1, 2, 3), isr=(1,))


def broker(broker_id: int, *, fenced: bool = False) -> BrokerImage:
    return BrokerImage(broker_id, 100 + broker_id, bytes(16), {}, {}, None, fenced, False, ())


def image(*, fenced: tuple[int, ...] = ()) -> MetadataImage:
    topic = TopicImage("topic", TOPIC_ID, (PARTITION,))
    empty = empty_image("cluster")
    return empty._replace(
        topics_by_id=empty.topics_by_id.updated({TOPIC_ID: topic}),
        brokers={broker_id: broker(broker_id, fenced=broker_id in fenced) for broker_id in (1, 2, 3)},
    )


def asked(broker_id: int = 1, broker_epoch: int = 101, joins: int = 2, **fields: Any) -> AlterPartitionRequest:
    isr = [BrokerState(broker_id=1, broker_epoch=101), BrokerState(broker_id=joins, broker_epoch=fields.pop("of", 102))]
    epochs = {"leader_epoch": 5, "partition_epoch": 7} | fields
    partition = AlterPartitionData(partition_index=0, new_isr_with_epochs=isr, **epochs)
    topic = AlterPartitionTopic(topic_id=TOPIC_ID, partitions=[partition])
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=[topic])


def heartbeat(broker_epoch: int) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=2, broker_epoch=broker_epoch, current_metadata_offset=0, want_fence=False, want_shut_down=False
    )


JOINED = PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1, 2])
UNFENCED = BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=102, fenced=UNFENCE)


@pytest.mark.parametrize(
    ("records", "request_", "found"),
    [
        ([JOINED], asked(), None),
        ([JOINED], asked(broker_epoch=100), "I16"),  # from a life that is over
        ([JOINED], asked(leader_epoch=4), "I16"),  # from a leadership that is over
        ([JOINED], asked(partition_epoch=6), "I16"),  # about the partition as it was
        ([JOINED], asked(broker_id=3, broker_epoch=103), "I16"),  # by somebody who does not lead
        ([JOINED], asked(of=99), "I17"),  # caught up in a life that is over
        ([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1, 4])], None, "I17"),  # is no replica
        (
            [PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2)],
            None,
            "I17",
        ),  # leads without being in sync
        ([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[2])], None, "I18"),  # was not in sync
        ([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[1, 2])], asked(), None),  # is now
        ([UNFENCED], heartbeat(102), None),
        ([UNFENCED], heartbeat(98), "I16"),
        ([], heartbeat(98), None),  # has no effect
    ],
)
def test_a_decision_is_judged(records: list[MetadataRecord], request_: Any, found: str | None) -> None:
    decision = Decision(records, image(), request_)
    if found is None:
        check_decision(decision)
    else:
        with pytest.raises(AssertionError, match=found):
            check_decision(decision)


def test_who_is_fenced_does_not_join() -> None:
    with pytest.raises(AssertionError, match="I17"):
        check_decision(Decision([JOINED], image(fenced=(2,)), asked()))
    check_decision(Decision([UNFENCED, JOINED], image(fenced=(2,))))
