"""Commits without Spark: the files of a batch are written by pyarrow, everything else is the job's own code."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.parquet.archive_log import ArchivedFile, ArchiveLog
from barnabas.pipelines.parquet.archive_writer import ArchiveWriter
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.commit_log import CommitLog
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.folder import Folder, HadoopFolder, LocalFolder
from barnabas.pipelines.shared.position import TopicState
from tests.pipelines.archives import Killed, Seen, WatchedFolder, once_each, seen_by_duckdb, seen_by_pyarrow

BATCH = 4
"""Offsets per partition and batch; two partitions, two days: four files."""


def archive_batch(writer: ArchiveWriter, end: int) -> None:
    """Archives both partitions of a topic up to `end`, from wherever the archive is."""
    start = writer.state.topics["orders"].next_offsets[0]
    if start >= end:
        return
    files = []
    for partition in (0, 1):
        for day, offsets in (("01", range(start, end - 1)), ("02", range(end - 1, end))):
            staged = f"topic=orders/date=2025-11-{day}/part-{partition}.parquet"
            target = Path(writer.batch_staging().removeprefix("file:"), staged)
            target.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.table({"partition": [partition] * len(offsets), "offset": list(offsets)}), target)
            path = f"topic=orders/date=2025-11-{day}/{partition}-{offsets[0]:020}.parquet"
            files.append(ArchivedFile(path, "orders", partition, offsets[0], offsets[-1], len(offsets), 100, staged))
    writer.commit(tuple(files), {"orders": TopicState("id", {0: end, 1: end})}, 0)


def start(writer: ArchiveWriter) -> None:
    writer.recover()
    assert writer.take_over({} if writer.topics else {"orders": TopicState("id", {0: 0, 1: 0})}, 0)


def expected(end: int) -> Seen:
    return once_each(("orders", partition, offset) for partition in (0, 1) for offset in range(end))


def one_run(folder: Folder, end: int) -> None:
    """A run as the job makes it, but for its last words: a process that is killed has none."""
    writer = ArchiveWriter(folder)
    start(writer)
    archive_batch(writer, end)


def one_whole_run(folder: Folder, end: int) -> None:
    with ArchiveWriter(folder) as writer:
        start(writer)
        archive_batch(writer, end)


# The points at which a run is killed, in order, and what is half done there. Each change is one point before it and
# one behind it; a flush changes nothing that a reader sees and is one point.
POINTS = {
    "recovered": 1,  # the commit of the run before is found finished, and flushed once more
    "probe": 6,  # nothing is read yet; the file that tries out a move may be left
    "take over": 2,  # before: nothing happened; behind: the next run takes over from this one
    "dead staging": 2,  # what the run before has left is still there, or is gone
    "staged": 1,  # files are written, and nobody knows of them: written again
    "commit": 2,  # before: as staged; behind: they are archived, and no reader sees them: moved by the next run
    "moves": 8,  # a reader sees some of them: the others are moved by the next run
    "moved": 1,  # everything is in its place, not yet flushed
    "clear": 2,  # only an empty staging folder is left; Spark's own commit comes behind it
}


def test_killed_before_and_after_every_change_to_a_file_a_run_is_finished_by_the_next(tmp_path: Path) -> None:
    one_run(LocalFolder(str(tmp_path / "first" / "out")), BATCH)
    shutil.copytree(tmp_path / "first", tmp_path / "undisturbed")
    steps: list[str] = []
    one_run(WatchedFolder(LocalFolder(str(tmp_path / "undisturbed" / "out")), steps.append), 2 * BATCH)
    assert len(steps) == sum(POINTS.values()), "a step was added: say above what it leaves half done"
    for number, step in enumerate(steps):
        archive = tmp_path / f"killed-{number}" / "out"
        shutil.copytree(tmp_path / "first", archive.parent)
        with pytest.raises(Killed):
            one_run(WatchedFolder(LocalFolder(str(archive)), StopAfter(number, Killed())), 2 * BATCH)
        assert set(seen_by_duckdb(archive).values()) == {1}, step
        one_run(WatchedFolder(LocalFolder(str(archive)), NeverTwice(archive)), 2 * BATCH)
        assert seen_by_pyarrow(archive) == seen_by_duckdb(archive) == expected(2 * BATCH), step
        assert list((archive.parent / ".out.archive.staging").rglob("*.parquet")) == [], f"{step}: dead staging is left"


def test_a_disk_that_fails_at_any_change_to_a_file_costs_nothing(tmp_path: Path) -> None:
    """A run that fails cleans up behind itself, but never what it may have committed."""
    one_run(LocalFolder(str(tmp_path / "first" / "out")), BATCH)
    for number in range(sum(POINTS.values())):
        archive = tmp_path / f"failed-{number}" / "out"
        shutil.copytree(tmp_path / "first", archive.parent)
        full = WatchedFolder(LocalFolder(str(archive)), StopAfter(number, OSError(errno.ENOSPC, "No space left")))
        with pytest.raises((OSError, Failure)):
            one_whole_run(full, 2 * BATCH)
        one_run(LocalFolder(str(archive)), 2 * BATCH)
        assert seen_by_duckdb(archive) == expected(2 * BATCH), number


class NeverTwice:
    """What a reader sees whenever a file has come into its place."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive

    def __call__(self, step: str) -> None:
        if step.startswith("after move topic="):
            assert set(seen_by_duckdb(self.archive).values()) == {1}, step


class StopAfter:
    def __init__(self, steps: int, error: BaseException) -> None:
        self.left = steps
        self.error = error

    def __call__(self, step: str) -> None:
        self.left -= 1
        if self.left == -1:
            raise self.error


@pytest.mark.parametrize("by", ["the operating system", "Hadoop's classes"])
def test_a_run_that_was_overtaken_can_commit_nothing_more(by: str, tmp_path: Path, spark: SparkSession) -> None:
    archive = str(tmp_path / "out")
    folder = LocalFolder(archive) if by == "the operating system" else HadoopFolder(Files(spark, f"file:{archive}"))
    earlier, later = ArchiveWriter(folder), ArchiveWriter(folder)
    start(earlier)
    archive_batch(earlier, BATCH)
    start(later)
    with pytest.raises(Failure, match="another archive job has taken over"):
        archive_batch(earlier, 2 * BATCH)
    archive_batch(later, 2 * BATCH)
    assert seen_by_pyarrow(tmp_path / "out") == seen_by_duckdb(tmp_path / "out") == expected(2 * BATCH)
    assert [commit.run for commit in ArchiveLog(folder).commits()] == [earlier.run, later.run]


def test_a_run_that_sleeps_in_the_middle_of_its_commit_finds_it_finished(tmp_path: Path) -> None:
    """The later run finishes the earlier one's moves while that one is between two of them."""
    archive = tmp_path / "out"
    later = ArchiveWriter(LocalFolder(str(archive)))
    naps = [f"before move topic=orders/date=2025-11-01/1-{0:020}.parquet"]

    def nap(step: str) -> None:
        if naps and step == naps[0]:
            naps.clear()
            start(later)

    earlier = ArchiveWriter(WatchedFolder(LocalFolder(str(archive)), nap))
    start(earlier)
    archive_batch(earlier, BATCH)
    assert naps == []
    assert seen_by_duckdb(archive) == expected(BATCH)
    with pytest.raises(Failure, match="another archive job has taken over"):
        archive_batch(earlier, 2 * BATCH)


def test_a_second_job_on_the_same_machine_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    with ArchiveWriter(LocalFolder(str(tmp_path / "out"))):
        second = ArchiveWriter(LocalFolder(str(tmp_path / "out")))
        with pytest.raises(Failure, match=r"is being written by process \d+ on"):
            second.__enter__()
        with pytest.raises(Failure, match="one archive job at a time"):
            second.check_unlocked()
    with second:
        pass


def test_an_archive_whose_files_were_taken_away_is_not_continued(tmp_path: Path) -> None:
    folder = LocalFolder(str(tmp_path / "out"))
    one_run(folder, BATCH)
    latest = ArchiveLog(folder).latest()
    assert latest is not None
    (tmp_path / "out" / latest.files[-1].path).unlink()
    with pytest.raises(Failure, match="it was removed"):
        ArchiveWriter(folder).recover()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EXDEV, "is a file system of its own"),  # a mount point: `rename` does not lead into it
        (errno.EACCES, "where files are prepared, cannot be written: Permission denied"),
    ],
)
def test_a_folder_that_files_cannot_be_moved_to_is_refused_before_anything_is_read(
    number: int, said: str, tmp_path: Path
) -> None:
    class Refusing(WatchedFolder):
        def move(self, source: str, target: str) -> None:
            raise OSError(number, os.strerror(number))

    writer = ArchiveWriter(Refusing(LocalFolder(str(tmp_path / "out")), lambda _: None))
    with pytest.raises(Failure, match=said):
        start(writer)
    assert ArchiveLog(LocalFolder(str(tmp_path / "out"))).latest() is None


def test_an_output_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match="cannot be written: Not a directory"):
        one_whole_run(LocalFolder(str(tmp_path / "file" / "out")), BATCH)


@pytest.mark.parametrize("root", ["/", "s3a://bucket", "hdfs://namenode:8020"])
def test_an_output_without_a_folder_above_it_is_refused(root: str) -> None:
    with pytest.raises(Failure, match="has no parent folder"):
        ArchiveWriter(LocalFolder(root))


# ---- the log


@pytest.fixture
def append(tmp_path: Path) -> Callable[[CommitLog, int], bool]:
    return lambda log, number: log.append({"number": number, "text": "x", "state": "only in the newest"})


def without_state(record: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in record.items() if key != "state"}


def test_folding_keeps_every_record_and_few_files(tmp_path: Path, append: Callable[[CommitLog, int], bool]) -> None:
    log = CommitLog(LocalFolder(str(tmp_path)), "log")
    for number in range(1, 26):
        assert append(log, number)
        log.fold(without_state, size=5)
    assert [record["number"] for record in log.records()] == list(range(1, 26))
    latest = log.latest()
    assert latest is not None
    assert (latest["number"], latest["state"]) == (25, "only in the newest")
    assert len(list((tmp_path / "log").iterdir())) == 4 + 5
    assert not append(log, 25)


def test_a_fold_that_was_interrupted_says_nothing_twice(
    tmp_path: Path, append: Callable[[CommitLog, int], bool]
) -> None:
    log = CommitLog(LocalFolder(str(tmp_path)), "log")
    for number in range(1, 11):
        append(log, number)
    killed = CommitLog(WatchedFolder(LocalFolder(str(tmp_path)), _die_at("before remove log/000000000003.json")), "log")
    with pytest.raises(Killed):
        killed.fold(without_state, size=5)
    assert [record["number"] for record in log.records()] == list(range(1, 11))
    log.fold(without_state, size=5)
    assert len(list((tmp_path / "log").iterdir())) == 1 + 5


def test_a_reader_goes_on_where_it_was_when_records_are_folded_under_it(
    tmp_path: Path, append: Callable[[CommitLog, int], bool]
) -> None:
    log = CommitLog(LocalFolder(str(tmp_path)), "log")
    for number in range(1, 11):
        append(log, number)
    reader = log.records()
    first = [next(reader)["number"] for _ in range(2)]
    log.fold(without_state, size=5)
    assert first + [record["number"] for record in reader] == list(range(1, 11))


def test_a_log_of_another_version_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "000000000001.json").write_text(json.dumps({"format": 2, "number": 1}))
    with pytest.raises(Failure, match="another version of Barnabas"):
        CommitLog(LocalFolder(str(tmp_path)), "log").latest()


def _die_at(last: str) -> Callable[[str], None]:
    def die(step: str) -> None:
        if step == last:
            raise Killed(step)

    return die
