"""What a node of the quorum keeps beside its log: the file `quorum-state`, and the snapshots that travel between nodes.

Everything here blocks. What syncs is called in a worker.
"""

from barnabas.base.files import Files, replace_file
from barnabas.protocol.errors import CorruptMessage
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.protocol.stored.quorum_state_json import quorum_state_of_text, quorum_state_text
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.snapshots import PART_SUFFIX, SUFFIX, SnapshotId, decode_snapshot, list_snapshots
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
    """Returns a piece of a snapshot; nothing if a newer one has just taken its place."""
    try:
        return files.open(_path(directory, snapshot)).pread(max_bytes, position)
    except OSError:  # or no descriptor is left: the follower asks again
        return b""


def write_piece(files: Files, directory: str, snapshot: OffsetAndEpoch, position: int, piece: bytes) -> None:
    """Writes what was fetched of a snapshot into its `.part` file. A download that begins again takes its place."""
    part = _part(directory, snapshot)
    if position == 0:
        files.remove(part)
    file = files.open(part, create=True)
    assert file.size() == position, "one piece after the other"
    file.writev([piece])


class FetchedSnapshot(NamedTuple):
    data: bytes
    image: MetadataImage


def finish_part(
    files: Files, directory: str, snapshot: OffsetAndEpoch, cluster_id: str
) -> FetchedSnapshot | CorruptMessage:
    """Makes a fetched snapshot durable under its own name, or removes it if it is not whole: a start could do nothing
    with it. Returns what it holds, or why it is of no use."""
    part = _part(directory, snapshot)
    data = files.read_bytes(part)
    try:
        image = decode_snapshot(data, SnapshotId(*snapshot), cluster_id)
    except CorruptMessage as error:
        files.remove(part)
        return error
    files.open(part).sync()
    files.rename(part, _path(directory, snapshot))
    files.sync_dir(directory)
    return FetchedSnapshot(data, image)


def _path(directory: str, snapshot: OffsetAndEpoch) -> str:
    return f"{directory}/{SnapshotId(*snapshot).file_name}"


def _part(directory: str, snapshot: OffsetAndEpoch) -> str:
    return _path(directory, snapshot).removesuffix(SUFFIX) + PART_SUFFIX
