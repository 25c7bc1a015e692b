import time
from typing import Any

import pytest

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import (
    ConfigResource,
    ControllerImage,
    Endpoint,
    MetadataImage,
    ProducerIdsImage,
    changes_between,
    empty_image,
)
from barnabas.replication.metadata.image_delta import MetadataDelta, replayed
from barnabas.replication.metadata.snapshots import image_records
from tests.replication.clusters import cluster, new_topic, partition_of, topic_of, uuid, with_topics

TOPIC = ConfigResource(ResourceType.TOPIC, "orders")


def topic_records(name: str, topic_id: Uuid, partitions: int = 1) -> list[MetadataRecord]:
    return [TopicRecord(name=name, topic_id=topic_id), *(partition_record(topic_id, i) for i in range(partitions))]


def partition_record(topic_id: Uuid, index: int) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], removing_replicas=[], adding_replicas=[],
        leader=1, leader_epoch=0, partition_epoch=0,
    )  # fmt: skip


def orders(**changes: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=uuid(1), **changes)


def config(name: str, value: str | None, resource: ConfigResource = TOPIC) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def controller_record(controller_id: int, incarnation: int = 0, port: int = 9093) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=uuid(incarnation),
        zk_migration_ready=False,
        end_points=[ControllerEndpoint(name="CONTROLLER", host="localhost", port=port, security_protocol=0)],
        features=[ControllerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    )


@pytest.fixture
def image() -> MetadataImage:
    return replayed(cluster(1, 2), topic_records("orders", uuid(1)))


def test_a_topic_is_found_by_name_and_by_id(image: MetadataImage) -> None:
    assert image.topic("orders") is image.topic_by_id(uuid(1))
    assert partition_of(image, "orders", 0).replicas == (1, 2)
    assert [image.partition(*found) for found in (("orders", 1), ("orders", -1), ("payments", 0))] == [None] * 3


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"leader": 2}, {"leader": 2, "leader_epoch": 1}),
        ({"leader": 1}, {"leader": 1, "leader_epoch": 1}),  # named again: a new epoch all the same
        ({"isr": [1]}, {"isr": (1,), "leader_epoch": 0}),  # the leader was not named: its epoch goes on
        ({"isr": [2], "leader": -1}, {"isr": (2,), "leader": -1, "leader_epoch": 1}),
        ({"replicas": [2, 1]}, {"replicas": (2, 1)}),
        ({"leader_recovery_state": 1}, {"leader_recovery_state": 1}),
        ({"removing_replicas": [1], "adding_replicas": [3]}, {"removing_replicas": (1,), "adding_replicas": (3,)}),
    ],
)
def test_a_partition_change_changes_what_it_names_and_the_partition_epoch(
    image: MetadataImage, change: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = partition_of(image, "orders", 0)
    after = replayed(image, [orders(**change)]).partition("orders", 0)
    assert after == before._replace(partition_epoch=1, **expected)


def test_configs_are_set_replaced_and_removed_and_an_empty_resource_is_none(image: MetadataImage) -> None:
    image = replayed(image, [config("retention.ms", "5"), config("cleanup.policy", "compact")])
    image = replayed(image, [config("retention.ms", "6"), config("cleanup.policy", None)])
    assert image.config(*TOPIC) == {"retention.ms": "6"}
    assert TOPIC not in replayed(image, [config("retention.ms", None)]).configs


def test_a_topic_takes_its_configs_with_it(image: MetadataImage) -> None:
    image = replayed(image, [config("retention.ms", "5")])
    after = replayed(image, [RemoveTopicRecord(topic_id=uuid(1))])
    assert (after.topic("orders"), after.topic_by_id(uuid(1)), after.config(*TOPIC)) == (None, None, {})
    assert image.config(*TOPIC) == {"retention.ms": "5"}  # the older image does not notice


def test_a_name_may_be_deleted_and_created_again_in_one_go(image: MetadataImage) -> None:
    delta = MetadataDelta(image)
    for record in [RemoveTopicRecord(topic_id=uuid(1)), *topic_records("orders", uuid(2))]:
        delta.replay(record)
    after, changes = delta.finish()
    assert topic_of(after, "orders").topic_id == uuid(2)
    assert after.topic_by_id(uuid(1)) is None
    assert [(before and before.topic_id, now and now.topic_id) for before, now in changes.topics] == [
        (uuid(1), None),  # the deletion is first: the name must be free for the other
        (None, uuid(2)),
    ]


def test_what_came_and_went_between_two_images_is_no_change(image: MetadataImage) -> None:
    delta = MetadataDelta(image)
    for record in [*topic_records("brief", uuid(2)), RemoveTopicRecord(topic_id=uuid(2))]:
        delta.replay(record)
    after, changes = delta.finish()
    assert changes.topics == ()
    assert after.topics == image.topics
    assert "brief" not in after.topics


def test_changes_name_what_a_broker_has_to_apply(image: MetadataImage) -> None:
    delta = MetadataDelta(image)
    for record in [
        *topic_records("payments", uuid(2), 3),
        partition_record(uuid(1), 1),
        config("retention.ms", "5"),
        FenceBrokerRecord(id=2, epoch=image.brokers[2].broker_epoch),
        FeatureLevelRecord(name="group.version", feature_level=1),
    ]:
        delta.replay(record)
    after, changes = delta.finish()
    assert [topic.name for topic in changes.created_topics] == ["payments"]
    assert changes.deleted_topics == []
    assert [change.after and change.after.name for change in changes.changed_topics] == ["orders"]
    assert list(changes.changed_topics[0].changed_partitions()) == [1]  # partition 0 stayed as it was
    assert (changes.configs, changes.brokers, changes.features) == ((TOPIC,), (2,), ("group.version",))
    assert after.topic("payments") is changes.created_topics[0]


def test_brokers_are_fenced_unfenced_shut_down_and_unregistered() -> None:
    image = cluster(1)
    epoch = image.brokers[1].broker_epoch
    fenced = replayed(image, [FenceBrokerRecord(id=1, epoch=epoch)])
    assert (fenced.brokers[1].fenced, fenced.active_brokers) == (True, [])
    assert not replayed(fenced, [UnfenceBrokerRecord(id=1, epoch=epoch)]).brokers[1].fenced
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1)
    stopping = replayed(image, [change]).brokers[1]
    assert (stopping.in_controlled_shutdown, stopping.fenced, stopping.is_active) == (True, False, False)
    assert replayed(image, [UnregisterBrokerRecord(broker_id=1, broker_epoch=epoch)]).brokers == {}


def test_a_controller_that_registers_again_takes_the_place_of_its_former_self() -> None:
    image = replayed(cluster(1), [controller_record(8), controller_record(7), controller_record(8, 1, port=9094)])
    assert list(image.controllers) == [7, 8]
    assert image.controllers[8] == ControllerImage(
        8, uuid(1), {"CONTROLLER": Endpoint("localhost", 9094, 0)}, {"metadata.version": (7, 30)}
    )


def test_the_records_of_an_image_make_the_same_image(image: MetadataImage) -> None:
    image = replayed(image, [controller_record(7), config("retention.ms", "5"), orders(leader=2, isr=[2])])
    again = replayed(empty_image(image.cluster_id), image_records(image))
    assert list(image_records(again)) == list(image_records(image))
    assert (again.brokers, again.controllers, again.topics) == (image.brokers, image.controllers, image.topics)


def test_features_of_level_zero_are_gone() -> None:
    image = replayed(cluster(1, elr=False), [FeatureLevelRecord(name="group.version", feature_level=1)])
    assert image.features == {"metadata.version": 30, "group.version": 1, "transaction.version": 2}
    assert replayed(image, [FeatureLevelRecord(name="group.version", feature_level=0)]).features == {
        "metadata.version": 30,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    "records",
    [
        [],
        topic_records("payments", uuid(2), partitions=2),
        [RemoveTopicRecord(topic_id=uuid(1))],
        [RemoveTopicRecord(topic_id=uuid(1)), *topic_records("orders", uuid(3))],  # another topic of the same name
        [orders(leader=2)],
        [config("retention.ms", "1")],
        [FeatureLevelRecord(name="transaction.version", feature_level=1)],
        [UnregisterBrokerRecord(broker_id=2, broker_epoch=0)],
        [controller_record(7)],
    ],
)
def test_two_images_differ_by_what_was_replayed_in_between(image: MetadataImage, records: list[MetadataRecord]) -> None:
    for record in records:
        if isinstance(record, UnregisterBrokerRecord):
            record.broker_epoch = image.brokers[2].broker_epoch
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    after, changes = delta.finish()
    assert changes_between(image, after) == changes


def test_eligible_leaders_are_cleared_of_one_topic_or_of_all(image: MetadataImage) -> None:
    image = replayed(image, [*topic_records("payments", uuid(2), 2), orders(isr=[1], eligible_leader_replicas=[2])])
    payments = PartitionChangeRecord(partition_id=1, topic_id=uuid(2), leader=-1, isr=[], last_known_elr=[1])
    image = replayed(image, [payments])

    def cleared(*records: MetadataRecord) -> list[int]:
        """The partition epochs after these records."""
        after = replayed(image, records)
        partitions = [*topic_of(after, "orders").partitions, *topic_of(after, "payments").partitions]
        return [each.partition_epoch for each in partitions]

    assert cleared() == [1, 0, 1]
    assert cleared(ClearElrRecord(topic_name="orders")) == [2, 0, 1]
    assert cleared(ClearElrRecord(topic_name="payments")) == [1, 0, 2]
    assert cleared(ClearElrRecord(topic_name="")) == [2, 0, 2]  # not of those that had none
    assert cleared(payments, ClearElrRecord(topic_name="")) == [2, 0, 3]
    after = replayed(image, [ClearElrRecord(topic_name="")])
    assert (partition_of(after, "orders", 0).eligible_leader_replicas, partition_of(after, "orders", 0).isr) == (
        (),
        (1,),
    )
    assert partition_of(after, "payments", 1).last_known_elr == ()
    again = [RemoveTopicRecord(topic_id=uuid(1)), *topic_records("orders", uuid(3))]
    assert replayed(image, [*again, ClearElrRecord(topic_name="orders")]) == replayed(image, again)


def test_producer_ids_only_go_up() -> None:
    image = replayed(cluster(1), [ProducerIdsRecord(broker_id=1, broker_epoch=4, next_producer_id=1000)])
    assert image.producer_ids == ProducerIdsImage(1, 4, 1000)
    with pytest.raises(AssertionError, match="twice"):
        replayed(image, [ProducerIdsRecord(broker_id=1, broker_epoch=4, next_producer_id=999)])


@pytest.mark.parametrize(
    "record",
    [
        partition_record(uuid(9), 0),  # of a topic that does not exist
        partition_record(uuid(1), 2),  # partition 1 is not there yet
        RemoveTopicRecord(topic_id=uuid(9)),
        ClearElrRecord(topic_name="payments"),
        FenceBrokerRecord(id=9, epoch=0),
        FenceBrokerRecord(id=1, epoch=999),  # of another incarnation
    ],
)
def test_a_record_that_does_not_fit_is_loud(image: MetadataImage, record: MetadataRecord) -> None:
    with pytest.raises(AssertionError):
        replayed(image, [record])


def test_a_record_without_meaning_for_the_image_changes_nothing(image: MetadataImage) -> None:
    assert replayed(image, [NoOpRecord()]) == image


def test_names_that_read_the_same_in_a_metric_are_indexed_while_they_exist() -> None:
    image = with_topics(cluster(1), "a.b", "plain")
    assert dict(image.topics_by_metric_name.items()) == {"a_b": ("a.b",)}
    image = replayed(image, [partition_record(topic_of(image, "a.b").topic_id, 1)])  # a change is no arrival
    assert dict(image.topics_by_metric_name.items()) == {"a_b": ("a.b",)}
    image = replayed(image, [RemoveTopicRecord(topic_id=topic_of(image, "a.b").topic_id)])
    assert dict(image.topics_by_metric_name.items()) == {}


def test_creating_a_topic_among_ten_thousand_costs_well_under_a_millisecond() -> None:
    records = [record for number in range(10_000) for record in topic_records(f"t.{number}", uuid(number))]
    image = replayed(empty_image("c"), records)
    started = time.process_time()
    for number in range(10_000, 10_100):
        image = replayed(image, topic_records(f"t.{number}", uuid(number)))
    assert (time.process_time() - started) / 100 < 0.000_5  # measured: 0.02 ms
    assert len(image.topics) == 10_100


def test_a_topic_of_ten_thousand_partitions_is_built_once() -> None:
    started = time.process_time()
    image = replayed(cluster(1), topic_records("wide", uuid(1), 10_000))
    assert time.process_time() - started < 2  # measured: 0.06 s; one copy per record would take minutes
    assert len(topic_of(image, "wide").partitions) == 10_000


def test_internal_topics_are_known_by_name() -> None:
    image = with_topics(cluster(1), "__consumer_offsets", new_topic("orders", 2))
    assert [(topic.name, topic.is_internal) for topic in image.topics.values()] == [
        ("__consumer_offsets", True),
        ("orders", False),
    ]
