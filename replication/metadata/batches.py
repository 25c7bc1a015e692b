"""The batches of `__cluster_metadata`: from records to bytes and back to an image.

Rules:
- Records that belong together are one batch, which is on disk whole or not at all. What is too large for a batch is put
  between BeginTransaction and EndTransaction (KIP-868): readers hold such records back until they see the end.
- A transaction that never ended, because the controller stopped in between, is aborted by the next one.
- A new leader's first batch names it and the voters (KIP-853).
"""

from collections.abc import Iterator, Sequence

from barnabas.protocol.batch_builder import build_batch
from barnabas.protocol.batch_header import BatchHeader, crc_of, iter_batches
from barnabas.protocol.errors import CorruptMessage, ProtocolError
from barnabas.protocol.records import ControlType, Record, control_type_of, iter_records
from barnabas.protocol.schema import decode, encode
from barnabas.protocol.stored.control_records import (
    Endpoint,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    RegisteredVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.stored.metadata_record_serde import MetadataRecord, decode_record, encode_record
from barnabas.protocol.stored.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from barnabas.protocol.types import Uuid
from barnabas.replication.metadata.image import ImageChanges, MetadataImage
from barnabas.replication.metadata.image_delta import MetadataDelta

BATCH_BYTES_MAX = 8 * 1024 * 1024
"""The largest batch that a Kafka controller writes or reads."""
BATCH_OVERHEAD_BYTES = 100
RECORD_OVERHEAD_BYTES = 24

KRAFT_VERSION = 1
LEADER_CHANGE_VERSION = 0
"""Version 1 would name the voters' directories, but Kafka's own tools read every LeaderChange as version 0."""


class QuorumVoter:
    """One of the nodes that keep the metadata log."""

    __slots__ = ("directory_id", "endpoints", "node_id")

    def __init__(self, node_id: int, directory_id: Uuid, endpoints: Sequence[tuple[str, str, int]] = ()) -> None:
        self.node_id = node_id
        self.directory_id = directory_id
        self.endpoints = tuple(endpoints)
        """Listener name, host and port of the controllers' own listeners."""


_TRANSACTION_RECORDS = (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)


# ---- writing


def record_batches(
    records: Sequence[MetadataRecord], *, now_ms: int, batch_bytes_max: int = BATCH_BYTES_MAX
) -> list[bytearray]:
    """Returns one batch, or a transaction of several. The log gives them their offsets and their epoch."""
    values = [encode_record(record) for record in records]
    if _size_of(values) > batch_bytes_max:
        begin = encode_record(BeginTransactionRecord(name="Oversized batch"))
        values = [begin, *values, encode_record(EndTransactionRecord())]
    return [value_batch(chunk, now_ms=now_ms) for chunk in _chunks(values, batch_bytes_max)]


def value_batch(values: Sequence[bytes], *, now_ms: int, base_offset: int = 0, epoch: int = 0) -> bytearray:
    return build_batch(
        ((None, value, (), now_ms) for value in values), base_offset=base_offset, partition_leader_epoch=epoch
    )


def _size_of(values: Sequence[bytes]) -> int:
    """Returns an upper bound of what the batch takes."""
    return BATCH_OVERHEAD_BYTES + sum(map(len, values)) + RECORD_OVERHEAD_BYTES * len(values)


def _chunks(values: Sequence[bytes], batch_bytes_max: int) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = BATCH_OVERHEAD_BYTES
    for value in values:
        size += len(value) + RECORD_OVERHEAD_BYTES
        if chunk and size > batch_bytes_max:
            yield chunk
            chunk, size = [], BATCH_OVERHEAD_BYTES + len(value) + RECORD_OVERHEAD_BYTES
        chunk.append(value)
    yield chunk


def voters_controls(voters: Sequence[QuorumVoter]) -> list[tuple[ControlType, bytes]]:
    version = KRaftVersionRecord(version=0, kraft_version=KRAFT_VERSION)
    registered = [
        RegisteredVoter(
            voter_id=voter.node_id,
            voter_directory_id=voter.directory_id,
            endpoints=[Endpoint(name=name, host=host, port=port) for name, host, port in voter.endpoints],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=KRAFT_VERSION),
        )
        for voter in voters
    ]
    return [
        (ControlType.KRAFT_VERSION, bytes(encode(version, 0))),
        (ControlType.KRAFT_VOTERS, bytes(encode(VotersRecord(version=0, voters=registered), 0))),
    ]


def snapshot_header(last_contained_log_timestamp: int) -> tuple[ControlType, bytes]:
    record = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    return ControlType.SNAPSHOT_HEADER, bytes(encode(record, 0))


def snapshot_footer() -> tuple[ControlType, bytes]:
    return ControlType.SNAPSHOT_FOOTER, bytes(encode(SnapshotFooterRecord(version=0), 0))


# ---- reading


def checked_batches(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yields every whole batch. Raises CorruptMessage if one does not match its checksum, or has no possible length."""
    try:
        for position, header in iter_batches(data):
            batch = data[position : position + header.size_bytes]
            if crc_of(batch) != header.crc:
                raise CorruptMessage(f"the batch at offset {header.base_offset} of the metadata does not match its CRC")
            yield header, batch
    except ProtocolError as error:
        raise CorruptMessage(f"damaged metadata: {error}") from None


def records_of(batch: memoryview) -> list[Record]:
    return list(iter_records(batch, max_decompressed_bytes=16 * BATCH_BYTES_MAX))


HeldBack = tuple[MetadataRecord, ...]
"""The records of a transaction that has begun and not ended: they count only once it has."""


class BatchReplay:
    """Replays batches on top of an image. The next image is built once, when it is asked for."""

    __slots__ = ("_controller_id", "_delta", "_end_offset", "_epoch", "_timestamp_ms", "_transaction")

    def __init__(self, image: MetadataImage, held_back: HeldBack | None = None) -> None:
        self._delta = MetadataDelta(image)
        self._end_offset = image.end_offset
        self._epoch = image.epoch
        self._timestamp_ms = image.timestamp_ms
        self._controller_id = image.controller_id
        self._transaction: list[MetadataRecord] | None = None if held_back is None else list(held_back)

    @property
    def held_back(self) -> HeldBack | None:
        return None if self._transaction is None else tuple(self._transaction)

    def load(self, header: BatchHeader, batch: memoryview) -> None:
        for record in records_of(batch):
            if header.is_control:
                self._control(record)
            else:
                self._metadata(decode_record(record.value or b""))
        self._end_offset = header.next_offset
        self._epoch = header.partition_leader_epoch
        self._timestamp_ms = header.max_timestamp

    def _control(self, record: Record) -> None:
        if control_type_of(record) == ControlType.LEADER_CHANGE:
            self._controller_id = decode(LeaderChangeMessage, LEADER_CHANGE_VERSION, record.value or b"").leader_id

    def _metadata(self, record: MetadataRecord) -> None:
        if isinstance(record, _TRANSACTION_RECORDS):
            self._bound(record)
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._delta.replay(record)

    def _bound(self, record: MetadataRecord) -> None:
        if isinstance(record, EndTransactionRecord):
            for held_back in self._transaction or ():
                self._delta.replay(held_back)
        self._transaction = [] if isinstance(record, BeginTransactionRecord) else None

    def finish(self) -> tuple[MetadataImage, ImageChanges]:
        return self._delta.finish(
            end_offset=self._end_offset,
            epoch=self._epoch,
            timestamp_ms=self._timestamp_ms,
            controller_id=self._controller_id,
        )
