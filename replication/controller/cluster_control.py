"""Decides on brokers: registration, heartbeats, and the first records of a cluster.

Rules:
- A broker registers each time it starts, under a new incarnation id, and gets a broker epoch that no registration had
  before: the log's offset at that moment. It starts out fenced. The first heartbeat that does not ask for the fence and
  shows that the broker has replayed its own registration unfences it.
- While a broker's session is alive, no other process can register under its id.
- A broker that did not stop cleanly may have lost the end of its logs. It leaves the in-sync replicas where another is
  left; where it stays the leader a new leader epoch begins, so that clients notice offsets assigned twice (KIP-320).
- It stopped cleanly if it still knows the epoch of its last registration, which it writes down last of all (KIP-966).
Not supported so far: a heartbeat that asks to fence an active broker or to shut it down, which must move leaders first.
"""

from collections.abc import Iterator, Mapping

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.protocol.stored.metadata_record_serde import METADATA_VERSION_LEVEL, MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.metadata.image import (
    METADATA_VERSION,
    NO_LEADER,
    BrokerImage,
    MetadataImage,
    PartitionImage,
)

METADATA_VERSION_MIN = 7
GROUP_VERSION = "group.version"
GROUP_VERSION_LEVEL = 1
"""1: the consumer protocol (KIP-848). It is served as well where a cluster was created before the feature existed."""
SUPPORTED_FEATURES: Mapping[str, tuple[int, int]] = {
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LEVEL),
    GROUP_VERSION: (0, GROUP_VERSION_LEVEL),
}

UNFENCE = -1


def bootstrap_records() -> list[FeatureLevelRecord]:
    """Returns the first records of a new cluster."""
    return [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LEVEL),
        FeatureLevelRecord(name=GROUP_VERSION, feature_level=GROUP_VERSION_LEVEL),
    ]


# ---- registration


def register_broker(
    request: BrokerRegistrationRequest, image: MetadataImage, *, has_session: bool = False
) -> Decision[BrokerRegistrationResponse]:
    """Decides on a registration. `has_session`: a process has registered under this id and is alive."""
    existing = image.brokers.get(request.broker_id)
    _check_registration(request, existing, image, has_session)
    same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[MetadataRecord] = []
    if existing is not None and not same and request.previous_broker_epoch != existing.broker_epoch:
        records += unclean_shutdown_records(request.broker_id, image)
    broker_epoch = existing.broker_epoch if existing is not None and same else image.end_offset + len(records)
    record = _register_record(request, broker_epoch)
    if existing is not None and same:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    response = BrokerRegistrationResponse(error_code=ErrorCode.NONE, broker_epoch=broker_epoch)
    return Decision([*records, record], response)


def _check_registration(
    request: BrokerRegistrationRequest, existing: BrokerImage | None, image: MetadataImage, has_session: bool
) -> None:
    if request.cluster_id != image.cluster_id:
        raise refused(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {image.cluster_id}.")
    if existing is not None and has_session and existing.incarnation_id != request.incarnation_id:
        raise refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Broker {request.broker_id} is already running.")
    _check_log_dirs(request, image)
    supported = {feature.name: feature for feature in request.features}
    for name, level in image.features.items():
        feature = supported.get(name)
        lowest, highest = (feature.min_supported_version, feature.max_supported_version) if feature else (0, 0)
        if not lowest <= level <= highest:
            raise refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster uses {name} {level}; broker {request.broker_id} supports {lowest} to {highest}.",
            )


def _check_log_dirs(request: BrokerRegistrationRequest, image: MetadataImage) -> None:
    dirs = request.log_dirs
    if not dirs:
        raise refused(ErrorCode.INVALID_REGISTRATION, "A broker needs a log dir.")
    if any(directory[:15] == ZERO_UUID[:15] for directory in dirs):
        raise refused(ErrorCode.INVALID_REGISTRATION, "A log dir has a directory id that is reserved.")
    if len(set(dirs)) != len(dirs):
        raise refused(ErrorCode.INVALID_REGISTRATION, "Two log dirs have the same directory id.")
    for broker in image.brokers.values():
        if broker.broker_id != request.broker_id and not set(dirs).isdisjoint(broker.log_dirs):
            raise refused(ErrorCode.INVALID_REGISTRATION, f"Broker {broker.broker_id} has one of these log dirs.")


def _register_record(request: BrokerRegistrationRequest, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        log_dirs=list(request.log_dirs),
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


# ---- heartbeats


def broker_heartbeat(request: BrokerHeartbeatRequest, image: MetadataImage) -> Decision[BrokerHeartbeatResponse]:
    check_broker_epoch(request.broker_id, request.broker_epoch, image)
    fenced = image.brokers[request.broker_id].fenced
    if not fenced and (request.want_fence or request.want_shut_down):
        raise refused(ErrorCode.INVALID_REQUEST, "An active broker cannot be fenced or shut down so far.")
    is_caught_up = request.current_metadata_offset >= request.broker_epoch
    unfences = fenced and is_caught_up and not request.want_fence and not request.want_shut_down
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.NONE,
        is_caught_up=is_caught_up,
        is_fenced=fenced and not unfences,
        should_shut_down=fenced and request.want_shut_down,
    )
    return Decision(unfence_records(request.broker_id, image) if unfences else [], response)


def unfence_records(broker_id: int, image: MetadataImage) -> list[MetadataRecord]:
    """Returns the records that make a broker active; partitions without a leader that it may lead get one."""
    broker_epoch = image.brokers[broker_id].broker_epoch
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE)
    elected = [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=broker_id)
        for topic in image.topics.values()
        for index, partition in enumerate(topic.partitions)
        if partition.leader == NO_LEADER and broker_id in partition.isr
    ]
    return [change, *elected]


def check_broker_epoch(broker_id: int, broker_epoch: int, image: MetadataImage) -> None:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise refused(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered under epoch {broker_epoch}.")
