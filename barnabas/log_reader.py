"""What is in the files of a data directory, as plain dicts: Kafka's formats, ours and Kafka's own files alike.

Rules:
- Every item has a `type`; one of type `damage` says what is wrong and where. Reading goes on after a batch whose CRC
  does not match, and stops where no batch can be found any more.
- Files are mapped, not loaded, and only read: a broker may be using them.
- An active index is longer than its rows, which Kafka fills with zeros: those are not shown.
"""

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from barnabas.protocol.batch_header import BatchHeader, crc_of, iter_batches
from barnabas.protocol.compression import CompressionType
from barnabas.protocol.errors import KafkaError, ProtocolError
from barnabas.protocol.records import ControlType, Record, control_type_of, coordinator_epoch_of, iter_records
from barnabas.protocol.types import uuid_text

Item = dict[str, Any]
Reader = Callable[[str, memoryview, bool], Iterator[Item]]

METADATA_DIRECTORY = "__cluster_metadata-"
DECOMPRESSED_BYTES_MAX = 1 << 30
_OFFSET_ROW = Struct(">ii")
_TIME_ROW = Struct(">qi")
_ABORTED_ROW = Struct(">hqqqq")


def find_files(path: str) -> Iterator[str]:
    """Returns the file itself, or those under a directory that can be read here, in order."""
    if not os.path.isdir(path):
        os.stat(path)  # raises what is wrong with it: that it is no file of a log would be a guess
        yield path
        return
    for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from find_files(entry.path)
        elif reader_of(entry.path) is not None:
            yield entry.path


def read(path: str, *, records: bool = False) -> Iterator[Item]:
    """Yields what the file holds, with its records only if asked for."""
    reader = reader_of(path)
    if reader is None:
        raise ValueError(f"{path}: not a file of a log: those end in {', '.join(_BY_SUFFIX)} or are named {_names()}")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return
        from mmap import ACCESS_READ, mmap

        mapped = mmap(file.fileno(), size, access=ACCESS_READ)
        yield from reader(path, memoryview(mapped), records)


def reader_of(path: str) -> Reader | None:
    name = os.path.basename(path).removesuffix(".deleted")
    return _BY_NAME.get(name) or _BY_SUFFIX.get(os.path.splitext(name)[1])


def is_metadata(path: str) -> bool:
    directory = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return directory.startswith(METADATA_DIRECTORY) or path.endswith(".checkpoint")


# ---- batches


def _read_batches(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    end = 0
    try:
        for position, header in iter_batches(data):
            end = position + header.size_bytes
            yield from _read_batch(path, data[position:end], position, header, records)
    except ProtocolError as error:
        yield _damage(end, f"no batch can be read from here on: {error}")
        return
    if end < len(data):
        yield _damage(end, f"the last {len(data) - end} bytes are no whole batch")


def _read_batch(path: str, batch: memoryview, position: int, header: BatchHeader, records: bool) -> Iterator[Item]:
    is_valid = crc_of(batch) == header.crc
    yield _batch_item(header, position, is_valid)
    if not is_valid:
        yield _damage(position, f"the batch at offset {header.base_offset} does not match its CRC")
    elif records:
        yield from _read_records(path, batch, position, header)


def _batch_item(header: BatchHeader, position: int, is_valid: bool) -> Item:
    codec = header.compression
    return {
        "type": "batch",
        "position": position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.records_count,
        "leader_epoch": header.partition_leader_epoch,
        "compression": CompressionType(codec).name.lower() if codec <= CompressionType.ZSTD else f"unknown ({codec})",
        "timestamp_type": "log_append_time" if header.is_log_append_time else "create_time",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "crc": header.crc,
        "is_valid": is_valid,
    }


def _read_records(path: str, batch: memoryview, position: int, header: BatchHeader) -> Iterator[Item]:
    decode = _control_item if header.is_control else _metadata_item if is_metadata(path) else _record_item
    try:
        for record in iter_records(batch, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX):
            yield decode(record)
    except (KafkaError, ProtocolError) as error:
        yield _damage(position, f"the batch at offset {header.base_offset} holds nonsense: {error}")


def _record_item(record: Record) -> Item:
    from barnabas.output import record_fields

    return {"type": "record", **record_fields(record)}


def _metadata_item(record: Record) -> Item:
    from barnabas.protocol.stored.metadata_record_serde import decode_record

    item = {"type": "metadata", "offset": record.offset, "timestamp": record.timestamp}
    try:
        message = decode_record(record.value or b"")
    except ProtocolError as error:
        return item | {"name": "unknown", "data": str(error)}
    return item | {"name": type(message).__name__, "data": message_dict(message)}


def _control_item(record: Record) -> Item:
    code = control_type_of(record)
    name = ControlType(code).name if code in ControlType.__members__.values() else str(code)
    item = {"type": "control", "offset": record.offset, "timestamp": record.timestamp, "name": name}
    return item | {"data": _control_data(code, record)}


def _control_data(code: int, record: Record) -> Any:
    from barnabas.protocol.schema import decode
    from barnabas.protocol.stored import control_records

    classes: dict[int, type] = {
        ControlType.LEADER_CHANGE: control_records.LeaderChangeMessage,
        ControlType.SNAPSHOT_HEADER: control_records.SnapshotHeaderRecord,
        ControlType.SNAPSHOT_FOOTER: control_records.SnapshotFooterRecord,
        ControlType.KRAFT_VERSION: control_records.KRaftVersionRecord,
        ControlType.KRAFT_VOTERS: control_records.VotersRecord,
    }
    if code in (ControlType.COMMIT, ControlType.ABORT):
        return {"coordinator_epoch": coordinator_epoch_of(record)}
    cls, value = classes.get(code), record.value or b""
    version = int.from_bytes(value[:2], "big")
    if cls is None or version not in cls.__versions__:  # type: ignore[attr-defined]
        return value.hex()
    return message_dict(decode(cls, version, value))


def message_dict(message: Any) -> Item:
    """Returns a decoded message by its fields' names; a Uuid as Kafka prints it."""
    return {field.name: _plain(field, getattr(message, field.name)) for field in message.__fields__}


def _plain(field: Any, value: Any) -> Any:
    if value is None:
        return None
    if field.kind == "array":
        return [message_dict(each) if hasattr(each, "__fields__") else _plain(field.of, each) for each in value]
    if field.kind == "struct":
        return message_dict(value)
    if field.kind == "uuid":
        return uuid_text(value)
    return bytes(value).hex() if field.kind in ("bytes", "records") else value


# ---- the files beside them


def _base_offset(path: str) -> int:
    digits = os.path.basename(path).partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _rows(data: memoryview, row: Struct) -> Iterator[tuple[Any, ...]]:
    used_bytes = len(bytes(data).rstrip(b"\0"))
    count = min(-(-used_bytes // row.size), len(data) // row.size)
    yield from row.iter_unpack(data[: count * row.size])


def _read_offset_index(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    base = _base_offset(path)
    for relative_offset, position in _rows(data, _OFFSET_ROW):
        yield {"type": "index_entry", "offset": base + relative_offset, "position": position}


def _read_time_index(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    base = _base_offset(path)
    for timestamp, relative_offset in _rows(data, _TIME_ROW):
        yield {"type": "time_index_entry", "timestamp": timestamp, "offset": base + relative_offset}


def _read_transaction_index(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    for version, producer_id, first, last, last_stable in _ABORTED_ROW.iter_unpack(
        data[: len(data) // _ABORTED_ROW.size * _ABORTED_ROW.size]
    ):
        yield {
            "type": "aborted_transaction",
            "version": version,
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": last_stable,
        }


def _read_producers(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    from barnabas.storage.producer_snapshot import CorruptSnapshot, read_snapshot

    try:
        entries = read_snapshot(bytes(data))
    except CorruptSnapshot as error:
        yield _damage(0, f"no producer snapshot: {error}")
        return
    for producer_id, entry in entries:
        last = entry.batches[-1] if entry.batches else None
        yield {
            "type": "producer",
            "producer_id": producer_id,
            "producer_epoch": entry.producer_epoch,
            "first_sequence": last.first_sequence if last else -1,
            "last_sequence": entry.last_sequence,
            "last_offset": last.last_offset if last else -1,
            "timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.current_txn_first_offset,
        }


def _read_checkpoint(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    from barnabas.storage.checkpoints import CorruptCheckpoint, decode_checkpoint

    try:
        rows = decode_checkpoint(bytes(data))
    except CorruptCheckpoint as error:
        yield _damage(0, f"no checkpoint: {error}")
        return
    columns = (
        ("epoch", "start_offset") if path.endswith("leader-epoch-checkpoint") else ("topic", "partition", "offset")
    )
    for row in rows:
        yield {"type": "checkpoint_entry"} | {name: _number(cell) for name, cell in zip(columns, row)}


def _read_text(path: str, data: memoryview, records: bool) -> Iterator[Item]:
    for line in bytes(data).decode(errors="backslashreplace").splitlines():
        yield {"type": "line", "text": line}


def _number(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _damage(position: int, text: str) -> Item:
    return {"type": "damage", "position": position, "text": text}


_BY_SUFFIX: dict[str, Reader] = {
    ".log": _read_batches,
    ".checkpoint": _read_batches,
    ".index": _read_offset_index,
    ".timeindex": _read_time_index,
    ".txnindex": _read_transaction_index,
    ".snapshot": _read_producers,
}
_BY_NAME: dict[str, Reader] = {
    "leader-epoch-checkpoint": _read_checkpoint,
    "recovery-point-offset-checkpoint": _read_checkpoint,
    "log-start-offset-checkpoint": _read_checkpoint,
    "cleaner-offset-checkpoint": _read_checkpoint,
    "replication-offset-checkpoint": _read_checkpoint,
    "partition.metadata": _read_text,
    "meta.properties": _read_text,
    "quorum-state": _read_text,
}


def _names() -> str:
    return ", ".join(_BY_NAME)
