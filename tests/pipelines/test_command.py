"""`barnabas pipeline`: what it lists, what it says of each job, and what on a machine without PySpark."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.__main__ import main
from barnabas.commands.pipeline import COMMANDS, JOBS, job_module
from tests.pipelines.jobs import ROOT


def barnabas(*words: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command without anything that is installed: only what lies on the path that is given."""
    paths = [str(ROOT), *([str(path)] if path else [])]
    program = f"import sys; sys.path[:0] = {paths!r}; from barnabas.__main__ import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-S", "-c", program, *words], capture_output=True, text=True, cwd="/")


def test_without_pyspark_the_jobs_are_listed() -> None:
    done = barnabas("pipeline")
    assert done.returncode == 0
    assert "  archive   keep topics as Parquet files" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("words", [("--help",), ("--bootstrap-servers", "x")])
def test_without_pyspark_a_job_says_what_to_install(words: tuple[str, ...]) -> None:
    done = barnabas("pipeline", "archive", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "barnabas: PySpark is not installed: pip install 'barnabas[spark]'\n"


def test_a_pyspark_that_is_too_old_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "pyspark" / "version.py").write_text('__version__: str = "3.3.4"\n')
    done = barnabas("pipeline", "archive", "--help", path=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("barnabas: PySpark 3.3.4 is too old, 3.5 is the oldest that works: pip install")


def test_an_unknown_job_is_told_with_the_nearest() -> None:
    done = barnabas("pipeline", "arcive")
    assert done.returncode == 2
    assert "'arcive' is not a command (did you mean archive?): use archive, restore, " in done.stderr


@pytest.mark.parametrize("job", JOBS)
def test_every_job_explains_its_options(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", job, "--help"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"usage: barnabas pipeline {job} ")
    assert all(option in told for option in ("--bootstrap-servers", "--master", "--kafka", "--conf", "--dry-run"))


@pytest.mark.parametrize("example", [example for command in COMMANDS for example in command.examples])
def test_the_examples_are_command_lines_that_make_sense(example: str) -> None:
    _, _, job, *words = shlex.split(example)
    job_module(job).make_parser().parse_args(words)


def test_a_wrong_command_line_of_a_job_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["pipeline", "archive", "--bootstrap-server", "x"])
    assert exit.value.code == 2
    assert capsys.readouterr().err.startswith("barnabas pipeline archive: ")
