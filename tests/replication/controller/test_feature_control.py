import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord, RegisterControllerRecord
from barnabas.replication.controller.channel import ControllerRequestContext
from barnabas.replication.controller.cluster_control import SUPPORTED_FEATURES
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.image_delta import replayed
from tests.replication.clusters import cluster, controller, decided, features, registration, uuid

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
INVALID = ErrorCode.INVALID_UPDATE_VERSION


def update(feature: str, level: int, upgrade_type: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)


def at(metadata_version: int, group_version: int = 1) -> MetadataImage:
    levels = {"metadata.version": metadata_version, "group.version": group_version}
    return replayed(cluster(1), [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()])


@pytest.mark.parametrize(
    ("image", "asked", "code"),
    [
        (at(29), update("metadata.version", 30), ErrorCode.NONE),
        (at(30), update("metadata.version", 30), ErrorCode.NONE),  # it is already
        (at(30), update("metadata.version", 31), INVALID),  # we do not know that one
        (at(30), update("metadata.version", 29, SAFE_DOWNGRADE), INVALID),  # records would be lost
        (at(30), update("metadata.version", 29, UNSAFE_DOWNGRADE), INVALID),  # not even so
        (at(29), update("metadata.version", 23, SAFE_DOWNGRADE), ErrorCode.NONE),  # nothing changed in between
        (at(29), update("metadata.version", 22, SAFE_DOWNGRADE), INVALID),
        (at(29), update("metadata.version", 28), INVALID),  # not without saying that it is a downgrade
        (at(29), update("metadata.version", 30, SAFE_DOWNGRADE), INVALID),  # which is none
        (at(9), update("metadata.version", 6, UNSAFE_DOWNGRADE), INVALID),  # below the least
        (at(30), update("metadata.version", 30, 4), INVALID),  # an unknown type
        (at(30, 0), update("group.version", 1), ErrorCode.NONE),
        (at(30, 1), update("group.version", 0, SAFE_DOWNGRADE), ErrorCode.NONE),
        (at(30, 1), update("group.version", 0), INVALID),
        (at(30, 1), update("group.version", -1, SAFE_DOWNGRADE), INVALID),
        (at(30, 1), update("group.version", 2), INVALID),
        (at(30), update("transaction.version", 2), ErrorCode.NONE),
        (at(30), update("transaction.version", 1, SAFE_DOWNGRADE), ErrorCode.NONE),
        (at(30), update("transaction.version", 1), INVALID),
        (at(30), update("transaction.version", 3), INVALID),
        (at(30), update("nobody.knows", 1), INVALID),
        (at(30), update("nobody.knows", 0, SAFE_DOWNGRADE), INVALID),
        (at(30), update("share.version", 0, SAFE_DOWNGRADE), ErrorCode.NONE),  # as it is already
        (at(30), update("kraft.version", 1), INVALID),  # not a feature of ours
    ],
)
def test_a_level_is_taken_or_refused(image: MetadataImage, asked: FeatureUpdateKey, code: ErrorCode) -> None:
    records, response = decided(UpdateFeaturesRequest(feature_updates=[asked]), image)
    assert response.error_code == code
    level = asked.max_version_level if code == ErrorCode.NONE else image.features.get(asked.feature, 0)
    assert replayed(image, records).features.get(asked.feature, 0) == level


def test_every_broker_must_support_the_level() -> None:
    image = at(29)
    older = registration(2, features=features({**SUPPORTED_FEATURES, "metadata.version": (7, 29)}))
    image = replayed(image, decided(older, image).records)
    _, response = decided(UpdateFeaturesRequest(feature_updates=[update("metadata.version", 30)]), image)
    assert (response.error_code, "Broker 2 only supports versions 7 to 29" in response.error_message) == (INVALID, True)


def test_every_controller_must_support_the_level() -> None:
    record = RegisterControllerRecord(
        controller_id=7, incarnation_id=uuid(1), zk_migration_ready=False, end_points=[], features=[]
    )
    image = replayed(at(29), [record])
    _, response = decided(UpdateFeaturesRequest(feature_updates=[update("metadata.version", 30)]), image)
    assert "Controller 7 does not support this feature" in response.error_message


def test_updates_stand_or_fall_together() -> None:
    asked = [update("group.version", 1), update("metadata.version", 31)]
    records, response = decided(UpdateFeaturesRequest(feature_updates=asked), at(30, 0))
    assert (list(records), response.error_code, list(response.results)) == ([], INVALID, [])
    assert response.error_message.startswith("The update failed for all features")


def test_an_update_that_is_only_validated_writes_nothing() -> None:
    asked = UpdateFeaturesRequest(feature_updates=[update("group.version", 1)], validate_only=True)
    records, response = decided(asked, at(30, 0))
    assert (list(records), response.error_code) == ([], ErrorCode.NONE)


@pytest.mark.parametrize(("api_version", "results"), [(0, ["group.version"]), (1, ["group.version"]), (2, [])])
def test_old_versions_are_answered_for_each_feature(api_version: int, results: list[str]) -> None:
    request = UpdateFeaturesRequest(feature_updates=[update("group.version", 1)])
    decision = controller().decide(request, ControllerRequestContext(api_version), at(30, 0), now_ms=0)
    assert [result.feature for result in decision.response.results] == results
