"""Hadoop's files, on the local file system: what is there, what is not, and what is in the way."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.files.file_system import Files


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, str(tmp_path / "with space"))


def test_a_text_appears_whole_and_is_replaced_only_if_asked(files: Files, tmp_path: Path) -> None:
    files.write_text_atomically("a/b.json", "grüße")
    assert files.read_text("a/b.json") == files.read_text(files.path("a", "b.json")) == "grüße"
    with pytest.raises(FileExistsError):
        files.write_text_atomically("a/b.json", "other")
    assert files.read_text("a/b.json") == "grüße"
    files.write_text_atomically("a/b.json", "other", overwrite=True)
    assert files.read_text("a/b.json") == "other"
    assert [path.name for path in (tmp_path / "with space" / "a").iterdir() if path.suffix != ".crc"] == ["b.json"]


def test_a_folder_is_listed_by_name(files: Files, tmp_path: Path) -> None:
    files.make_directory("b/c")
    (tmp_path / "with space" / "a").touch()
    assert files.names(files.root) == ["a", "b"]
    assert files.names("missing") == []


def test_a_rename_never_replaces(files: Files) -> None:
    files.write_text_atomically("one", "1")
    files.write_text_atomically("two", "2")
    with pytest.raises(FileExistsError):
        files.rename("one", "two")
    with pytest.raises(FileNotFoundError):
        files.rename("missing", "three")
    files.rename("one", "three")
    assert not files.exists("one")
    assert (files.read_text("two"), files.read_text("three")) == ("2", "1")


def test_deleting_tells_whether_there_was_something(files: Files) -> None:
    files.write_text_atomically("a/b", "")
    with pytest.raises(Failure, match=r"could not delete a: .*not empty"):
        files.delete("a")
    assert files.delete("a", recursive=True)
    assert not files.delete("a")


def test_what_cannot_be_read_or_reached_is_said(files: Files, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        files.read_text("missing")
    files.write_text_atomically("file", "")
    with pytest.raises((Failure, FileExistsError), match="file"):
        files.make_directory("file/below")
    with pytest.raises(Failure, match="nosuch://here: Spark has no file system for it"):
        Files(spark, "nosuch://here")
