"""Apache Kafka itself, to compare with: its jars, and a way to run a small Java program against them.

The jars lie in .cache/kafka-4.3.0/libs, where `make setup` puts them, or where KAFKA_LIBS says. Without them or Java
a test is skipped with the reason; on CI that is a failure: a comparison that does not run there is lost.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
JAVA_SOURCES = Path(__file__).resolve().parent / "java"


def kafka_libs() -> Path:
    libs = Path(os.environ.get("KAFKA_LIBS") or ROOT / ".cache" / "kafka-4.3.0" / "libs")
    if not any(libs.glob("kafka-clients-*.jar")):
        _missing(f"no Kafka jars in {libs}: `make setup` fetches them")
    return libs


def newest_clients_jar() -> Path:
    """The newest client there is; it knows versions that no released broker of `kafka_libs` does."""
    jar = ROOT / ".cache" / "kafka-clients-4.4.0" / "libs" / "kafka-clients-4.4.0.jar"
    if not jar.is_file():
        _missing(f"no {jar}: `make setup` fetches it")
    return jar


def run_java(source: str, stdin: str, *first: Path) -> str:
    """What the program tests/java/<source> prints, compiled as it is run. Jars that are named come before Kafka's."""
    command = java_command(source, first=first)
    finished = subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=100)
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


def java_command(source: str, *arguments: str, first: Sequence[Path] = ()) -> list[str]:
    """What starts the program tests/java/<source>: most of its time it is compiled, so the quick compiler has to do."""
    class_path = ":".join(map(str, (*first, kafka_libs() / "*")))
    if shutil.which("java") is None:
        _missing("no java on the path: install a JDK, version 17 or later")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", class_path, str(JAVA_SOURCES / source), *arguments]


def _missing(reason: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
