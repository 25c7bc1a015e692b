"""What a cluster of this version supports, its first records, and who may speak for a broker."""

from collections.abc import Mapping

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.stored.metadata_record_serde import METADATA_VERSION_LEVEL
from barnabas.protocol.stored.metadata_records import FeatureLevelRecord
from barnabas.replication.controller.decision import refused
from barnabas.replication.metadata.image import METADATA_VERSION, MetadataImage

METADATA_VERSION_MIN = 7
GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""1: the consumer protocol (KIP-848). It is served as well where a cluster was created before the feature existed."""
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
}


def bootstrap_records() -> list[FeatureLevelRecord]:
    """Returns the first records of a new cluster."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=GROUP_VERSION_LEVEL),
    ]


def check_broker_epoch(broker_id: int, broker_epoch: int, image: MetadataImage) -> None:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise refused(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered under epoch {broker_epoch}.")
