from collections.abc import Sequence

import pytest

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import ClearElrRecord, FeatureLevelRecord
from barnabas.replication.controller.cluster_control import first_records, min_isr_record
from barnabas.replication.controller.settings import TopicDefaults
from barnabas.replication.metadata.image import MetadataImage, empty_image
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import CLUSTER_ID, cluster, decided, new_topic, with_topics

E = ErrorCode
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
ELR = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
SET, DELETE = 0, 1


def image(*, elr: bool = True) -> MetadataImage:
    return with_topics(cluster(1, 2, elr=elr), new_topic("orders", configs={MIN_ISR: "2"}))


def altered(
    image: MetadataImage, resource_type: int, name: str, value: str | None, key: str = MIN_ISR
) -> tuple[E, Sequence[MetadataRecord]]:
    """Sets or deletes one key of a resource."""
    config = AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    records, response = decided(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), image)
    return E(response.responses[0].error_code), records


def test_a_new_cluster_has_elr_and_a_minimum_for_all_brokers() -> None:
    found = replayed(empty_image(CLUSTER_ID), first_records(2))
    assert found.features[ELR] == 1
    assert found.config(BROKER, "") == {MIN_ISR: "2"}


@pytest.mark.parametrize(
    ("resource_type", "name", "value", "code"),
    [
        (BROKER, "", "2", E.NONE),
        (BROKER, "", None, E.INVALID_CONFIG),  # there must be one
        (BROKER, "1", "2", E.INVALID_CONFIG),  # all brokers must agree
        (BROKER, "1", None, E.INVALID_CONFIG),
        (TOPIC, "orders", "1", E.NONE),
        (TOPIC, "orders", None, E.NONE),
    ],
)
def test_what_elr_forbids_of_the_minimum(resource_type: int, name: str, value: str | None, code: E) -> None:
    found, records = altered(image(), resource_type, name, value)
    assert found == code
    cleared = [record for record in records if isinstance(record, ClearElrRecord)]
    assert cleared == ([ClearElrRecord(topic_name=name)] if code == E.NONE else [])
    assert altered(image(elr=False), resource_type, name, value)[0] == E.NONE
    assert not any(isinstance(record, ClearElrRecord) for record in altered(image(elr=False), TOPIC, "orders", "1")[1])


def test_other_keys_leave_the_eligible_leaders_alone() -> None:
    code, records = altered(image(), TOPIC, "orders", "9", key="retention.ms")
    assert (code, len(records)) == (E.NONE, 1)


@pytest.mark.parametrize(("configs", "code"), [({"num.io.threads": "3"}, E.INVALID_CONFIG), ({MIN_ISR: "1"}, E.NONE)])
def test_the_minimum_of_all_brokers_cannot_be_removed_by_not_naming_it(configs: dict[str, str], code: E) -> None:
    resource = ReplacedResource(
        resource_type=BROKER,
        resource_name="",
        configs=[ReplacedConfig(name=name, value=value) for name, value in configs.items()],
    )
    _, response = decided(AlterConfigsRequest(resources=[resource], validate_only=False), image())
    assert response.responses[0].error_code == code


def update(level: int, *others: FeatureUpdateKey, upgrade_type: int = 1) -> UpdateFeaturesRequest:
    asked = FeatureUpdateKey(feature=ELR, max_version_level=level, upgrade_type=upgrade_type)
    return UpdateFeaturesRequest(feature_updates=[asked, *others])


def test_elr_is_switched_on_with_a_minimum_for_all_brokers_and_none_for_one() -> None:
    before = replayed(image(elr=False), [min_isr_record("", None), min_isr_record("2", "3")])
    decision = decided(update(1), before, defaults=TopicDefaults(min_insync_replicas=2))
    assert decision.response.error_code == E.NONE
    after = replayed(before, decision.records)
    assert (after.features[ELR], after.config(BROKER, ""), after.config(BROKER, "2")) == (1, {MIN_ISR: "2"}, {})


def test_a_minimum_that_is_there_stays_when_elr_is_switched_on() -> None:
    before = replayed(image(elr=False), [min_isr_record("", "3")])
    records, _ = decided(update(1), before)
    assert [type(record) for record in records] == [FeatureLevelRecord]


@pytest.mark.parametrize(
    ("metadata_version", "asked", "code"),
    [
        (30, update(1), E.NONE),
        (23, update(1), E.NONE),
        (22, update(1), E.INVALID_UPDATE_VERSION),  # its records do not know who is eligible
        (22, update(1, FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)), E.NONE),
        (30, update(2), E.INVALID_UPDATE_VERSION),
    ],
)
def test_elr_needs_a_metadata_version_that_knows_it(
    metadata_version: int, asked: UpdateFeaturesRequest, code: E
) -> None:
    before = replayed(image(elr=False), [FeatureLevelRecord(name="metadata.version", feature_level=metadata_version)])
    assert decided(asked, before).response.error_code == code


def test_elr_can_be_switched_off() -> None:
    decision = decided(update(0, upgrade_type=2), image())
    assert ELR not in replayed(image(), decision.records).features
