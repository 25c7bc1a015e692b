"""What a node of the quorum finds on its disk when it starts.

Rules:
- The log begins at 0, or at the end of a snapshot. If it ends before its latest snapshot, the process ended while that
  took its place: the log is emptied and begins again there. To fill the gap would be to invent what others have.
- The voters are those of the snapshot at which the log begins, and then those that the log names; without either, those
  that were configured.
- What is found in the log is not known to be committed, except what a snapshot holds.
- A snapshot that is damaged is as if it were not there: no log begins at it, and no other node gets it. Where the rest
  is enough to start with, it is removed, or it would be counted as one of those that are kept.
"""

from collections.abc import Iterable

from barnabas.base.environment import Environment
from barnabas.base.files import Files
from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.named_tuple import NamedTuple
from barnabas.protocol.stored.control_records import KRaftVersionRecord, VotersRecord
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.metadata.image import MetadataImage
from barnabas.replication.metadata.loader import MetadataLoader
from barnabas.replication.metadata.log import METADATA_PARTITION, MetadataLog
from barnabas.replication.metadata.snapshots import SnapshotId, find_snapshots, remove_parts, remove_snapshots
from barnabas.replication.quorum.batches import batch_of, read_batches
from barnabas.replication.quorum.log_view import BOOTSTRAP_SNAPSHOT, LogView, OffsetAndEpoch
from barnabas.replication.quorum.quorum_files import read_quorum_state, read_snapshot_bytes, snapshot_sizes
from barnabas.replication.quorum.voters import VoterHistory, VoterSet, voter_set_of


class ConfiguredVoters(NamedTuple):
    """The voters that the configuration names, before the log says otherwise."""

    voters: VoterSet
    kraft_version: int


class OpenedQuorum(NamedTuple):
    log: MetadataLog
    view: LogView
    history: VoterHistory
    loader: MetadataLoader
    stored: QuorumStateData | None


def open_quorum(
    log: MetadataLog, configured: ConfiguredVoters, cluster_id: str, environment: Environment
) -> OpenedQuorum:
    """Reads everything, and removes what an unfinished download left behind. Raises KafkaStorageError if metadata is
    missing. The log may not be durable: a process that was killed may have left some of it in the page cache."""
    files, path = environment.files, log.path
    remove_parts(files, path)
    stored = read_quorum_state(files, path)
    found = find_snapshots(files, path, cluster_id, environment.report)
    loader = MetadataLoader(found.image)
    _leave_what_the_snapshot_replaces(log, loader.image)
    snapshots = {
        each: size for each, size in snapshot_sizes(files, path).items() if SnapshotId(*each) in found.readable
    }
    start = _start_of(log, snapshots)
    history = VoterHistory(*(_voters_in(files, path, start, snapshots) or configured), start.offset - 1)
    view = LogView(start)
    for batch in map(batch_of, log.batches_from(start.offset)):
        view.append(batch)
        for offset, record in enumerate(batch.control, batch.base_offset):
            history.replay(offset, record)
    view.synced_offset = view.end_offset
    view.snapshots = snapshots
    log.bytes_since_snapshot = 0  # only what follows the snapshot counts
    loader.load(log.batches_from(loader.image.end_offset))
    remove_snapshots(files, path, found.damaged)
    return OpenedQuorum(log, view, history, loader, stored)


def _leave_what_the_snapshot_replaces(log: MetadataLog, image: MetadataImage) -> None:
    """Empties a log that ends before the snapshot, or that is of an older epoch: it was fetched from a leader that knew
    nothing of what is in this log, and a kill came before it took the log's place. An empty log is of no epoch: where
    it begins, a later snapshot ended."""
    is_longer = max(log.log_start_offset, image.end_offset) < log.log_end_offset
    is_of_another_history = is_longer and log.latest_epoch < image.epoch
    if log.log_end_offset < image.end_offset or is_of_another_history:
        log.begin_at(image.end_offset)


def _start_of(log: MetadataLog, snapshots: Iterable[OffsetAndEpoch]) -> OffsetAndEpoch:
    """Returns the snapshot at which the log begins. Where a power cut has brought back some of what was deleted before
    it, that is deleted again."""
    if log.log_start_offset == 0:
        return BOOTSTRAP_SNAPSHOT
    found = next((snapshot for snapshot in snapshots if snapshot.offset >= log.log_start_offset), None)
    if found is None:
        raise KafkaStorageError(
            f"{METADATA_PARTITION} starts at offset {log.log_start_offset} and no snapshot in {log.path} reaches so "
            "far: restore the directory, or let this node join the quorum with an empty one"
        )
    log.delete_before(found.offset)
    return found


def _voters_in(
    files: Files, path: str, start: OffsetAndEpoch, snapshots: Iterable[OffsetAndEpoch]
) -> ConfiguredVoters | None:
    """Returns the voters of the snapshot at which the log begins; None if there is none, or if it names none."""
    return voters_of_snapshot(read_snapshot_bytes(files, path, start)) if start in snapshots else None


def voters_of_snapshot(data: bytes) -> ConfiguredVoters | None:
    """Returns the voters that a snapshot names, and its kraft.version; None if it is of version 0."""
    controls = [record for batch in read_batches(data) for record in batch.control]
    versions = [record.kraft_version for record in controls if isinstance(record, KRaftVersionRecord)]
    voters = [voter_set_of(record) for record in controls if isinstance(record, VotersRecord)]
    return ConfiguredVoters(voters[-1], versions[-1]) if voters and versions else None
