"""What a node of the quorum keeps beside its log: the file `quorum-state`, and the snapshots that travel between nodes.

Everything here blocks. What syncs is called in a worker.
"""

from barnabas.base.files import Files, replace_file
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.protocol.stored.quorum_state_json import quorum_state_of_text, quorum_state_text
from barnabas.replication.metadata.snapshots import PART_SUFFIX, SUFFIX, SnapshotId, list_snapshots
from barnabas.replication.quorum.log_view import OffsetAndEpoch

QUORUM_STATE = "quorum-state"
_STATE_VERSION = 1


def read_quorum_state(files: Files, directory: str) -> QuorumStateData | None:
    """Returns what the file holds; None if there is none. Raises KafkaStorageError if it cannot be understood."""
    path = f"{directory}/{QUORUM_STATE}"
    return quorum_state_of_text(files.read_bytes(path).decode()) if files.exists(path) else None


def write_quorum_state(files: Files, directory: str, data: QuorumStateData) -> None:
    """Replaces the file; what it promises may be told to others once this returns."""
    replace_file(files, f"{directory}/{QUORUM_STATE}", quorum_state_text(data, _STATE_VERSION).encode())


# ---- snapshots


def snapshot_sizes(files: Files, directory: str) -> dict[OffsetAndEpoch, int]:
    """Returns the snapshots of a directory with their sizes, the oldest first."""
    return {
        OffsetAndEpoch(*snapshot): files.file_size(f"{directory}/{snapshot.file_name}")
        for snapshot in list_snapshots(files, directory)
    }


def read_snapshot_bytes(files: Files, directory: str, snapshot: OffsetAndEpoch) -> bytes:
    return files.read_bytes(_path(directory, snapshot))


def read_piece(files: Files, directory: str, snapshot: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
    return files.open(_path(directory, snapshot)).pread(max_bytes, position)


def write_piece(files: Files, directory: str, snapshot: OffsetAndEpoch, position: int, piece: bytes) -> None:
    """Writes what was fetched of a snapshot into its `.part` file. A download that begins again takes its place."""
    part = _part(directory, snapshot)
    if position == 0:
        files.remove(part)
    file = files.open(part, create=True)
    assert file.size() == position, "one piece after the other"
    file.writev([piece])


def finish_part(files: Files, directory: str, snapshot: OffsetAndEpoch) -> bytes:
    """Makes a fetched snapshot durable under its own name; returns its bytes."""
    part, path = _part(directory, snapshot), _path(directory, snapshot)
    files.open(part).sync()
    files.rename(part, path)
    files.sync_dir(directory)
    return files.read_bytes(path)


def _path(directory: str, snapshot: OffsetAndEpoch) -> str:
    return f"{directory}/{SnapshotId(*snapshot).file_name}"


def _part(directory: str, snapshot: OffsetAndEpoch) -> str:
    return _path(directory, snapshot).removesuffix(SUFFIX) + PART_SUFFIX
