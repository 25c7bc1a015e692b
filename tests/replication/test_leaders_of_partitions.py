"""Leaders on a controller that decides: it says why they change, and looks after them from time to time."""

from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.stored.metadata_records import PartitionChangeRecord
from tests.replication.clusters import new_topic, partition_of, registration, topic_of
from tests.replication.quorums import Quorum


@pytest.fixture
def quorum(tmp_path: Path) -> Quorum:
    return Quorum(OsFiles(), str(tmp_path / "data")).lead()


def heartbeat(quorum: Quorum, broker_id: int) -> None:
    epoch = quorum.image.brokers[broker_id].broker_epoch
    request = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=epoch, want_fence=False, want_shut_down=False
    )
    quorum.submit(request)
    quorum.run()


def join(quorum: Quorum, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        quorum.submit(registration(broker_id))
        quorum.run()
        heartbeat(quorum, broker_id)


def test_a_leader_that_is_lost_is_told_with_the_reason(quorum: Quorum) -> None:
    join(quorum, 2, 3)
    quorum.submit(CreateTopicsRequest(topics=[new_topic("events", -1, -1, {0: [2, 3]})]))
    quorum.run()
    quorum.controller.end_session(2)
    quorum.run()
    assert quorum.report.having("events-0") == [
        "info events-0: leader 2 -> 3 (epoch 1), in sync 2,3 -> 3: broker 2 was fenced"
    ]


def test_the_preferred_leader_leads_again_after_a_while(quorum: Quorum) -> None:
    join(quorum, 2, 3)
    quorum.submit(CreateTopicsRequest(topics=[new_topic("events", -1, -1, {0: [2, 3]})]))
    quorum.run()
    quorum.append(PartitionChangeRecord(partition_id=0, topic_id=topic_of(quorum.image, "events").topic_id, leader=3))
    for _ in range(310):
        quorum.clock.advance(1_000)
        quorum.run()
        for broker_id in (2, 3):
            heartbeat(quorum, broker_id)
    assert partition_of(quorum.image, "events", 0).leader == 2
    assert len(quorum.report.having("it is the preferred leader")) == 1


def test_a_broker_that_is_alone_needs_no_look(quorum: Quorum) -> None:
    join(quorum, 2)
    alone = quorum.clock.pending_timers
    join(quorum, 3)
    assert quorum.clock.pending_timers == alone + 1
    quorum.stop()
    assert quorum.clock.pending_timers < alone
