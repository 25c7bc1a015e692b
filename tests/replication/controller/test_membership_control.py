import pytest

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord
from barnabas.replication.metadata.image import ControllerImage, Endpoint
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, decided, new_topic, partition_of, uuid, with_topics


def test_an_unregistered_broker_is_gone_with_all_that_it_led() -> None:
    image = with_topics(cluster(1, 2), new_topic("orders", -1, -1, {0: [1, 2], 1: [2, 1]}))
    records, response = decided(UnregisterBrokerRequest(broker_id=1), image)
    image = replayed(image, records)
    assert (response.error_code, list(image.brokers)) == (ErrorCode.NONE, [2])
    for index in range(2):
        assert (partition_of(image, "orders", index).leader, partition_of(image, "orders", index).isr) == (2, (2,))


@pytest.mark.parametrize(("elr", "isr", "eligible"), [(True, (), (1,)), (False, (1,), ())])
def test_the_last_in_sync_replica_may_lead_again_though_it_is_not_registered_and_nobody_leads(
    elr: bool, isr: tuple[int, ...], eligible: tuple[int, ...]
) -> None:
    image = with_topics(cluster(1, 2, elr=elr), new_topic("orders", -1, -1, {0: [1]}))
    image = replayed(image, decided(UnregisterBrokerRequest(broker_id=1), image).records)
    partition = partition_of(image, "orders", 0)
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, isr, eligible)


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    with pytest.raises(KafkaError) as raised:
        decided(UnregisterBrokerRequest(broker_id=9), cluster(1))
    assert raised.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED


def controller_registration(controller_id: int) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=uuid(5),
        listeners=[Listener(name="CONTROLLER", host="localhost", port=9093, security_protocol=0)],
        features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    )


def test_a_controller_that_registers_is_in_the_image() -> None:
    image = cluster(1)
    records, response = decided(controller_registration(7), image)
    assert response.error_code == ErrorCode.NONE
    assert replayed(image, records).controllers == {
        7: ControllerImage(7, uuid(5), {"CONTROLLER": Endpoint("localhost", 9093, 0)}, {"metadata.version": (7, 30)})
    }


def test_a_cluster_of_an_old_metadata_version_knows_no_controllers() -> None:
    image = replayed(cluster(1), [FeatureLevelRecord(name="metadata.version", feature_level=14)])
    with pytest.raises(KafkaError) as raised:
        decided(controller_registration(7), image)
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
