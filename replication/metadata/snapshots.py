"""Snapshots of the metadata: `<end offset>-<epoch>.checkpoint` beside the segments of `__cluster_metadata-0`.

A snapshot is, in Kafka's format, a header, the records that make an empty image into this one, and a footer; without
the footer it is not whole. It is written beside its place and renamed when it is on disk, so a file under the final
name was whole once. If it no longer is, the snapshot before it and the log from there on serve as well: two are kept.
"""

from collections.abc import Iterable, Iterator, Sequence

from barnabas.base.environment import Report
from barnabas.base.files import Files, write_file
from barnabas.protocol.batch_builder import build_control_batch
from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.errors import CorruptMessage, ProtocolError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.records import ControlType, control_type_of
from barnabas.protocol.schema import decode
from barnabas.protocol.stored.control_records import SnapshotHeaderRecord
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord, encode_record
from barnabas.protocol.stored.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from barnabas.replication.metadata.batches import (
    BatchReplay,
    QuorumVoter,
    checked_batches,
    records_of,
    snapshot_footer,
    snapshot_header,
    value_batch,
    voters_controls,
)
from barnabas.replication.metadata.image import (
    METADATA_VERSION,
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    ProducerIdsImage,
    TopicImage,
    empty_image,
)

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
RECORDS_PER_BATCH = 1000


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


def snapshot_id_of(image: MetadataImage) -> SnapshotId:
    return SnapshotId(image.end_offset, image.epoch)


def parse_file_name(name: str) -> SnapshotId | None:
    stem = name.removesuffix(SUFFIX)
    offset, dash, epoch = stem.partition("-")
    if stem == name or not dash or not (offset + epoch).isdecimal() or (len(offset), len(epoch)) != (20, 10):
        return None
    return SnapshotId(int(offset), int(epoch))


# ---- an image as records


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yields the records that make an empty image into this one. metadata.version is first: it says how to read the
    others."""
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name])
    for broker in image.brokers.values():
        yield _broker_record(broker)
    for controller in image.controllers.values():
        yield _controller_record(controller)
    for topic in image.topics.values():
        yield from _topic_records(topic)
    for (resource_type, resource_name), configs in image.configs.items():
        for name, value in sorted(configs.items()):
            yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
    if image.producer_ids != ProducerIdsImage():
        yield ProducerIdsRecord(**image.producer_ids._asdict())


def _topic_records(topic: TopicImage) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for index, partition in enumerate(topic.partitions):
        yield _partition_record(topic, index, partition)


def _partition_record(topic: TopicImage, index: int, partition: PartitionImage) -> PartitionRecord:
    values = partition._asdict()
    values["eligible_leader_replicas"] = partition.eligible_leader_replicas or None
    values["last_known_elr"] = partition.last_known_elr or None
    return PartitionRecord(partition_id=index, topic_id=topic.topic_id, **values)


def _broker_record(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.broker_epoch,
        end_points=[
            BrokerEndpoint(name=name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for name, end in broker.endpoints.items()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=broker.log_dirs,
    )


def _controller_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.controller_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for name, end in controller.endpoints.items()
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in controller.features.items()
        ],
    )


# ---- as bytes


def encode_snapshot(image: MetadataImage, voters: Sequence[QuorumVoter], *, now_ms: int) -> bytearray:
    controls = [snapshot_header(image.timestamp_ms), *(voters_controls(voters) if voters else ())]
    data = build_control_batch(controls, timestamp=now_ms, partition_leader_epoch=image.epoch)
    offset = len(controls)
    for values in _in_batches(encode_record(record) for record in image_records(image)):
        data += value_batch(values, base_offset=offset, epoch=image.epoch, now_ms=now_ms)
        offset += len(values)
    data += build_control_batch(
        [snapshot_footer()], timestamp=now_ms, base_offset=offset, partition_leader_epoch=image.epoch
    )
    return data


def _in_batches(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    for value in values:
        batch.append(value)
        if len(batch) == RECORDS_PER_BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def decode_snapshot(data: bytes, snapshot_id: SnapshotId, cluster_id: str) -> MetadataImage:
    """Raises CorruptMessage if the snapshot is not whole."""
    batches = _whole_batches(data)
    replay = BatchReplay(empty_image(cluster_id))
    for header, batch in batches:
        replay.load(header, batch)
    image, _ = replay.finish()
    timestamp_ms = _last_contained_log_timestamp(batches[0][1])
    return image._replace(end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch, timestamp_ms=timestamp_ms)


def _whole_batches(data: bytes) -> list[tuple[BatchHeader, memoryview]]:
    batches = list(checked_batches(memoryview(data)))
    if sum(header.size_bytes for header, _ in batches) != len(data):
        raise CorruptMessage("the snapshot ends inside a batch")
    if len(batches) < 2 or _first_control(*batches[0]) != ControlType.SNAPSHOT_HEADER:
        raise CorruptMessage("the snapshot has no header")
    if _first_control(*batches[-1]) != ControlType.SNAPSHOT_FOOTER:
        raise CorruptMessage("the snapshot has no footer")
    return batches


def _first_control(header: BatchHeader, batch: memoryview) -> int | None:
    return control_type_of(records_of(batch)[0]) if header.is_control else None


def _last_contained_log_timestamp(batch: memoryview) -> int:
    return decode(SnapshotHeaderRecord, 0, records_of(batch)[0].value or b"").last_contained_log_timestamp


# ---- as files


def write_snapshot(
    files: Files, directory: str, image: MetadataImage, voters: Sequence[QuorumVoter], *, now_ms: int
) -> SnapshotId:
    """Blocks until the snapshot is durable under its name: call it in a worker."""
    snapshot_id = snapshot_id_of(image)
    path = f"{directory}/{snapshot_id.file_name}"
    part = path.removesuffix(SUFFIX) + PART_SUFFIX
    write_file(files, part, encode_snapshot(image, voters, now_ms=now_ms), sync=True)
    files.rename(part, path)
    files.sync_dir(directory)
    return snapshot_id


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """Returns the snapshots of a directory, the oldest first."""
    ids = (parse_file_name(name) for name in files.listdir(directory))
    return sorted(snapshot_id for snapshot_id in ids if snapshot_id is not None)


def remove_parts(files: Files, directory: str) -> None:
    """Removes what unfinished snapshots left behind."""
    for name in files.listdir(directory):
        if name.endswith(PART_SUFFIX):
            files.remove(f"{directory}/{name}")


class FoundSnapshots(NamedTuple):
    """What a start finds of the snapshots of a directory."""

    image: MetadataImage
    """That of the latest one that can be read; an empty one if there is none."""
    readable: list[SnapshotId]
    """The oldest first."""
    damaged: list[SnapshotId]
    """Those that were read and are not whole, and so of use to nobody."""


def find_snapshots(files: Files, directory: str, cluster_id: str, report: Report) -> FoundSnapshots:
    """Reads all of them: whoever begins at one, or gives it to others, must know that it is whole."""
    image: MetadataImage | None = None
    readable: list[SnapshotId] = []
    damaged: list[SnapshotId] = []
    for snapshot_id in reversed(list_snapshots(files, directory)):
        try:
            data = files.read_bytes(f"{directory}/{snapshot_id.file_name}")
            if image is None:
                image = decode_snapshot(data, snapshot_id, cluster_id)
            else:
                _whole_batches(data)
        except (CorruptMessage, ProtocolError, OSError, AssertionError) as error:
            report.warning(
                f"metadata snapshot {snapshot_id.file_name} cannot be read, and is left out: {error}",
                snapshot=snapshot_id.file_name,
                directory=directory,
            )
            damaged += [snapshot_id] if isinstance(error, CorruptMessage) else []
        else:
            readable.insert(0, snapshot_id)
    return FoundSnapshots(image or empty_image(cluster_id), readable, damaged)


def remove_snapshots(files: Files, directory: str, snapshot_ids: Iterable[SnapshotId]) -> None:
    for snapshot_id in snapshot_ids:
        files.remove(f"{directory}/{snapshot_id.file_name}")
