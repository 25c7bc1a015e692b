"""Decides on brokers and on what brokers share: registration, fencing, blocks of producer ids, the first records.

Rules:
- A broker registers anew each time it starts, under a new incarnation id, and gets a broker epoch that no registration
  had before: the log's offset at that moment. It starts out fenced and is unfenced once it has caught up.
- While a broker's session is alive nobody else can register under its id.
- A broker that did not stop cleanly may have lost the end of its logs. It leaves the in-sync replicas where another is
  left; where it stays the leader a new leader epoch begins, so that clients notice offsets given out twice (KIP-320).
- It stopped cleanly if it still knows the epoch of its last registration, which it writes down last of all (KIP-966).
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
)
from barnabas.protocol.types import ZERO_UUID, Uuid
from barnabas.replication.decision import Decision, refused
from barnabas.replication.image import METADATA_VERSION, NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage
from barnabas.replication.image_delta import replayed
from barnabas.replication.metadata_record_serde import METADATA_VERSION_LEVEL, MetadataRecord

PRODUCER_ID_BLOCK_SIZE = 1000
PRODUCER_ID_MAX = 2**63 - 1
METADATA_VERSION_MIN = 7
GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""1: the consumer protocol (KIP-848). A cluster from before there was such a feature here is served it too."""
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
}

UNFENCE = -1


class BrokerRegistration(NamedTuple):
    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    log_dirs: tuple[Uuid, ...]
    """The directory ids of its log dirs."""
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = SUPPORTED_FEATURES
    previous_broker_epoch: int = -1
    """The epoch it was registered under when it stopped cleanly; -1 if it did not."""


class ProducerIdBlock(NamedTuple):
    first_producer_id: int
    size: int


def bootstrap_records() -> list[MetadataRecord]:
    """The first records of a new cluster."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=GROUP_VERSION_LEVEL),
    ]


# ---- registration


def register_broker(
    registration: BrokerRegistration, image: MetadataImage, *, has_session: bool = False
) -> Decision[int]:
    """Answers with the broker epoch."""
    existing = image.brokers.get(registration.broker_id)
    _check_registration(registration, existing, image, has_session)
    same = existing is not None and existing.incarnation_id == registration.incarnation_id
    records: list[MetadataRecord] = []
    if existing is not None and not same and registration.previous_broker_epoch != existing.broker_epoch:
        records += unclean_shutdown_records(registration.broker_id, image)
    broker_epoch = existing.broker_epoch if existing is not None and same else image.end_offset + len(records)
    record = _register_record(registration, broker_epoch)
    if existing is not None and same:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    return Decision([*records, record], broker_epoch)


def _check_registration(
    registration: BrokerRegistration, existing: BrokerImage | None, image: MetadataImage, has_session: bool
) -> None:
    if registration.cluster_id != image.cluster_id:
        raise refused(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {image.cluster_id}.")
    if existing is not None and has_session and existing.incarnation_id != registration.incarnation_id:
        raise refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Broker {registration.broker_id} is already running.")
    _check_log_dirs(registration, image)
    for feature, level in image.features.items():
        lowest, highest = registration.features.get(feature, (0, 0))
        if not lowest <= level <= highest:
            raise refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster uses {feature} {level}; broker {registration.broker_id} supports {lowest} to {highest}.",
            )


def _check_log_dirs(registration: BrokerRegistration, image: MetadataImage) -> None:
    dirs = registration.log_dirs
    if not dirs:
        raise refused(ErrorCode.INVALID_REGISTRATION, "A broker needs a log dir.")
    if any(directory[:15] == ZERO_UUID[:15] for directory in dirs):
        raise refused(ErrorCode.INVALID_REGISTRATION, "A log dir has a directory id that is reserved.")
    if len(set(dirs)) != len(dirs):
        raise refused(ErrorCode.INVALID_REGISTRATION, "Two log dirs have the same directory id.")
    for broker in image.brokers.values():
        if broker.broker_id != registration.broker_id and not set(dirs).isdisjoint(broker.log_dirs):
            raise refused(ErrorCode.INVALID_REGISTRATION, f"Broker {broker.broker_id} has one of these log dirs.")


def _register_record(registration: BrokerRegistration, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=registration.broker_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(name=name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for name, end in registration.endpoints.items()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in registration.features.items()
        ],
        rack=registration.rack,
        log_dirs=list(registration.log_dirs),
    )


def unclean_shutdown_records(broker_id: int, image: MetadataImage) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader != broker_id and broker_id not in partition.isr:
                continue
            yield _without(
                broker_id, partition, PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id), image
            )


def _without(
    broker_id: int, partition: PartitionImage, change: PartitionChangeRecord, image: MetadataImage
) -> PartitionChangeRecord:
    others = [replica for replica in partition.isr if replica != broker_id]
    if others:
        change.isr = others
    if partition.leader == broker_id:
        active = [replica for replica in partition.replicas if replica in others and image.brokers[replica].is_active]
        change.leader = active[0] if active else broker_id if not others else NO_LEADER
    return change


def unfence_broker(broker_id: int, broker_epoch: int, image: MetadataImage) -> Decision[None]:
    """Partitions without a leader that this broker may lead get one."""
    check_broker_epoch(broker_id, broker_epoch, image)
    if not image.brokers[broker_id].fenced:
        return Decision([], None)
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE)
    elected = [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=broker_id)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == NO_LEADER and broker_id in partition.isr
    ]
    return Decision([change, *elected], None)


def register_and_unfence(registration: BrokerRegistration, image: MetadataImage) -> Decision[int]:
    """Both steps at once, for the controller's own broker: it has replayed everything already."""
    registered, broker_epoch = register_broker(registration, image)
    unfenced, _ = unfence_broker(registration.broker_id, broker_epoch, replayed(image, registered))
    return Decision([*registered, *unfenced], broker_epoch)


def check_broker_epoch(broker_id: int, broker_epoch: int, image: MetadataImage) -> None:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise refused(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered under epoch {broker_epoch}.")


# ---- producer ids


def allocate_producer_ids(broker_id: int, broker_epoch: int, image: MetadataImage) -> Decision[ProducerIdBlock]:
    check_broker_epoch(broker_id, broker_epoch, image)
    first = image.producer_ids.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
        raise refused(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
    record = ProducerIdsRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + PRODUCER_ID_BLOCK_SIZE
    )
    return Decision([record], ProducerIdBlock(first, PRODUCER_ID_BLOCK_SIZE))
