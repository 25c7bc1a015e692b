"""Thousands of quorums, each with faults of its own, and none that breaks a promise.

`SIM_SEED=<seed>` replays one, `SIM_SEEDS=20000` tries more.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.replication.quorum.states import TRANSITIONS, Role
from tests.simulation.quorum.runs import run, summary
from tests.simulation.seeds import run_seeds

SEEDS = int(os.environ.get("SIM_SEEDS", "2000"))
SHARDS = 4
ROOT = Path(__file__).resolve().parent.parent.parent.parent


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_quorum_keeps_its_promises(shard: int) -> None:
    runs = run_seeds(summary, SEEDS, shard=shard, shards=SHARDS)
    if len(runs) >= 100:  # a simulation in which nothing happens proves nothing
        assert sum(run.answers for run in runs) > 10 * len(runs)
        assert sum(run.voter_changes for run in runs) > len(runs) / 20
        assert frozenset().union(*(run.told for run in runs)) >= {
            "{} installs the snapshot {}",
            "{} truncates to {}",
            "{} gets an empty disk",
            "{} stays deaf",
        }


def test_the_same_seed_tells_the_same_story() -> None:
    assert [run(seed).events.hash() for seed in range(5)] == [run(seed).events.hash() for seed in range(5)]


def test_the_story_does_not_depend_on_the_hash_seed() -> None:
    program = "from tests.simulation.quorum.runs import run; print([run(seed).events.hash() for seed in range(5)])"
    stories = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(stories) == 1


def test_the_table_of_transitions_names_every_state() -> None:
    assert {role for pair in TRANSITIONS for role in pair} == set(Role)
