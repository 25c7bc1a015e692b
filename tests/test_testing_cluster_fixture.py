"""The fixture `kafka_cluster`, as a project uses it that has Barnabas installed."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

def test_three(kafka_cluster):
    kafka_cluster[kafka_cluster.controller].kill()
    kafka_cluster.create_topics({"orders": 1})
    test_three.port = kafka_cluster.port

@pytest.mark.kafka_cluster(brokers=2, topics={"orders": 4})
def test_two(kafka_cluster):
    assert len(kafka_cluster) == 2
    assert kafka_cluster.port != test_three.port
    assert {kafka_cluster.leader("orders", partition) for partition in range(4)} == {1, 2}
"""
BY_POSITION = """
import pytest

@pytest.mark.kafka_cluster(5)
def test_five(kafka_cluster):
    pass
"""


def outcome_of(tests: str, folder: Path) -> str:
    (folder / "test_theirs.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}  # this checkout, if there are several
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    return result.stdout + result.stderr


def test_the_fixture_works_in_somebody_elses_project(tmp_path: Path) -> None:
    told = outcome_of(TESTS, tmp_path)
    assert "2 passed" in told, told


def test_a_marker_whose_arguments_have_no_names_is_refused(tmp_path: Path) -> None:
    assert "brokers=5" in outcome_of(BY_POSITION, tmp_path)
