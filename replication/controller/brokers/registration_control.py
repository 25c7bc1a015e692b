"""Decides on BrokerRegistration.

Rules:
- A broker registers each time it starts, under a new incarnation id, and gets a broker epoch that no registration had
  before: the log's offset at that moment. It starts out fenced. The first heartbeat that does not ask for the fence and
  shows that the broker has replayed its own registration unfences it.
- While a broker's session is alive, no other process can register under its id.
- A new incarnation gives up first what the one before it led, and leaves the in-sync replicas; if it did not stop
  cleanly it is not eligible to lead either. A new leader epoch begins by that, so that clients notice offsets assigned
  twice (KIP-320). The registration is the last record: should only some be written, the broker registers again, and the
  next attempt writes the others.
- A broker that is registered alone is the exception, because nobody could take over. If it stopped cleanly it goes on
  in the same leader epochs, without a record about any partition; otherwise it stays the leader, in new ones.
- A cluster from before transactions is raised to them by the registration of the last broker that supports them.
- It stopped cleanly if it still knows the epoch of its last registration, which it writes down last of all (KIP-966).
"""

from collections.abc import Iterable, Iterator, Mapping

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.protocol.messages.broker_registration import Feature as BrokerRegistrationFeature
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord
from barnabas.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from barnabas.protocol.types import ZERO_UUID
from barnabas.replication.controller.broker_sessions import UNKNOWN_OFFSET
from barnabas.replication.controller.cluster_control import TRANSACTION_VERSION_LEVEL
from barnabas.replication.controller.decision import Decision, refused
from barnabas.replication.controller.settings import ControllerSettings, Deciding
from barnabas.replication.metadata.image import (
    METADATA_VERSION,
    TRANSACTION_VERSION,
    BrokerImage,
    MetadataImage,
)


def register_broker(
    request: BrokerRegistrationRequest, image: MetadataImage, deciding: Deciding
) -> Decision[BrokerRegistrationResponse]:
    existing = image.brokers.get(request.broker_id)
    _check_registration(request, existing, image, deciding)
    same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[MetadataRecord] = []
    if not same and image.topics:
        is_clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
        records += _former_incarnation_records(request.broker_id, is_clean, image, deciding.settings)
    records += _raised_features(request, image)
    broker_epoch = existing.broker_epoch if existing is not None and same else image.end_offset + len(records)
    record = _register_record(request, broker_epoch)
    if existing is not None and same:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    if not same:
        deciding.sessions.forget(request.broker_id)
    known_offset = deciding.sessions.metadata_offset(request.broker_id) if same else UNKNOWN_OFFSET
    deciding.sessions.contact(request.broker_id, broker_epoch, known_offset, now_ms=deciding.now_ms)
    response = BrokerRegistrationResponse(error_code=ErrorCode.NONE, broker_epoch=broker_epoch)
    return Decision([*records, record], response)


def _check_registration(
    request: BrokerRegistrationRequest, existing: BrokerImage | None, image: MetadataImage, deciding: Deciding
) -> None:
    broker_id = request.broker_id
    if request.cluster_id != image.cluster_id:
        raise refused(ErrorCode.INCONSISTENT_CLUSTER_ID, f"This is cluster {image.cluster_id}.")
    if existing is not None and existing.incarnation_id != request.incarnation_id:
        epoch = existing.broker_epoch
        if deciding.sessions.is_alive(broker_id, now_ms=deciding.now_ms, broker_epoch=epoch):
            raise refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"Broker {broker_id} is already running.")
    if request.is_migrating_zk_broker:
        raise refused(ErrorCode.BROKER_ID_NOT_REGISTERED, "Brokers that use ZooKeeper cannot register.")
    _check_log_dirs(request, image)
    _check_features(broker_id, request.features, image)


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


def _check_features(broker_id: int, features: Iterable[BrokerRegistrationFeature], image: MetadataImage) -> None:
    """Checks that the broker supports what the cluster uses. A feature that the cluster does not use has level 0."""
    ranges = _ranges(features)
    for name in ranges:
        _check_feature(broker_id, name, ranges[name], image)
    if METADATA_VERSION not in ranges:
        raise refused(ErrorCode.INVALID_REGISTRATION, f"A broker must say which {METADATA_VERSION} it supports.")
    for name in image.features.keys() - ranges.keys():
        _check_feature(broker_id, name, (0, 0), image)


def _check_feature(broker_id: int, name: str, supported: tuple[int, int], image: MetadataImage) -> None:
    level, (lowest, highest) = image.features.get(name, 0), supported
    if not lowest <= level <= highest:
        raise refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"The cluster uses {name} {level}; broker {broker_id} supports {lowest} to {highest}.",
        )


def _raised_features(request: BrokerRegistrationRequest, image: MetadataImage) -> Iterator[FeatureLevelRecord]:
    """Raises transaction.version in a cluster from before transactions, with the registration by which the last of its
    brokers supports it. A level that an operator has chosen later stays."""
    existing = image.brokers.get(request.broker_id)
    if existing is None or _has_transactions(existing.features) or TRANSACTION_VERSION in image.features:
        return
    others = [broker.features for broker_id, broker in image.brokers.items() if broker_id != request.broker_id]
    if all(_has_transactions(features) for features in (_ranges(request.features), *others)):
        yield FeatureLevelRecord(name=TRANSACTION_VERSION, feature_level=TRANSACTION_VERSION_LEVEL)


def _has_transactions(features: Mapping[str, tuple[int, int]]) -> bool:
    return features.get(TRANSACTION_VERSION, (0, 0))[1] >= TRANSACTION_VERSION_LEVEL


def _ranges(features: Iterable[BrokerRegistrationFeature]) -> dict[str, tuple[int, int]]:
    return {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}


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


def _former_incarnation_records(
    broker_id: int, is_clean: bool, image: MetadataImage, settings: ControllerSettings
) -> Iterator[PartitionChangeRecord]:
    if image.brokers.keys() == {broker_id}:
        if not is_clean:
            yield from _new_leader_epochs(broker_id, image)
        return
    from barnabas.replication.controller.brokers.moving import leaving_records, lost_records  # a sole broker stays

    yield from (leaving_records if is_clean else lost_records)(broker_id, image, settings)


def _new_leader_epochs(broker_id: int, image: MetadataImage) -> Iterator[PartitionChangeRecord]:
    for topic in image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if partition.leader == broker_id:
                yield PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=broker_id)
