"""The batches of the metadata log: from bytes to what the core sees of them, and from control records to bytes."""

from collections.abc import Iterable, Sequence

from barnabas.protocol.batch_builder import build_control_batch
from barnabas.protocol.batch_header import BatchHeader
from barnabas.protocol.records import ControlType, control_type_of
from barnabas.protocol.schema import decode, encode
from barnabas.protocol.stored.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.replication.metadata.batches import LEADER_CHANGE_VERSION, QuorumVoter, checked_batches, records_of
from barnabas.replication.quorum.log_view import Batch
from barnabas.replication.quorum.voters import VoterNode

_RECORDS: dict[ControlType, tuple[type, int]] = {
    ControlType.LEADER_CHANGE: (LeaderChangeMessage, LEADER_CHANGE_VERSION),
    ControlType.SNAPSHOT_HEADER: (SnapshotHeaderRecord, 0),
    ControlType.SNAPSHOT_FOOTER: (SnapshotFooterRecord, 0),
    ControlType.KRAFT_VERSION: (KRaftVersionRecord, 0),
    ControlType.KRAFT_VOTERS: (VotersRecord, 0),
}
_TYPES = {kind: (control_type, version) for control_type, (kind, version) in _RECORDS.items()}


def read_batches(records: bytes | bytearray | memoryview | None) -> list[Batch]:
    """Returns the batches of a Fetch response or of a part of the log. Raises CorruptMessage for a damaged one."""
    return [batch_of(found) for found in checked_batches(memoryview(records or b""))]


def batch_of(found: tuple[BatchHeader, memoryview]) -> Batch:
    header, batch = found
    control = _control_records(batch) if header.is_control else ()
    return Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, control)


def _control_records(batch: memoryview) -> Sequence[object]:
    found: list[object] = []
    for record in records_of(batch):
        kind, version = _RECORDS[ControlType(control_type_of(record))]
        found.append(decode(kind, version, record.value or b""))
    return found


def control_batch(records: Sequence[object], *, now_ms: int) -> bytearray:
    """Returns a batch of the control records that an Append effect names. The log gives it offsets and epoch."""
    controls = []
    for record in records:
        control_type, version = _TYPES[type(record)]
        controls.append((control_type, bytes(encode(record, version))))
    return build_control_batch(controls, timestamp=now_ms)


def quorum_voters(voters: Iterable[VoterNode]) -> list[QuorumVoter]:
    """Returns the voters that a snapshot is to name."""
    return [QuorumVoter(node.key.node_id, node.key.directory_id, node.addresses) for node in voters]
