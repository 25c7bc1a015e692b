import pytest

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    UnregisterBrokerRecord,
)
from barnabas.replication.controller.broker_sessions import BrokerSessions
from barnabas.replication.controller.controller import Controller
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, controller, new_topic, partition_of, with_topics


def test_a_session_lasts_as_long_as_there_are_contacts() -> None:
    sessions = BrokerSessions(100)
    sessions.contact(1, 5, 40, now_ms=0)
    sessions.contact(1, 5, 41, now_ms=90)
    assert [sessions.is_alive(1, now_ms=now_ms) for now_ms in (0, 189, 190)] == [True, True, False]
    assert not sessions.is_alive(2, now_ms=0)
    assert (sessions.next_deadline_ms(), sessions.metadata_offset(1)) == (190, 41)


def test_expired_sessions_are_listed_until_they_are_forgotten() -> None:
    sessions = BrokerSessions(100)
    for broker_id, now_ms in ((3, 5), (1, 5), (2, 0), (4, 50)):
        sessions.contact(broker_id, 7, 0, now_ms=now_ms)
    assert sessions.expired(now_ms=105) == [2, 1, 3]
    sessions.forget(1)
    sessions.contact(3, 7, 0, now_ms=105)  # it was late, and is there
    assert sessions.expired(now_ms=105) == [2]
    sessions.clear()
    assert (sessions.expired(now_ms=999), sessions.next_deadline_ms()) == ([], None)


def test_a_session_that_was_ended_has_expired_at_once() -> None:
    sessions = BrokerSessions(100)
    sessions.contact(1, 5, 40, now_ms=0)
    sessions.end(1)
    sessions.end(2)  # nobody knows it
    assert (sessions.is_alive(1, now_ms=0), sessions.expired(now_ms=0)) == (False, [1])
    sessions.contact(1, 5, 40, now_ms=0)  # it was not dead after all
    assert sessions.is_alive(1, now_ms=0)


def test_a_controller_that_becomes_active_gives_fresh_sessions_and_knows_no_offsets() -> None:
    sessions = BrokerSessions(100)
    sessions.contact(1, 5, 40, now_ms=0)
    sessions.contact(3, 5, 40, now_ms=0)
    sessions.begin([1, 2], now_ms=1000)
    assert [sessions.is_alive(broker_id, now_ms=1099) for broker_id in (1, 2, 3)] == [True, True, False]
    assert (sessions.metadata_offset(1), sessions.next_deadline_ms()) == (-1, 1100)


@pytest.mark.parametrize(
    ("broker_epoch", "is_alive"),
    [
        (5, True),
        (4, False),  # another registration was heard of, not this one
        (None, True),  # whichever it was
    ],
)
def test_a_session_belongs_to_one_registration(broker_epoch: int | None, is_alive: bool) -> None:
    sessions = BrokerSessions(100)
    sessions.contact(1, 5, 40, now_ms=0)
    assert sessions.is_alive(1, now_ms=0, broker_epoch=broker_epoch) == is_alive


def test_a_session_that_a_new_controller_gave_belongs_to_any_registration() -> None:
    sessions = BrokerSessions(100)
    sessions.begin([1], now_ms=0)
    assert sessions.is_alive(1, now_ms=0, broker_epoch=5)


def test_the_offset_of_a_controlled_shutdown_is_that_of_its_beginning() -> None:
    sessions = BrokerSessions(100)
    sessions.contact(1, 5, 40, now_ms=0)
    sessions.begin_controlled_shutdown(1, 50)
    sessions.begin_controlled_shutdown(1, 60)
    assert sessions.controlled_shutdown_offset(1) == 50
    sessions.contact(1, 6, -1, now_ms=0)  # another incarnation does not stop
    assert sessions.controlled_shutdown_offset(1) is None


# ---- fencing


def fenced_one_by_one(active: Controller, image: MetadataImage, *, now_ms: int) -> MetadataImage:
    while (fencing := active.next_fencing(image, now_ms=now_ms)) is not None:
        assert isinstance(fencing.records[-1], BrokerRegistrationChangeRecord)  # the partitions are first
        assert all(isinstance(record, PartitionChangeRecord) for record in fencing.records[:-1])
        image = replayed(image, fencing.records)
    return image


def started(*broker_ids: int) -> Controller:
    active = controller(broker_session_timeout_ms=100)
    active.sessions.begin(broker_ids, now_ms=0)
    return active


def test_brokers_are_fenced_one_by_one_and_each_sees_the_effect_of_the_one_before() -> None:
    image = with_topics(cluster(1, 2, 3), new_topic("orders", -1, -1, {0: [1, 2, 3]}))
    active = started(1, 2, 3)
    assert active.next_fencing(image, now_ms=99) is None
    active.sessions.contact(3, image.brokers[3].broker_epoch, 0, now_ms=50)
    image = fenced_one_by_one(active, image, now_ms=100)
    assert [broker_id for broker_id, broker in image.brokers.items() if broker.fenced] == [1, 2]
    partition = partition_of(image, "orders", 0)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (3, (3,), 2)
    assert active.sessions.next_deadline_ms() == 150  # nobody is fenced twice


def test_a_broker_whose_fencing_could_not_be_written_is_fenced_a_little_later() -> None:
    image, active = cluster(1, 2), started(1, 2)
    active.sessions.contact(2, image.brokers[2].broker_epoch, 0, now_ms=90)
    assert active.next_fencing(image, now_ms=100) is not None
    assert active.next_fencing(image, now_ms=100) is None  # the image does not show it, and nothing spins
    assert (active.sessions.next_deadline_ms(), active.sessions.is_alive(1, now_ms=100)) == (112, False)
    assert active.next_fencing(image, now_ms=112) is not None
    active.sessions.contact(1, image.brokers[1].broker_epoch, 0, now_ms=113)
    active.sessions.end(1)
    assert active.next_fencing(image, now_ms=113) is not None  # this is another end


@pytest.mark.parametrize(("elr", "isr", "eligible"), [(True, (), (2,)), (False, (2,), ())])
def test_the_last_in_sync_replica_may_lead_again_when_it_is_fenced(
    elr: bool, isr: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    image = with_topics(cluster(1, 2, elr=elr), new_topic("orders", -1, -1, {0: [1, 2]}))
    image = fenced_one_by_one(started(1, 2), image, now_ms=100)
    partition = partition_of(image, "orders", 0)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, isr, eligible)


def test_a_follower_that_is_fenced_leaves_the_in_sync_replicas_and_the_leader_epoch_goes_on() -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2]}))
    active = started(1, 2)
    active.sessions.end(2)
    image = fenced_one_by_one(active, image, now_ms=0)
    partition = partition_of(image, "orders", 0)
    assert (partition.leader, partition.isr, partition.leader_epoch, partition.partition_epoch) == (1, (1,), 0, 1)


@pytest.mark.parametrize(
    ("topic", "controllers", "leader"),
    [
        (None, False, -1),
        ("true", False, 2),
        (None, True, 2),  # the topic says nothing
        ("false", True, -1),  # the topic says no
    ],
)
def test_a_replica_that_is_not_in_sync_leads_only_where_that_is_allowed(
    topic: str | None, controllers: bool, leader: int
) -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2]}))
    topic_id = image.topics["orders"].topic_id
    image = replayed(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1])])
    name = "unclean.leader.election.enable"
    if topic is not None:
        config = ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="orders", name=name, value=topic)
        image = replayed(image, [config])
    active = controller(unclean_leader_election_enable=controllers)
    active.sessions.begin([1], now_ms=0)
    active.sessions.end(1)
    partition = partition_of(fenced_one_by_one(active, image, now_ms=0), "orders", 0)
    assert (partition.leader, partition.isr) == (leader, (leader,) if leader > 0 else ())
    assert partition.leader_recovery_state == (leader == 2)  # recovering: it may lack records


def test_sessions_of_brokers_that_are_fenced_or_gone_end_without_a_record() -> None:
    image = cluster(1, 2, fenced=(1,))
    epoch = image.brokers[2].broker_epoch
    image = replayed(image, [UnregisterBrokerRecord(broker_id=2, broker_epoch=epoch)])
    active = started(1, 2)
    assert active.next_fencing(image, now_ms=100) is None
    assert active.sessions.next_deadline_ms() is None
