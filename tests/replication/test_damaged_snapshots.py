"""Snapshots of the metadata that are not whole any more: a start does without them, and nobody else gets them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.broker.system.disk import OsFiles
from barnabas.protocol.errors import KafkaStorageError
from barnabas.protocol.stored.metadata_records import TopicRecord
from barnabas.replication.metadata.snapshots import list_snapshots, write_snapshot
from tests.replication.clusters import uuid
from tests.replication.quorums import Quorum

FILES = OsFiles()
OLDER, NEWER = 0, 1


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "data")


def grown(path: str) -> Quorum:
    """With a snapshot after each of four topics, of which the last two are kept; killed."""
    quorum = Quorum(FILES, path).lead()
    for number in range(4):
        quorum.append(TopicRecord(name=f"topic-{number}", topic_id=uuid(number)))
        quorum.controller.snapshotter.take()
        quorum.run()
    quorum.logs.abandon()
    return quorum


def snapshot(quorum: Quorum, which: int) -> Path:
    found = list_snapshots(FILES, quorum.log.path)
    assert len(found) == 2
    return Path(quorum.log.path, found[which].file_name)


@pytest.mark.parametrize("which", [OLDER, NEWER])
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-1], id="torn"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], id="a bit flipped"),
        pytest.param(lambda data: data[:8] + b"\0\0\0\1" + data[12:], id="a length"),
        pytest.param(lambda data: data[: data.rindex(b"\x00" * 8)][:-60], id="no footer"),
    ],
)
def test_either_of_two_snapshots_may_be_lost(path: str, damage: Callable[[bytes], bytes], which: int) -> None:
    quorum = grown(path)
    good, lost = snapshot(quorum, 1 - which), snapshot(quorum, which)
    lost.write_bytes(damage(lost.read_bytes()))
    again = Quorum(FILES, path)
    assert again.found() == quorum.found()
    assert again.report.having(lost.name)
    view = again.controller.driver.core.replica.log
    assert [each.offset for each in view.snapshots] == [int(good.name.split("-")[0])], "the other is given to nobody"
    again.lead()
    again.append(TopicRecord(name="one more", topic_id=uuid(9)))
    again.controller.snapshotter.take()
    again.run()
    assert snapshot(again, OLDER) == good
    again.logs.abandon()
    assert Quorum(FILES, path).found() == again.found()


def test_without_any_of_them_the_metadata_are_lost_and_what_is_left_is_not_touched(path: str) -> None:
    quorum = grown(path)
    for which in (OLDER, NEWER):
        snapshot(quorum, which).write_bytes(b"")
    with pytest.raises(KafkaStorageError, match="no snapshot in"):
        Quorum(FILES, path)
    assert len(list_snapshots(FILES, quorum.log.path)) == 2


def test_a_log_that_begins_at_a_lost_snapshot_does_not_go_back_to_an_older_one(path: str) -> None:
    """It was fetched, and nothing has followed it so far. What was acknowledged by that must not be forgotten."""
    quorum = grown(path)
    snapshot(quorum, OLDER).unlink()
    fetched = quorum.image._replace(end_offset=100, epoch=7)
    quorum = Quorum(FILES, path)
    write_snapshot(FILES, quorum.log.path, fetched, (), now_ms=0)
    quorum.log.truncate_fully_and_start_at(100)
    quorum.logs.abandon()
    snapshot(quorum, NEWER).write_bytes(b"")
    with pytest.raises(KafkaStorageError, match="no snapshot in"):
        Quorum(FILES, path)
