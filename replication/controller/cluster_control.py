"""What a cluster of this version supports, its first records, and who may speak for a broker."""

from collections.abc import Mapping

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.stored.metadata_record_serde import METADATA_VERSION_LEVEL, MetadataRecord
from barnabas.protocol.stored.metadata_records import ConfigRecord, FeatureLevelRecord
from barnabas.replication.controller.decision import refused
from barnabas.replication.metadata.image import METADATA_VERSION, TRANSACTION_VERSION, MetadataImage

METADATA_VERSION_MIN = 7
ELR_VERSION = "eligible.leader.replicas.version"
ELR_VERSION_LEVEL = 1
"""1: replicas that left the in-sync replicas may be eligible to lead (KIP-966). Older clusters stay at 0 until they are
raised."""
MIN_INSYNC_REPLICAS = "min.insync.replicas"
GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""1: the consumer protocol (KIP-848). It is served as well where a cluster was created before the feature existed."""
TRANSACTION_VERSION_LEVEL = 2
"""2: each transaction ends in an epoch of its own (KIP-890). A cluster from before that is raised to it when the
last of its brokers supports it."""
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
    ELR_VERSION: (0, ELR_VERSION_LEVEL),
    TRANSACTION_VERSION: (0, TRANSACTION_VERSION_LEVEL),
}
FEATURES_OF_A_NODE: Mapping[str, tuple[int, int]] = {**SUPPORTED_FEATURES, "kraft.version": (0, 1)}
"""The same, and what the quorum uses: at 1 the log says who votes (KIP-853). No record of the cluster raises it, but
Apache Kafka's controllers take no broker that does not name it."""


def bootstrap_records() -> list[FeatureLevelRecord]:
    """Returns the levels of features that a new cluster begins with."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=ELR_VERSION, feature_level=ELR_VERSION_LEVEL),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=GROUP_VERSION_LEVEL),
        FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=TRANSACTION_VERSION_LEVEL),
    ]


def first_records(min_insync_replicas: int) -> list[MetadataRecord]:
    """Returns the first records of a new cluster: its features, and what eligible leader replicas need."""
    return [*bootstrap_records(), min_isr_record("", str(min_insync_replicas))]


def min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    """Returns the record that sets `min.insync.replicas` of one broker, or of all if none is named."""
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_INSYNC_REPLICAS, value=value)


def check_broker_epoch(broker_id: int, broker_epoch: int, image: MetadataImage) -> None:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise refused(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered under epoch {broker_epoch}.")
