"""`quorum-state` and the snapshots that travel between nodes, on a disk that forgets what was not synced."""

from random import Random

import pytest

from barnabas.protocol.errors import CorruptMessage, KafkaStorageError
from barnabas.protocol.stored.quorum_state import QuorumStateData
from barnabas.replication.metadata.snapshots import encode_snapshot
from barnabas.replication.quorum.log_view import OffsetAndEpoch
from barnabas.replication.quorum.quorum_files import (
    FetchedSnapshot,
    finish_part,
    read_piece,
    read_quorum_state,
    read_snapshot_bytes,
    snapshot_sizes,
    write_piece,
    write_quorum_state,
)
from tests.replication.clusters import CLUSTER_ID, cluster
from tests.simulation.files import SimulatedFiles

STATE = QuorumStateData(leader_id=2, leader_epoch=7, voted_id=3, voted_directory_id=bytes(range(16)))
OLD, NEW = OffsetAndEpoch(10, 2), OffsetAndEpoch(20, 3)


@pytest.fixture
def files() -> SimulatedFiles:
    files = SimulatedFiles(Random(1))
    files.makedirs("/log")
    files.sync_dir("/")
    return files


def test_a_vote_that_was_written_survives_a_power_cut(files: SimulatedFiles) -> None:
    assert read_quorum_state(files, "/log") is None
    write_quorum_state(files, "/log", STATE)
    files.cut_power()
    found = read_quorum_state(files, "/log")
    assert found is not None
    assert (found.leader_id, found.leader_epoch, found.voted_id) == (2, 7, 3)
    assert found.voted_directory_id == STATE.voted_directory_id


def test_a_file_that_cannot_be_understood_is_refused(files: SimulatedFiles) -> None:
    files.open("/log/quorum-state", create=True).writev([b"{"])
    with pytest.raises(KafkaStorageError, match="quorum-state cannot be read"):
        read_quorum_state(files, "/log")


def test_a_snapshot_comes_in_pieces_and_counts_when_it_is_whole(files: SimulatedFiles) -> None:
    old, new = (bytes(encode_snapshot(cluster(*brokers), (), now_ms=0)) for brokers in ((1,), (1, 2)))
    write_piece(files, "/log", OLD, 0, b"half of a download that was given up")
    write_piece(files, "/log", OLD, 0, old[:60])
    write_piece(files, "/log", OLD, 60, old[60:])
    assert snapshot_sizes(files, "/log") == {}
    found = finish_part(files, "/log", OLD, CLUSTER_ID)
    assert isinstance(found, FetchedSnapshot)
    assert (found.data, list(found.image.brokers), found.image.end_offset) == (old, [1], OLD.offset)
    write_piece(files, "/log", NEW, 0, new)
    finish_part(files, "/log", NEW, CLUSTER_ID)
    files.cut_power()
    assert list(snapshot_sizes(files, "/log").items()) == [(OLD, len(old)), (NEW, len(new))]
    assert read_snapshot_bytes(files, "/log", NEW) == new
    pieces = [read_piece(files, "/log", OLD, position, 7) for position in (0, len(old) - 3, len(old))]
    assert pieces == [old[:7], old[-3:], b""]


def test_a_snapshot_that_came_damaged_is_not_kept(files: SimulatedFiles) -> None:
    write_piece(files, "/log", OLD, 0, bytes(encode_snapshot(cluster(1), (), now_ms=0))[:-1])
    assert isinstance(finish_part(files, "/log", OLD, CLUSTER_ID), CorruptMessage)
    assert list(files.listdir("/log")) == []
    assert read_piece(files, "/log", OLD, 0, 7) == b""
