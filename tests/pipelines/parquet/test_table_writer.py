"""Versions without Spark: their files are written by pyarrow, everything else is the job's own code."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from barnabas.pipelines.parquet.archive_writer import ArchiveWriter
from barnabas.pipelines.parquet.table_writer import TableWriter
from barnabas.pipelines.rollups.batch_notes import BatchNotes
from barnabas.pipelines.rollups.output import ParquetOutput
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.folder import Folder, LocalFolder
from barnabas.pipelines.shared.position import TopicState
from tests.pipelines.archives import Killed, WatchedFolder

KEEP = 2


def one_run(folder: Folder, end: int) -> TableWriter:
    """Brings the table up to `end`, if it is not there yet: `end` rows in two files."""
    writer = TableWriter(folder, KEEP)
    writer.recover()
    assert writer.take_over({} if writer.topics else {"orders": TopicState("id", {0: 0})}, 0)
    if writer.topics["orders"].next_offsets[0] < end:
        write_version(writer, end)
    return writer


def write_version(writer: TableWriter, end: int) -> None:
    folder = Path(writer.folder.root, writer.next_path())
    folder.mkdir(parents=True)
    for name, rows in (("1.parquet", range(1)), ("2.parquet", range(1, end))):
        parquet.write_table(pa.table({"row": list(rows)}), folder / name)
    writer.commit(["1.parquet", "2.parquet"], {"orders": TopicState("id", {0: end})}, rows=end, size_bytes=end)


def seen(table: Path) -> list[list[int]]:
    """Through both pointers."""
    told = json.loads((table / "_current.json").read_text())
    versions = [(table / "current").resolve(), table / told["path"]]
    return [parquet.read_table(version)["row"].to_pylist() for version in versions]


# The points at which a run is killed, in order, and what is half done there.
POINTS = {
    "pointers": 4,  # the link and the file say the same again
    "take over": 2,  # before: nothing happened; behind: the next run takes over from this one
    "dead version": 2,  # what a dead run has left behind is still there, or is gone
    "written": 1,  # the version is whole, and nobody knows of it: written again
    "commit": 2,  # before: as written; behind: it is the latest, and the pointers lead to the one before
    "pointers follow": 4,  # one of them may lead to the latest and the other to the one before
    "old version": 2,  # it is still there, or is gone
}


def test_killed_before_and_after_every_change_to_a_file_a_run_leaves_a_whole_table(tmp_path: Path) -> None:
    first = LocalFolder(str(tmp_path / "first" / "table"))
    for end in (2, 3):
        one_run(first, end)
    (tmp_path / "first" / "table" / "versions" / "v99").mkdir()
    steps: list[str] = []
    shutil.copytree(tmp_path / "first", tmp_path / "undisturbed", symlinks=True)
    one_run(WatchedFolder(LocalFolder(str(tmp_path / "undisturbed" / "table")), steps.append), 4)
    assert len(steps) == sum(POINTS.values()), "a step was added: say above what it leaves half done"
    for number, step in enumerate(steps):
        table = tmp_path / f"killed-{number}" / "table"
        shutil.copytree(tmp_path / "first", table.parent, symlinks=True)
        with pytest.raises(Killed):
            one_run(WatchedFolder(LocalFolder(str(table)), KillAfter(number)), 4)
        for rows in seen(table):
            assert rows in (list(range(3)), list(range(4))), step
        one_run(LocalFolder(str(table)), 4)
        assert seen(table) == [list(range(4))] * 2, step
        assert len(list((table / "versions").iterdir())) == KEEP, step


class KillAfter:
    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self, step: str) -> None:
        if not self.left:
            raise Killed(step)
        self.left -= 1


def test_a_run_that_was_overtaken_can_commit_nothing_more(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path / "table"))
    earlier = one_run(folder, 2)
    later = one_run(folder, 3)
    with pytest.raises(Failure, match="another table job has taken over"):
        write_version(earlier, 4)
    write_version(later, 5)
    assert seen(tmp_path / "table") == [list(range(5))] * 2


@pytest.mark.parametrize("mark", ["_archive/lock", "_rollup.json"])
def test_the_output_of_another_job_is_refused_and_left_as_it_is(tmp_path: Path, mark: str) -> None:
    folder = LocalFolder(str(tmp_path / "table"))
    folder.create(mark, "{}")
    with pytest.raises(Failure, match=r"is the output of (archive|rollup): give table an --output of its own"):
        TableWriter(folder, KEEP).check_unlocked()
    with pytest.raises(Failure, match="is the output of"), TableWriter(folder, KEEP):
        pass
    assert [path.name for path in (tmp_path / "table").iterdir()] == [mark.partition("/")[0]]


def test_what_another_job_prepares_beside_the_same_folder_stays(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path / "out"))
    archived = ArchiveWriter(folder).batch_staging()
    folder.create(f"{archived}/committed.parquet", "")
    rollup = ParquetOutput(folder, BatchNotes(LocalFolder(str(tmp_path / "checkpoint"))))
    rollup.open("checkpoint")
    rollup.close()
    one_run(folder, 2)
    assert folder.exists(f"{archived}/committed.parquet")


def test_neither_versions_nor_commits_become_more_and_more(tmp_path: Path) -> None:
    writer = one_run(LocalFolder(str(tmp_path / "table")), 1)
    for end in range(2, 30):
        write_version(writer, end)
    assert sorted(path.name for path in (tmp_path / "table" / "versions").iterdir()) == ["v29", "v30"]
    assert len(list((tmp_path / "table" / "_table" / "commits").iterdir())) <= 12
