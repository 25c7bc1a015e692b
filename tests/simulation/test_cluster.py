"""Clusters of one to five whole brokers with their clients in the simulated world: what was answered is true, whatever
goes wrong, and afterwards all is well again."""

import os
from pathlib import Path

import pytest

from tests.simulation.cluster.plan import Plan, plan_of, read_plan
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.cluster.settings import KINDS, Settings
from tests.simulation.seeds import replayable, run_seeds, told_under_two_hash_seeds

SEEDS = int(os.environ.get("SIM_SEEDS", "300"))
SHARDS = 30
KEPT = Path(__file__).parent / "cluster" / "plans"
PLANS = [Path(os.environ["SIM_PLAN"])] if "SIM_PLAN" in os.environ else sorted(KEPT.glob("*.json"))
"""Runs that are made each time: what went wrong elsewhere, or once went wrong here."""


def run(seed: int, settings: Settings | None = None) -> ManyBrokers:
    return run_plan(plan_of(seed, settings))


def run_plan(plan: Plan, path: Path | None = None) -> ManyBrokers:
    scenario = ManyBrokers(plan)
    with replayable(plan.seed, scenario.world.trace, path):
        return scenario.run()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_cluster_keeps_what_it_promised_and_recovers(shard: int) -> None:
    run_seeds(run, SEEDS, shard=shard, shards=SHARDS)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_that_is_kept_goes_well(path: Path) -> None:
    plan = read_plan(path)
    scenario = run_plan(plan, path)
    assert sum(scenario.faults.happened.values()) == len(plan.faults)


def test_without_faults_there_is_one_controller_and_nobody_is_fenced() -> None:
    scenario = run(1, Settings(brokers=5, producers=6, replication_factor=3, min_insync_replicas=2))
    assert len(scenario.oracle.controllers) == 1
    assert scenario.oracle.fenced == []
    assert scenario.oracle.facts.answers > 20
    assert all(oracle.acknowledged_records for oracle in scenario.claims.oracles)


def test_every_kind_of_fault_happens() -> None:
    scenario = run(3, Settings(kinds=KINDS, faults=80, replication_factor=3, min_insync_replicas=2))
    assert len(scenario.faults.happened) > len(KINDS) - 6
    assert len(scenario.oracle.controllers) > 2


def test_the_order_of_sets_changes_nothing() -> None:
    stories = told_under_two_hash_seeds("cluster", "8")
    assert stories[0] == stories[1]
    assert b"broker-1: is ready" in stories[0]
