from collections.abc import Sequence

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from barnabas.replication.controller.brokers.fencing import unfence_records
from barnabas.replication.controller.channel import own_context
from barnabas.replication.controller.cluster_control import bootstrap_records
from barnabas.replication.controller.controller import Controller
from barnabas.replication.metadata.image import Endpoint, MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import (
    cluster,
    controller,
    decided,
    features,
    new_topic,
    partition_of,
    registration,
    topic_of,
    uuid,
    with_topics,
)

E = ErrorCode
SUPPORTED = {
    "metadata.version": (7, 30),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
    "transaction.version": (0, 2),
}


def test_a_new_cluster_starts_with_the_features_of_kafka_4_3_that_are_served() -> None:
    levels = [(record.name, record.feature_level) for record in bootstrap_records()]
    assert levels == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("transaction.version", 2),
    ]


def test_a_broker_is_registered_fenced() -> None:
    image = cluster()._replace(end_offset=41)
    records, response = decided(registration(1, rack="a"), image)
    image = replayed(image, records)
    broker = image.brokers[1]
    assert (response.broker_epoch, broker.broker_epoch, broker.fenced, broker.rack) == (41, 41, True, "a")
    assert broker.endpoints == {"PLAINTEXT": Endpoint("localhost", 9093, 0)}
    assert broker.features == SUPPORTED
    assert broker.log_dirs == (uuid(201),)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (registration(3), E.NONE),
        (registration(3, cluster_id="another"), E.INCONSISTENT_CLUSTER_ID),
        (registration(3, log_dirs=()), E.INVALID_REGISTRATION),
        (registration(3, log_dirs=(uuid(1), uuid(1))), E.INVALID_REGISTRATION),
        (registration(3, log_dirs=(bytes(16),)), E.INVALID_REGISTRATION),  # reserved
        (registration(3, log_dirs=(bytes(15) + b"\1",)), E.INVALID_REGISTRATION),
        (registration(3, log_dirs=(uuid(201),)), E.INVALID_REGISTRATION),  # that of broker 1
        (registration(1, log_dirs=(uuid(201),)), E.NONE),  # its own
        (registration(3, features=features({"metadata.version": (7, 29)})), E.UNSUPPORTED_VERSION),
        (registration(3, features=features({"metadata.version": (7, 30)})), E.UNSUPPORTED_VERSION),  # of group.version
        (registration(3, features=features({**SUPPORTED, "x": (1, 2)})), E.UNSUPPORTED_VERSION),  # it has no level 0
        (registration(3, features=features({**SUPPORTED, "x": (0, 2)})), E.NONE),
        (registration(3, features=()), E.INVALID_REGISTRATION),  # metadata.version must be there
        (registration(3, is_migrating_zk_broker=True), E.BROKER_ID_NOT_REGISTERED),
        (registration(1, incarnation_id=uuid(9)), E.DUPLICATE_BROKER_REGISTRATION),  # broker 1 is alive
        (registration(1), E.NONE),  # the same incarnation may say it again
    ],
)
def test_a_registration_is_taken_or_refused_for_the_reason_kafka_gives(
    asked: BrokerRegistrationRequest, code: E
) -> None:
    image, active = cluster(1, 2), controller()
    active.sessions.begin([1, 2], now_ms=0)
    assert registered(active, asked, image, now_ms=1) == code


def registered(active: Controller, asked: BrokerRegistrationRequest, image: MetadataImage, *, now_ms: int) -> E:
    try:
        return E(active.decide(asked, own_context(asked), image, now_ms=now_ms).response.error_code)
    except KafkaError as error:
        return error.code


def test_no_other_process_registers_under_an_id_until_the_session_has_ended() -> None:
    image, active, other = cluster(1), controller(broker_session_timeout_ms=9_000), registration(1)
    assert registered(active, registration(1), image, now_ms=5) == E.NONE  # which is a contact
    other.incarnation_id = uuid(77)
    assert registered(active, other, image, now_ms=9_004) == E.DUPLICATE_BROKER_REGISTRATION
    assert registered(active, other, image, now_ms=9_005) == E.NONE


def test_a_registration_whose_record_was_not_written_can_be_tried_again_at_once() -> None:
    image, active = cluster(1)._replace(end_offset=99), controller()
    again = registration(1, incarnation_id=uuid(77))
    assert registered(active, again, image, now_ms=0) == E.NONE
    assert registered(active, again, image, now_ms=0) == E.NONE  # the image does not know the first


def test_a_process_that_is_known_to_be_dead_does_not_keep_the_next_out() -> None:
    image, active = cluster(1), controller()
    active.sessions.begin([1], now_ms=0)
    active.sessions.end(1)
    assert registered(active, registration(1, incarnation_id=uuid(77)), image, now_ms=0) == E.NONE
    assert active.sessions.is_alive(1, now_ms=0)


def test_the_same_incarnation_keeps_its_epoch_and_stays_unfenced() -> None:
    image = cluster(1)
    records, response = decided(registration(1, rack="b"), image._replace(end_offset=99))
    after = replayed(image, records).brokers[1]
    assert (response.broker_epoch, after) == (image.brokers[1].broker_epoch, image.brokers[1]._replace(rack="b"))


def restarted(image: MetadataImage, **changes: object) -> Sequence[MetadataRecord]:
    """Broker 1 as it comes back, under another incarnation id."""
    image = image._replace(end_offset=99)
    return decided(registration(1, incarnation_id=uuid(77), **changes), image).records


def test_a_broker_that_is_alone_and_stopped_cleanly_goes_on_in_the_same_leader_epoch() -> None:
    image = with_topics(cluster(1), new_topic("orders", 3))
    records = restarted(image, previous_broker_epoch=image.brokers[1].broker_epoch)
    assert [type(record) for record in records] == [RegisterBrokerRecord]


def test_a_broker_that_is_alone_and_did_not_leads_on_in_a_new_leader_epoch() -> None:
    image = with_topics(cluster(1), new_topic("orders", 3))
    records = restarted(image)
    assert [type(record) for record in records] == [*[PartitionChangeRecord] * 3, RegisterBrokerRecord]
    for partition in topic_of(replayed(image, records), "orders").partitions:
        assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1,))


@pytest.mark.parametrize(
    ("image", "replicas", "leader", "isr"),
    [
        (cluster(1, 2, 3), [1, 2], 2, (2,)),  # the other is in sync: it leads
        (cluster(1, 2), [2, 1], 2, (2,)),  # it did already
        (cluster(1, 2, 3), [3, 2, 1], 3, (3, 2)),  # nobody else leaves
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_new_incarnation_leaves_the_in_sync_replicas_where_another_is_left(
    image: MetadataImage, replicas: list[int], leader: int, isr: tuple[int, ...], clean: bool
) -> None:
    image = with_topics(image, new_topic("orders", -1, -1, {0: replicas}))
    records = restarted(image, previous_broker_epoch=image.brokers[1].broker_epoch if clean else -1)
    assert [type(record) for record in records] == [PartitionChangeRecord, RegisterBrokerRecord]  # that one is last
    after = replayed(image, records)
    partition = partition_of(after, "orders", 0)
    assert (partition.leader, partition.isr, partition.replicas) == (leader, isr, tuple(replicas))
    assert partition.leader_epoch == (replicas[0] == 1)  # a new one where the leader changed, and only there
    assert after.brokers[1].broker_epoch == 99 + 1  # its own offset


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_in_sync_replica_leads_again_in_a_new_epoch_once_it_is_unfenced(clean: bool) -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1]}))
    image = replayed(image, restarted(image, previous_broker_epoch=image.brokers[1].broker_epoch if clean else -1))
    partition = partition_of(image, "orders", 0)
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.last_known_elr) == (-1, 1, (), (1,))
    assert partition.eligible_leader_replicas == ((1,) if clean else ())
    image = replayed(image, unfence_records(1, image, controller().settings))
    partition = partition_of(image, "orders", 0)
    assert (partition.leader, partition.leader_epoch, partition.isr, partition.last_known_elr) == (1, 2, (1,), ())
    assert partition.leader_recovery_state == (not clean)  # it may have lost records


@pytest.mark.parametrize("clean", [True, False])
def test_without_elr_the_last_in_sync_replica_stays_in_sync(clean: bool) -> None:
    image = with_topics(cluster(1, 2, elr=False), new_topic("orders", -1, -1, {0: [1]}))
    image = replayed(image, restarted(image, previous_broker_epoch=image.brokers[1].broker_epoch if clean else -1))
    assert partition_of(image, "orders", 0)[:2] == (-1, 1)
    assert partition_of(image, "orders", 0).isr == (1,)
    image = replayed(image, unfence_records(1, image, controller().settings))
    assert partition_of(image, "orders", 0)[:2] == (1, 2)
    assert partition_of(image, "orders", 0).leader_recovery_state == 0


def test_with_all_others_fenced_there_is_no_leader_until_one_comes_back() -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2]}))
    epoch = image.brokers[2].broker_epoch
    image = replayed(image, [FenceBrokerRecord(id=2, epoch=epoch)])
    image = replayed(image, restarted(image))
    assert partition_of(image, "orders", 0)[:2] == (-1, 1)
    image = replayed(image, unfence_records(2, image, controller().settings))
    assert partition_of(image, "orders", 0)[:2] == (2, 2)


def old(image: MetadataImage) -> MetadataImage:
    """A cluster from before transactions."""
    levels = {name: level for name, level in image.features.items() if name != "transaction.version"}
    brokers = {
        broker_id: broker._replace(features={**broker.features, "transaction.version": (0, 0)})
        for broker_id, broker in image.brokers.items()
    }
    return image._replace(features=levels, brokers=brokers)


def level_after(image: MetadataImage, asked: BrokerRegistrationRequest) -> int | None:
    records, response = decided(asked, image)
    after = replayed(image, records)
    assert after.brokers[asked.broker_id].broker_epoch == response.broker_epoch == image.end_offset + len(records) - 1
    return after.features.get("transaction.version")


def test_a_cluster_from_before_transactions_is_raised_to_them_by_the_last_broker_that_supports_them() -> None:
    assert level_after(old(cluster(1)), registration(1, incarnation_id=uuid(77))) == 2
    assert level_after(old(cluster(1, 2)), registration(1, incarnation_id=uuid(77))) is None  # broker 2 is still old
    unable = registration(1, incarnation_id=uuid(77), features=features({**SUPPORTED, "transaction.version": (0, 1)}))
    assert level_after(old(cluster(1)), unable) is None


def test_a_level_that_an_operator_has_chosen_stays() -> None:
    image = cluster(1)
    lowered = replayed(image, [FeatureLevelRecord(name="transaction.version", feature_level=0)])
    assert level_after(lowered, registration(1, incarnation_id=uuid(77))) is None
    lowered = replayed(image, [FeatureLevelRecord(name="transaction.version", feature_level=1)])
    assert level_after(lowered, registration(1, incarnation_id=uuid(77))) == 1


def test_a_broker_that_is_new_raises_nothing() -> None:
    assert level_after(old(cluster(1)), registration(2)) is None
