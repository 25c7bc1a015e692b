"""The Java that jobs need, on machines that have none, an old one or a good one."""

import os
from pathlib import Path

import pytest

from barnabas.pipelines.shared.failure import Failure
from barnabas.pipelines.shared.spark.requirements import require_java


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
