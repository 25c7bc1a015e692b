"""Decides on UpdateFeatures: the levels at which the cluster uses its features.

Rules:
- All updates stand or fall together; the first that is wrong is reported.
- A level is taken if this controller, every registered broker and every registered controller support it. One that does
  not name a feature supports level 0 of it. A feature of which Kafka does not know either has no level.
- A lower level must be asked for as a downgrade, a higher one as an upgrade.
- Eligible leader replicas are switched on together with what they need of `min.insync.replicas` (`elr.py`).
- A downgrade of metadata.version is refused if records could be lost by it, even an unsafe one (KAFKA-13896).
Deviations: controllers that have not registered are not asked. As in Kafka, `allow_downgrade` of version 0 is ignored.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum

from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord
from barnabas.replication.controller.cluster_control import ELR_VERSION, SUPPORTED_FEATURES
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.elr import safety_records
from barnabas.replication.controller.settings import Deciding
from barnabas.replication.metadata.image import METADATA_VERSION, MetadataImage

METADATA_CHANGED_AT = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of metadata.version that brought new records or fields: below them, these would be lost."""

METADATA_VERSION_OF_ELR = 23
"""4.0-IV1: the records of partitions name the eligible leader replicas."""

ONLY_KAFKAS = frozenset(
    (
        "kraft.version",
        "share.version",
        "streams.version",
    )
)
"""Features of Kafka that are always at level 0 here, which may be said. The quorum's own is no feature of brokers."""

VERSIONS_WITH_RESULTS = range(0, 2)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    request: UpdateFeaturesRequest, image: MetadataImage, deciding: Deciding
) -> Decision[UpdateFeaturesResponse]:
    updates = {update.feature: update for update in request.feature_updates}
    try:
        for update in updates.values():
            _check(update, image)
            _check_dependency(update, updates, image)
    except KafkaError as error:
        message = f"The update failed for all features since the following feature had an error: {error.message}"
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=message))
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level) for update in updates.values()
    ]
    if ELR_VERSION in updates and updates[ELR_VERSION].max_version_level > 0:
        records = [*safety_records(image, deciding.settings.defaults.min_insync_replicas), *records]
    with_results = deciding.context.api_version in VERSIONS_WITH_RESULTS
    response = UpdateFeaturesResponse(
        error_code=ErrorCode.NONE, error_message=None, results=_succeeded(updates) if with_results else ()
    )
    return Decision([] if request.validate_only else records, response)


def _succeeded(features: Iterable[str]) -> list[UpdatableFeatureResult]:
    return [UpdatableFeatureResult(feature=name, error_code=ErrorCode.NONE, error_message=None) for name in features]


def _check(update: FeatureUpdateKey, image: MetadataImage) -> None:
    name, level = update.feature, update.max_version_level
    current = image.features.get(name, 0)
    if name not in SUPPORTED_FEATURES and name not in ONLY_KAFKAS:
        raise _invalid(update, f"There is no feature {name}.")
    if update.upgrade_type not in _UPGRADE_TYPES:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    _check_supported(update, image)
    if level < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise _invalid(update, "A lower version must be asked for as a safe or an unsafe downgrade.")
    if level > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION and any(level < changed <= current for changed in METADATA_CHANGED_AT):
        raise _invalid(update, f"A downgrade from {current} might delete metadata.")


def _check_dependency(update: FeatureUpdateKey, updates: Mapping[str, FeatureUpdateKey], image: MetadataImage) -> None:
    """Raises if the feature needs records that the cluster's metadata.version does not know."""
    asked = updates.get(METADATA_VERSION)
    metadata_version = image.features.get(METADATA_VERSION, 0) if asked is None else asked.max_version_level
    if update.feature == ELR_VERSION and update.max_version_level > 0 and metadata_version < METADATA_VERSION_OF_ELR:
        reason = f"because it depends on {METADATA_VERSION} level {METADATA_VERSION_OF_ELR}"
        raise _invalid(update, f"{ELR_VERSION} could not be set to {update.max_version_level} {reason}")


def _check_supported(update: FeatureUpdateKey, image: MetadataImage) -> None:
    supporters: list[tuple[str, Mapping[str, tuple[int, int]]]] = [
        ("The active controller", SUPPORTED_FEATURES),
        *((f"Broker {broker_id}", broker.features) for broker_id, broker in image.brokers.items()),
        *((f"Controller {node_id}", controller.features) for node_id, controller in image.controllers.items()),
    ]
    for who, features in supporters:
        lowest, highest = features.get(update.feature, (0, 0))
        if not lowest <= update.max_version_level <= highest:
            supports = f"only supports versions {lowest} to {highest}" if highest else "does not support this feature"
            raise _invalid(update, f"{who} {supports}.")


def _invalid(update: FeatureUpdateKey, reason: str) -> KafkaError:
    text = f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}"
    return refused(ErrorCode.INVALID_UPDATE_VERSION, text)


_UPGRADE_TYPES = frozenset(UpgradeType)
