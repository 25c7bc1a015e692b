"""What a job ends with: an exit code, and one line for whoever started it."""

import argparse
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from barnabas.pipelines.shared import options as common
from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.spark import launch


@pytest.fixture(autouse=True)
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Instead of a JVM for each."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    @contextmanager
    def session(_name: str, _options: argparse.Namespace) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(launch, "session", session)
    monkeypatch.setattr(launch, "require_brokers", lambda _servers: None)
    monkeypatch.setattr("barnabas.pipelines.shared.spark.logs.keep_off_the_terminal", lambda _log_file: None)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Failure("say\n  it"), 1, "barnabas pipeline try: say it"),
        (OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), "/file/out"), 1, "/file/out: Not a directory (details: "),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_ends_a_job_is_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_spark: SparkSession, _options: argparse.Namespace) -> int:
        raise error

    words = ["--log-file", str(tmp_path / "log")]
    assert launch.launch(run, common.parser("try", "", streaming=False), words) == code
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == (1 if line else 0)


def test_a_bug_is_not_explained_away() -> None:
    def run(_spark: SparkSession, _options: argparse.Namespace) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch.launch(run, common.parser("try", "", streaming=False), [])
