"""What a machine must have, on machines that lack it: real interpreters and programs without, or with an old one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.pipelines.failure import Failure
from barnabas.pipelines.requirements import require_java

ROOT = Path(__file__).resolve().parent.parent.parent


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


def test_an_unknown_job_is_told_with_the_nearest(capfd: pytest.CaptureFixture[str]) -> None:
    done = barnabas("pipeline", "arcive")
    assert done.returncode == 2
    assert "'arcive' is not a command (did you mean archive?): use archive, restore, " in done.stderr


def java(folder: Path, version: str) -> None:
    """A program that says what that Java says of itself."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(("version", "told"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11")])
def test_a_java_that_is_too_old_is_told(
    version: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Failure, match=f"is {told}, Spark's jobs need Java 17 or later: install a JDK 17"):
        require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    with pytest.raises(Failure, match=f"java is {told}"):
        require_java()


def test_no_java_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Failure, match=f"JAVA_HOME is {tmp_path}, where there is no bin/java: install a JDK 17"):
        require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match="there is no java on the path: install a JDK 17"):
        require_java()


def test_the_java_that_is_installed_is_good_enough() -> None:
    require_java()
