"""Writes RecordBatch v2: data batches, control batches, the markers that end transactions."""

from collections.abc import Iterable, Sequence

from barnabas.protocol.batch_header import (
    CONTROL_FLAG,
    CRC,
    CRC_AT,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
)
from barnabas.protocol.crc32c import crc32c
from barnabas.protocol.records import CONTROL_KEY, END_TRANSACTION_VALUE, ControlType, NewRecord


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]],
    *,
    base_offset: int = 0,
    compression: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    log_append_time: int | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """Returns one batch of (key, value, headers, timestamp) with consecutive offsets.

    With `log_append_time` the batch has that timestamp type, and readers see this time on every record.
    """
    data, timestamps = _encode_records(records)
    assert timestamps, "a batch holds at least one record"
    attributes = compression | TRANSACTIONAL_FLAG * transactional | CONTROL_FLAG * control
    max_timestamp = max(timestamps)
    if log_append_time is not None:
        attributes |= LOG_APPEND_TIME_FLAG
        max_timestamp = log_append_time
    payload = _compressed(compression, data) if compression else data
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch, 0, base_offset, HEADER_BYTES - LOG_OVERHEAD + len(payload), partition_leader_epoch, MAGIC, 0, attributes,
        len(timestamps) - 1, timestamps[0], max_timestamp, producer_id, producer_epoch, base_sequence, len(timestamps),
    )  # fmt: skip
    batch += payload
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_COVERS_FROM:]))
    return batch


def _compressed(compression: int, data: bytearray) -> bytes:
    from barnabas.protocol.compression import compress

    return compress(compression, data)


def _encode_records(
    records: Iterable[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]],
) -> tuple[bytearray, list[int]]:
    data = bytearray()
    body = bytearray()
    timestamps: list[int] = []
    for offset_delta, (key, value, headers, timestamp) in enumerate(records):
        timestamps.append(timestamp)
        body.clear()
        body.append(0)
        put_varint(body, timestamp - timestamps[0])
        put_varint(body, offset_delta)
        _put_nullable_bytes(body, key)
        _put_nullable_bytes(body, value)
        put_varint(body, len(headers))
        for header_key, header_value in headers:
            _put_nullable_bytes(body, header_key.encode(errors="surrogateescape"))
            _put_nullable_bytes(body, header_value)
        put_varint(data, len(body))
        data += body
    return data, timestamps


def _put_nullable_bytes(body: bytearray, value: bytes | None) -> None:
    if value is None:
        body.append(1)
    else:
        put_varint(body, len(value))
        body += value


def put_varint(body: bytearray, value: int) -> None:
    zigzag = value << 1 if value >= 0 else (-value << 1) - 1
    while zigzag > 0x7F:
        body.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    body.append(zigzag)


def build_control_batch(
    controls: Iterable[tuple[ControlType, bytes]],
    *,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """Returns one control batch of (type, value); the type decides what the value means."""
    records = [NewRecord(CONTROL_KEY.pack(0, control_type), value, (), timestamp) for control_type, value in controls]
    return build_batch(
        records,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def build_end_transaction_marker(
    control_type: ControlType,
    *,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    assert control_type in (ControlType.COMMIT, ControlType.ABORT), "only these end a transaction"
    return build_control_batch(
        [(control_type, END_TRANSACTION_VALUE.pack(0, coordinator_epoch))],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )
