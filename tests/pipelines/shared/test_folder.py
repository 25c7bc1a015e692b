"""A folder that a job commits to does the same by the operating system and by Hadoop's classes."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.rollups.batch_notes import BatchNotes
from barnabas.pipelines.rollups.output import ParquetOutput
from barnabas.pipelines.shared.files.file_system import Files
from barnabas.pipelines.shared.files.folder import Folder, HadoopFolder, LocalFolder, open_folder


def by_system(_spark: SparkSession, root: str) -> Folder:
    return LocalFolder(root)


def by_hadoop(spark: SparkSession, root: str) -> Folder:
    return HadoopFolder(Files(spark, root))


def by_mount(spark: SparkSession, root: str) -> Folder:
    """Not a local file system to anybody but Hadoop."""
    place = Path(root)
    mounted = uuid.uuid4().hex  # Hadoop keeps what it knows of a name
    spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{mounted}.link./data", f"file://{place.parent}")
    return open_folder(spark, f"viewfs://{mounted}/data/{place.name}")


@pytest.fixture(params=[by_system, by_hadoop, by_mount])
def folder(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Folder:
    make: Callable[[SparkSession, str], Folder] = request.param
    return make(spark, str(tmp_path / "out"))


def test_an_empty_path_is_the_root(folder: Folder) -> None:
    assert folder.names("") == []
    assert not folder.exists("")
    beside = folder.sibling("staging")
    assert folder.create(f"{beside}/one", "1")
    folder.move(f"{beside}/one", "one")
    assert folder.create("below/two", "2")
    assert folder.names("") == ["below", "one"]
    assert (folder.read("one"), folder.exists(""), folder.names(beside)) == ("1", True, [])


def test_a_file_is_moved_but_never_over_another(folder: Folder) -> None:
    assert folder.create("a", "old")
    assert not folder.create("a", "new")
    assert folder.create("b", "other")
    with pytest.raises(FileExistsError):
        folder.move("b", "a")
    with pytest.raises(FileNotFoundError):
        folder.move("missing", "c")
    folder.replace("a", "new")
    assert (folder.read("a"), folder.read("b")) == ("new", "other")
    folder.remove("b")
    folder.remove("b")
    assert folder.names("") == ["a"]


def test_windows_are_written_to_any_file_system(folder: Folder, spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = LocalFolder(str(tmp_path / "checkpoint"))
    checkpoint.create("offsets/0", "{}")
    output = ParquetOutput(folder, BatchNotes(checkpoint))
    output.open("checkpoint")
    output.write(spark.range(3).toDF("count"), 0)
    assert (output.holds(0), output.holds(1), output.batches()) == (True, False, 1)
    assert spark.read.parquet(folder.uri()).count() == 3
    output.close()
