"""Eligible leader replicas (KIP-966): whether they are on, and what that means for `min.insync.replicas`.

Rules:
- A replica is eligible because nothing could be committed without it. That holds only while all brokers have the same
  idea of how many replicas must be in sync. So with ELR there is a value for all brokers, which cannot be removed, and
  none for a broker alone.
- When the value changes, of a topic or of all, it is unknown what was committed under which: nobody is eligible then.
"""

from collections.abc import Iterable, Iterator, Mapping

from barnabas.protocol.config_types import ResourceType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import ClearElrRecord, ConfigRecord
from barnabas.replication.controller.cluster_control import ELR_VERSION, MIN_INSYNC_REPLICAS, min_isr_record
from barnabas.replication.controller.decision import refused
from barnabas.replication.metadata.image import ConfigResource, MetadataImage

ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


def is_elr_enabled(image: MetadataImage) -> bool:
    return image.features.get(ELR_VERSION, 0) > 0


def safety_records(image: MetadataImage, min_insync_replicas: int) -> Iterator[ConfigRecord]:
    """Yields the records without which ELR must not be switched on: a value for all brokers, and none for one."""
    if MIN_INSYNC_REPLICAS not in image.configs.get(ALL_BROKERS, {}):
        yield min_isr_record("", str(min_insync_replicas))
    for resource, configs in image.configs.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs:
            yield min_isr_record(resource.name, None)


def check_min_isr_change(resource: ConfigResource, changes: Mapping[str, str | None], image: MetadataImage) -> None:
    """Raises if ELR forbids these changes of a resource's configuration."""
    if resource.type != ResourceType.BROKER or MIN_INSYNC_REPLICAS not in changes or not is_elr_enabled(image):
        return
    if resource.name:
        raise refused(
            ErrorCode.INVALID_CONFIG, f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        )
    if changes[MIN_INSYNC_REPLICAS] is None:
        raise refused(
            ErrorCode.INVALID_CONFIG, f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        )


def clear_elr_records(records: Iterable[MetadataRecord], image: MetadataImage) -> list[MetadataRecord]:
    """Returns the records that leave nobody eligible, where these change `min.insync.replicas`."""
    if not is_elr_enabled(image):
        return []
    changes = [record for record in records if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS]
    return [
        ClearElrRecord(topic_name=change.resource_name if change.resource_type == ResourceType.TOPIC else "")
        for change in changes
    ]
