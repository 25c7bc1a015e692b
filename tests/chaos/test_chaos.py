"""Two minutes of chaos: real brokers under real clients. `make chaos` has half an hour of it.

CHAOS_SEED and CHAOS_SECONDS choose another run; a run that fails says where it left what explains it.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.faults.plan import DECK, ROLLING, plan_of
from tests.chaos.namespaces import ROOT, way_in
from tests.chaos.runs import evidence_of, make_run
from tests.kafka_jars import kafka_libs

SEED = int(os.environ.get("CHAOS_SEED", "10"))
SECONDS = int(os.environ.get("CHAOS_SECONDS", "120"))
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def java() -> None:
    kafka_libs()


@pytest.mark.timeout(SECONDS + 900)
def test_nothing_is_lost_in_two_minutes_of_chaos() -> None:
    story: list[str] = []
    way = way_in()
    plan = plan_of(SEED, SECONDS, has_links=way.is_open)
    outcome = make_run(plan, "barnabas", story.append, way)
    print(outcome)
    assert outcome.anomalies == {}, "\n".join([*story, f"see {evidence_of('barnabas', SEED)}"])
    assert set(outcome.faults) <= set(DECK) - {ROLLING}
    assert sum(outcome.faults.values()) == len(plan.faults)
    for what in (
        "acknowledged",
        "commits",
        "assignments",
        "transactions committed",
        "transactions aborted",
        "acknowledged in the compacted topic",
        "partitions compared",
    ):
        assert outcome.counts[what] > 0


def descendants(pid: int) -> list[int]:
    children = [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [*children, *(each for child in children for each in descendants(child))]


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="only Linux tells the children of a process")
@pytest.mark.parametrize("options", [[], ["--no-namespaces"]])
def test_nothing_is_left_of_a_run_that_was_killed(options: list[str]) -> None:
    command = [sys.executable, "-m", "tests.chaos", "one", "1", "--seconds", "60", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        begun = next(line for line in process.stdout if "the faults begin" in line)
        assert begun
        started = descendants(process.pid)
        assert len([pid for pid in started if "java" in name_of(pid)]) == 1
        assert len(started) > 6  # the run, three brokers, three clients
        folders = {folder for pid in started if (folder := temporary_folder_of(pid))}
        process.send_signal(signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + PATIENCE_S
    while (left := [pid for pid in started if is_alive(pid)]) or any(map(os.path.exists, folders)):
        assert time.monotonic() < deadline, (left, folders)
        time.sleep(0.05)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Returns whether the process runs. One that has ended, and that nobody has asked about, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def temporary_folder_of(pid: int) -> str | None:
    folder = os.readlink(f"/proc/{pid}/cwd")
    return folder if "barnabas-chaos-" in folder else None
