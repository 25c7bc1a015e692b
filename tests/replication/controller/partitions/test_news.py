from typing import Any

import pytest

from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest
from barnabas.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.types import uuid_text
from barnabas.replication.controller.partitions.news import is_news, partition_news
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, new_topic, topic_of, uuid, with_topics

IMAGE = with_topics(cluster(1, 2, 3), new_topic("events", -1, -1, {index: [2, 3, 1] for index in range(8)}))
TOPIC_ID = topic_of(IMAGE, "events").topic_id
ALTER = AlterPartitionRequest(broker_id=2, topics=[])
ELECT = ElectLeadersRequest(topic_partitions=None)
STOPS = BrokerHeartbeatRequest(
    broker_id=2, broker_epoch=0, current_metadata_offset=0, want_fence=False, want_shut_down=True
)


LOST_ALL = BrokerHeartbeatRequest(
    broker_id=2, broker_epoch=0, current_metadata_offset=0, want_fence=False, want_shut_down=False
)
ASSIGN = AssignReplicasToDirsRequest(broker_id=2, directories=[])


def change(index: int = 0, **changes: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, **changes)


def broker(**changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=0, **changes)


@pytest.mark.parametrize(
    ("records", "request_", "line"),
    [
        ([change(leader=3, isr=[3, 1]), broker(fenced=1)], None,
         "events-0: leader 2 -> 3 (epoch 1), in sync 2,3,1 -> 3,1: broker 2 was fenced"),
        ([change(leader=-1, isr=[]), broker(fenced=1)], None,
         "events-0: leader 2 -> none (epoch 1), in sync 2,3,1 -> none: broker 2 was fenced"),
        ([broker(fenced=-1), change(leader=3)], None, "events-0: leader 2 -> 3 (epoch 1): broker 2 is back"),
        ([broker(in_controlled_shutdown=1), change(leader=3)], STOPS,
         "events-0: leader 2 -> 3 (epoch 1): broker 2 stops"),
        ([change(isr=[3, 1])], STOPS, "events-0: in sync 2,3,1 -> 3,1: broker 2 stops"),
        ([change(isr=[3, 1])], LOST_ALL, "events-0: in sync 2,3,1 -> 3,1: every log dir of broker 2 has failed"),
        ([change(leader=3, directories=[])], ASSIGN,
         "events-0: leader 2 -> 3 (epoch 1): broker 2 has said in which log dir its replica lies"),
        ([change(isr=[3, 1]), UnregisterBrokerRecord(broker_id=2, broker_epoch=0)], None,
         "events-0: in sync 2,3,1 -> 3,1: broker 2 was unregistered"),
        ([change(isr=[2, 3])], ALTER, "events-0: in sync 2,3,1 -> 2,3: 1 fell behind"),
        ([change(leader=3)], ELECT, "events-0: leader 2 -> 3 (epoch 1): an election was asked for"),
        ([change(leader=3)], None, "events-0: leader 2 -> 3 (epoch 1): it is the preferred leader"),
    ],
)  # fmt: skip
def test_a_line_says_what_changed_and_why(records: list[Any], request_: Any, line: str) -> None:
    assert [found.text for found in partition_news(records, request_, IMAGE)] == [line]


def test_a_log_dir_that_failed_is_told_once_and_is_the_reason_for_what_follows() -> None:
    records: list[Any] = [change(leader=3, isr=[3, 1]), broker(log_dirs=[uuid(1)])]
    failed = uuid_text(IMAGE.brokers[2].log_dirs[0])
    first, second = partition_news(records, LOST_ALL, IMAGE)
    assert first.text == f"broker 2 has lost log dir {failed}; 1 left"
    assert first.fields == {"broker": 2, "failed_log_dirs": [failed], "log_dirs_left": 1}
    assert second.text.endswith(f"in sync 2,3,1 -> 3,1: log dir {failed} of broker 2 has failed")
    assert [is_news(record) for record in (*records, broker(fenced=1))] == [True, True, False]


def test_a_leader_says_who_came_and_what_is_complete() -> None:
    image = replayed(IMAGE, [change(isr=[2])])
    (line,) = partition_news([change(isr=[2, 1])], ALTER, image)
    assert line.text == "events-0: in sync 2 -> 2,1: 1 caught up"
    assert line.fields == {"partition": "events-0", "leader": 2, "leader_epoch": 0, "isr": [2, 1]}
    image = replayed(IMAGE, [change(isr=[2, 3], adding_replicas=[1])])
    (line,) = partition_news([change(isr=[2, 3, 1], adding_replicas=[])], ALTER, image)
    assert line.text == "events-0: in sync 2,3 -> 2,3,1: its reassignment is complete"


@pytest.mark.parametrize("record", [change(leader=2), change(replicas=[2, 3, 1, 4]), change(last_known_elr=[])])
def test_what_changes_neither_leader_nor_who_is_in_sync_is_no_news(record: PartitionChangeRecord) -> None:
    assert partition_news([record], ELECT, IMAGE) == []


@pytest.mark.parametrize(("partitions", "last"), [(6, "and 1 more partition: "), (8, "and 3 more partitions: ")])
def test_of_many_partitions_the_first_are_named_and_the_others_counted(partitions: int, last: str) -> None:
    records: list[Any] = [*(change(index, leader=3) for index in range(partitions)), broker(fenced=1)]
    lines = [line.text for line in partition_news(records, None, IMAGE)]
    assert (len(lines), lines[-1]) == (6, f"{last}broker 2 was fenced")
