from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from barnabas.replication.controller.channel import own_context
from barnabas.replication.controller.controller import Controller
from barnabas.replication.metadata.image import MetadataImage, PartitionImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import (
    cluster,
    controller,
    decided,
    new_topic,
    partition_of,
    registration,
    uuid,
    with_topics,
)


class Active:
    """An active controller whose decisions are replayed at once."""

    def __init__(self, image: MetadataImage, **settings: Any) -> None:
        self.image = image
        self.controller: Controller = controller(**settings)
        self.controller.sessions.begin([broker.broker_id for broker in image.active_brokers], now_ms=0)
        self.records: list[MetadataRecord] = []
        """Those of the latest heartbeat."""

    def heartbeat(
        self, broker_id: int, offset: int | None = None, *, now_ms: int = 0, **wishes: bool
    ) -> BrokerHeartbeatResponse:
        """The heartbeat of a broker that has applied everything, if it is not said how much."""
        offset = self.image.end_offset - 1 if offset is None else offset
        asked = heartbeat(broker_id, self.image.brokers[broker_id].broker_epoch, offset, **wishes)
        records, response = self.controller.decide(asked, own_context(asked), self.image, now_ms=now_ms)
        self.records = list(records)
        end_offset = self.image.end_offset + len(records)
        self.image = replayed(self.image, records)._replace(end_offset=end_offset)
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    def partition(self, index: int = 0) -> PartitionImage:
        return partition_of(self.image, f"orders-{index}", 0)


def heartbeat(
    broker_id: int, broker_epoch: int, offset: int, *, want_fence: bool = False, want_shut_down: bool = False
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=offset,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )


def orders(image: MetadataImage, *replicas: list[int]) -> MetadataImage:
    """Topics of one partition each, on these brokers."""
    topics = [new_topic(f"orders-{index}", -1, -1, {0: ids}) for index, ids in enumerate(replicas)]
    return with_topics(image, *topics)._replace(end_offset=100)


@pytest.mark.parametrize(
    ("asked", "is_caught_up", "is_fenced", "should_shut_down"),
    [
        (heartbeat(1, 41, 41), True, False, False),  # it has replayed its own registration
        (heartbeat(1, 41, 40), False, True, False),  # it has not
        (heartbeat(1, 41, 99, want_fence=True), True, True, False),  # it starts, and recovers its logs
        (heartbeat(1, 41, 99, want_shut_down=True), True, True, True),  # it leads nothing: it may go
    ],
)
def test_a_fenced_broker_stays_so_until_it_has_caught_up(
    asked: BrokerHeartbeatRequest, is_caught_up: bool, is_fenced: bool, should_shut_down: bool
) -> None:
    image = cluster()._replace(end_offset=41)
    image = replayed(image, decided(registration(1), image).records)
    records, response = decided(asked, image)
    found = (response.is_caught_up, response.is_fenced, response.should_shut_down)
    assert found == (is_caught_up, is_fenced, should_shut_down)
    assert replayed(image, records).brokers[1].fenced == is_fenced


def test_a_heartbeat_that_asks_for_nothing_new_writes_nothing() -> None:
    active = Active(cluster(1, fenced=(1,))._replace(end_offset=50))
    active.heartbeat(1)
    assert [type(record) for record in active.records] == [BrokerRegistrationChangeRecord]
    active.heartbeat(1)
    assert active.records == []


def test_a_heartbeat_is_a_contact_and_says_what_the_broker_has_applied() -> None:
    active = Active(cluster(1, 2)._replace(end_offset=50))
    active.heartbeat(1, 44, now_ms=100)
    sessions = active.controller.sessions
    assert (sessions.metadata_offset(1), sessions.metadata_offset(2)) == (44, -1)
    assert sessions.expired(now_ms=9_050) == [2]


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 99), (2, 0)])
def test_a_request_of_a_stale_broker_is_refused_and_no_contact(broker_id: int, broker_epoch: int) -> None:
    image, active, asked = cluster(1), controller(), heartbeat(broker_id, broker_epoch, 0)
    with pytest.raises(KafkaError) as raised:
        active.decide(asked, own_context(asked), image, now_ms=0)
    assert raised.value.code == ErrorCode.STALE_BROKER_EPOCH
    assert active.sessions.next_deadline_ms() is None


@pytest.mark.parametrize("shut_down", [True, False])
def test_an_active_broker_that_asks_for_the_fence_gets_it_and_others_lead(shut_down: bool) -> None:
    active = Active(orders(cluster(1, 2), [1, 2], [2, 1], [1]))
    response = active.heartbeat(1, want_fence=True, want_shut_down=shut_down)
    assert (response.is_fenced, response.should_shut_down) == (True, shut_down)
    assert [(active.partition(i).leader, active.partition(i).isr) for i in range(3)] == [
        (2, (2,)),
        (2, (2,)),
        (-1, ()),
    ]
    assert active.partition(2).eligible_leader_replicas == (1,)
    assert isinstance(active.records[-1], BrokerRegistrationChangeRecord)  # the partitions are first
    assert active.image.brokers[1].fenced
    assert active.controller.sessions.is_alive(1, now_ms=0) != shut_down  # the next incarnation need not wait


def test_a_broker_that_leads_nothing_may_shut_down_at_once() -> None:
    active = Active(orders(cluster(1, 2), [2, 1]))
    response = active.heartbeat(1, want_shut_down=True)
    assert (response.is_fenced, response.should_shut_down) == (True, True)
    assert active.partition().isr == (2,)


def test_a_leader_shuts_down_when_all_active_brokers_know_that_it_leads_no_more() -> None:
    active = Active(orders(cluster(1, 2, 3, 4, fenced=(4,)), [1, 2, 3], [1]))
    response = active.heartbeat(1, want_shut_down=True)
    assert (response.is_fenced, response.should_shut_down) == (False, False)
    assert [type(record) for record in active.records] == [
        BrokerRegistrationChangeRecord,  # first: nobody may elect it again
        *[PartitionChangeRecord] * 2,
    ]
    assert active.image.brokers[1].in_controlled_shutdown
    assert (active.partition(0).leader, active.partition(0).isr) == (2, (2, 3))
    assert (active.partition(1).leader, active.partition(1).isr) == (-1, ())  # nobody else can
    assert active.controller.sessions.controlled_shutdown_offset(1) == 102
    active.heartbeat(2, 102)
    active.heartbeat(3, 101)
    assert not active.heartbeat(1, want_shut_down=True).should_shut_down
    assert active.records == []
    active.heartbeat(3, 102)
    assert active.heartbeat(1, want_shut_down=True).should_shut_down  # broker 4 is fenced: nobody asks it
    assert active.image.brokers[1].fenced
    assert active.heartbeat(1, want_shut_down=True).should_shut_down  # the answer may be lost
    assert active.records == []


def test_a_new_controller_goes_on_with_a_controlled_shutdown() -> None:
    active = Active(orders(cluster(1, 2), [1, 2]))
    active.heartbeat(1, want_shut_down=True)
    successor = Active(active.image)
    assert successor.heartbeat(1, want_shut_down=True).should_shut_down  # it leads nothing any more


def test_a_broker_that_was_fenced_in_its_controlled_shutdown_may_go_at_once() -> None:
    active = Active(orders(cluster(1, 2), [1, 2]))
    active.heartbeat(1, want_shut_down=True)
    active.controller.sessions.end(1)
    fencing = active.controller.next_fencing(active.image, now_ms=0)
    assert fencing is not None
    active.image = replayed(active.image, fencing.records)
    assert active.heartbeat(1, want_shut_down=True).should_shut_down


def test_an_unfenced_broker_is_elected_where_it_is_in_sync_and_nobody_leads() -> None:
    active = Active(orders(cluster(1, 2), [1], [2], [2, 1]))
    active.heartbeat(1, want_fence=True)
    active.heartbeat(2, want_fence=True)
    assert [active.partition(index).leader for index in range(3)] == [-1, -1, -1]
    active.heartbeat(1)
    assert [active.partition(index).leader for index in range(3)] == [1, -1, -1]  # it is not in sync in the last
    active.heartbeat(2)
    assert [active.partition(index).leader for index in range(3)] == [1, 2, 2]


def test_a_new_incarnation_starts_without_what_the_former_reported() -> None:
    active = Active(orders(cluster(1, 2), [1, 2]))
    active.heartbeat(1, want_shut_down=True)
    sessions = active.controller.sessions
    sessions.end(1)
    again = registration(1, incarnation_id=uuid(77))
    active.controller.decide(again, own_context(again), active.image, now_ms=0)
    assert (sessions.metadata_offset(1), sessions.controlled_shutdown_offset(1)) == (-1, None)
