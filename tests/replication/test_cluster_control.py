from collections.abc import Sequence

import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import FenceBrokerRecord, PartitionChangeRecord, RegisterBrokerRecord
from barnabas.replication.controller.cluster_control import (
    bootstrap_records,
    broker_heartbeat,
    register_broker,
    unfence_records,
)
from barnabas.replication.metadata.image import Endpoint, MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import (
    cluster,
    features,
    new_topic,
    partition_of,
    registration,
    topic_of,
    uuid,
    with_topics,
)

E = ErrorCode


def test_a_new_cluster_starts_with_the_features_of_kafka_4_3_that_are_served() -> None:
    levels = [(record.name, record.feature_level) for record in bootstrap_records()]
    assert levels == [("metadata.version", 30), ("group.version", 1)]


def test_a_broker_is_registered_fenced_and_then_unfenced() -> None:
    image = cluster()._replace(end_offset=41)
    records, response = register_broker(registration(1, rack="a"), image)
    image = replayed(image, records)
    broker = image.brokers[1]
    assert (response.broker_epoch, broker.broker_epoch, broker.fenced, broker.rack) == (41, 41, True, "a")
    assert broker.endpoints == {"PLAINTEXT": Endpoint("localhost", 9093, 0)}
    assert broker.features == {"metadata.version": (7, 30), "group.version": (0, 1)}
    assert broker.log_dirs == (uuid(201),)
    image = replayed(image, broker_heartbeat(heartbeat(1, 41), image).records)
    assert image.brokers[1] == broker._replace(fenced=False)
    assert not broker_heartbeat(heartbeat(1, 41), image).records  # it is already


def heartbeat(
    broker_id: int, broker_epoch: int, offset: int = 41, *, want_fence: bool = False, want_shut_down: bool = False
) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=offset,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
    )


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
    image = replayed(image, register_broker(registration(1), image).records)
    records, response = broker_heartbeat(asked, image)
    found = (response.is_caught_up, response.is_fenced, response.should_shut_down)
    assert found == (is_caught_up, is_fenced, should_shut_down)
    assert replayed(image, records).brokers[1].fenced == is_fenced


@pytest.mark.parametrize("wish", ["want_fence", "want_shut_down"])
def test_an_active_broker_cannot_be_fenced_so_far(wish: str) -> None:
    image = cluster(1)
    with pytest.raises(KafkaError) as raised:
        broker_heartbeat(heartbeat(1, image.brokers[1].broker_epoch, **{wish: True}), image)
    assert raised.value.code == E.INVALID_REQUEST


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
        (registration(3, features=()), E.UNSUPPORTED_VERSION),
        (registration(1, incarnation_id=uuid(9)), E.DUPLICATE_BROKER_REGISTRATION),  # broker 1 is alive
        (registration(1), E.NONE),  # the same incarnation may say it again
    ],
)
def test_a_registration_is_taken_or_refused_for_the_reason_kafka_gives(
    asked: BrokerRegistrationRequest, code: E
) -> None:
    image = cluster(1, 2)
    try:
        register_broker(asked, image, has_session=True)
        found = E.NONE
    except KafkaError as error:
        found = error.code
    assert found == code


def test_the_same_incarnation_keeps_its_epoch_and_stays_unfenced() -> None:
    image = cluster(1)
    records, response = register_broker(registration(1, rack="b"), image._replace(end_offset=99))
    after = replayed(image, records).brokers[1]
    assert (response.broker_epoch, after) == (image.brokers[1].broker_epoch, image.brokers[1]._replace(rack="b"))


def restarted(image: MetadataImage, **changes: object) -> Sequence[MetadataRecord]:
    """Broker 1 as it comes back, under another incarnation id."""
    image = image._replace(end_offset=99)
    return register_broker(registration(1, incarnation_id=uuid(77), **changes), image).records


def test_a_broker_that_stopped_cleanly_goes_on_in_the_same_leader_epoch() -> None:
    image = with_topics(cluster(1), new_topic("orders", 3))
    records = restarted(image, previous_broker_epoch=image.brokers[1].broker_epoch)
    assert [type(record) for record in records] == [RegisterBrokerRecord]


def test_a_broker_that_did_not_begins_a_new_leader_epoch_where_nobody_else_can_lead() -> None:
    image = with_topics(cluster(1), new_topic("orders", 3))
    records = restarted(image)
    assert [type(record) for record in records] == [*[PartitionChangeRecord] * 3, RegisterBrokerRecord]
    for partition in topic_of(replayed(image, records), "orders").partitions:
        assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1,))


@pytest.mark.parametrize(
    ("image", "replicas", "leader", "isr"),
    [
        (cluster(1, 2), [1, 2], 2, (2,)),  # the other is in sync: it leads
        (cluster(1, 2), [2, 1], 2, (2,)),  # it did already
        (cluster(1, 2, 3), [3, 2, 1], 3, (3, 2)),  # only the one that may have lost records leaves
    ],
)
def test_a_broker_that_did_not_leaves_the_in_sync_replicas_where_another_is_left(
    image: MetadataImage, replicas: list[int], leader: int, isr: tuple[int, ...]
) -> None:
    image = with_topics(image, new_topic("orders", -1, -1, {0: replicas}))
    partition = partition_of(replayed(image, restarted(image)), "orders", 0)
    assert (partition.leader, partition.isr, partition.replicas) == (leader, isr, tuple(replicas))


def test_with_all_others_fenced_there_is_no_leader_until_one_comes_back() -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2]}))
    epoch = image.brokers[2].broker_epoch
    image = replayed(image, [FenceBrokerRecord(id=2, epoch=epoch)])
    image = replayed(image, restarted(image))
    assert partition_of(image, "orders", 0)[:2] == (-1, 1)
    image = replayed(image, unfence_records(2, image))
    assert partition_of(image, "orders", 0)[:2] == (2, 2)


@pytest.mark.parametrize(("broker_id", "broker_epoch"), [(1, 99), (2, 0)])
def test_a_request_of_a_stale_broker_is_refused(broker_id: int, broker_epoch: int) -> None:
    image = cluster(1)
    with pytest.raises(KafkaError) as raised:
        broker_heartbeat(heartbeat(broker_id, broker_epoch), image)
    assert raised.value.code == E.STALE_BROKER_EPOCH
