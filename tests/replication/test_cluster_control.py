import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.metadata_records import FenceBrokerRecord, PartitionChangeRecord, RegisterBrokerRecord
from barnabas.replication.cluster_control import (
    allocate_producer_ids,
    bootstrap_records,
    register_and_unfence,
    register_broker,
    unfence_broker,
)
from barnabas.replication.image import ProducerIds
from barnabas.replication.image_delta import replayed
from tests.replication.clusters import cluster, new_topic, registration, uuid, with_topics

E = ErrorCode


def test_a_new_cluster_starts_with_the_features_of_kafka_4_3_that_are_served():
    levels = [(record.name, record.feature_level) for record in bootstrap_records()]
    assert levels == [("metadata.version", 30), ("group.version", 1)]


def test_a_broker_is_registered_fenced_and_then_unfenced():
    image = cluster()._replace(end_offset=41)
    records, epoch = register_broker(registration(1, rack="a"), image)
    image = replayed(image, records)
    broker = image.brokers[1]
    assert (epoch, broker.broker_epoch, broker.fenced, broker.rack) == (41, 41, True, "a")
    assert broker.endpoints == registration(1).endpoints
    assert broker.features == {"metadata.version": (7, 30), "group.version": (0, 1)}
    assert broker.log_dirs == (uuid(201),)
    image = replayed(image, unfence_broker(1, epoch, image).records)
    assert image.brokers[1] == broker._replace(fenced=False)
    assert not unfence_broker(1, epoch, image).records  # it is already


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
        (registration(3, features={"metadata.version": (7, 29)}), E.UNSUPPORTED_VERSION),
        (registration(3, features={}), E.UNSUPPORTED_VERSION),
        (registration(1, incarnation_id=uuid(9)), E.DUPLICATE_BROKER_REGISTRATION),  # broker 1 is alive
        (registration(1), E.NONE),  # the same incarnation may say it again
    ],
)
def test_a_registration_is_taken_or_refused_for_the_reason_kafka_gives(asked, code):
    image = cluster(1, 2)
    try:
        register_broker(asked, image, has_session=True)
        found = E.NONE
    except KafkaError as error:
        found = error.code
    assert found == code


def test_the_same_incarnation_keeps_its_epoch_and_stays_unfenced():
    image = cluster(1)
    records, epoch = register_broker(registration(1, rack="b"), image._replace(end_offset=99))
    after = replayed(image, records).brokers[1]
    assert (epoch, after) == (image.brokers[1].broker_epoch, image.brokers[1]._replace(rack="b"))


def restarted(image, **changes):
    """Broker 1 as it comes back, under another incarnation id."""
    image = image._replace(end_offset=99)
    return register_broker(registration(1, incarnation_id=uuid(77), **changes), image).records


def test_a_broker_that_stopped_cleanly_goes_on_in_the_same_leader_epoch():
    image = with_topics(cluster(1), new_topic("orders", 3))
    records = restarted(image, previous_broker_epoch=image.brokers[1].broker_epoch)
    assert [type(record) for record in records] == [RegisterBrokerRecord]


def test_a_broker_that_did_not_begins_a_new_leader_epoch_where_nobody_else_can_lead():
    image = with_topics(cluster(1), new_topic("orders", 3))
    records = restarted(image)
    assert [type(record) for record in records] == [*[PartitionChangeRecord] * 3, RegisterBrokerRecord]
    for partition in replayed(image, records).topic("orders").partitions:
        assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 1, (1,))


@pytest.mark.parametrize(
    ("image", "replicas", "leader", "isr"),
    [
        (cluster(1, 2), [1, 2], 2, (2,)),  # the other is in sync: it leads
        (cluster(1, 2), [2, 1], 2, (2,)),  # it did already
        (cluster(1, 2, 3), [3, 2, 1], 3, (3, 2)),  # only the one that may have lost records leaves
    ],
)
def test_a_broker_that_did_not_leaves_the_in_sync_replicas_where_another_is_left(image, replicas, leader, isr):
    image = with_topics(image, new_topic("orders", -1, -1, {0: replicas}))
    partition = replayed(image, restarted(image)).partition("orders", 0)
    assert (partition.leader, partition.isr, partition.replicas) == (leader, isr, tuple(replicas))


def test_with_all_others_fenced_there_is_no_leader_until_one_comes_back():
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2]}))
    epoch = image.brokers[2].broker_epoch
    image = replayed(image, [FenceBrokerRecord(id=2, epoch=epoch)])
    image = replayed(image, restarted(image))
    assert image.partition("orders", 0)[:2] == (-1, 1)
    image = replayed(image, unfence_broker(2, epoch, image).records)
    assert image.partition("orders", 0)[:2] == (2, 2)


def test_the_controllers_own_broker_registers_and_is_unfenced_in_one_go():
    image = with_topics(cluster(1), new_topic("orders"))._replace(end_offset=99)
    asked = registration(1, incarnation_id=uuid(77))
    records, epoch = register_and_unfence(asked, image)
    step = replayed(image, register_broker(asked, image).records)
    assert replayed(image, records) == replayed(step, unfence_broker(1, epoch, step).records)
    assert replayed(image, records).brokers[1].is_active


def test_a_stale_broker_is_told_so():
    image = cluster(1)
    for broker_id, broker_epoch in ((1, 99), (2, 0)):
        for ask in (unfence_broker, allocate_producer_ids):
            with pytest.raises(KafkaError) as raised:
                ask(broker_id, broker_epoch, image)
            assert raised.value.code == E.STALE_BROKER_EPOCH


def test_producer_ids_are_given_out_a_thousand_at_a_time_and_never_twice():
    image = cluster(1)
    epoch = image.brokers[1].broker_epoch
    blocks = []
    for _ in range(3):
        records, block = allocate_producer_ids(1, epoch, image)
        image = replayed(image, records)
        blocks.append(tuple(block))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert image.producer_ids == ProducerIds(1, epoch, 3000)


def test_producer_ids_that_run_out_are_an_error():
    image = cluster(1)._replace(producer_ids=ProducerIds(1, 1, 2**63 - 1000))
    with pytest.raises(KafkaError, match="used up"):
        allocate_producer_ids(1, image.brokers[1].broker_epoch, image)
