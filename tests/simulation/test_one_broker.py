"""A whole broker with its clients in the simulated world: what was acknowledged is true, whatever goes wrong."""

import os

import pytest

from tests.simulation.scenarios.one_broker import OneBroker, Settings, short
from tests.simulation.seeds import SimulationFailed, chosen_seeds, replayable, told_under_two_hash_seeds

SEEDS = range(int(os.environ.get("SIM_SEEDS", "4")))
SHORT_S = 60


def run(seed: int, settings: Settings) -> OneBroker:
    scenario = OneBroker(seed, settings)
    with replayable(seed, scenario.world.trace):
        return scenario.run()


def test_ten_minutes_with_twenty_producers_and_two_groups() -> None:
    """Every acknowledged record is read once and in order, commits never go back, and in the end nobody waits."""
    (seed,) = chosen_seeds([1])
    scenario = run(seed, Settings())
    assert scenario.oracle.acknowledged_records > 5_000
    assert len(scenario.faults.happened) > 7


@pytest.mark.parametrize("seed", chosen_seeds(SEEDS))
def test_a_minute_with_some_kinds_of_faults(seed: int) -> None:
    run(seed, short(seed, SHORT_S))


def test_without_power_cuts_nothing_is_lost_of_any_topic() -> None:
    scenario = run(1, short(1, SHORT_S)._replace(kinds=["kill", "connection cut", "pause", "clean stop"]))
    assert scenario.oracle.power_cuts == 0
    assert scenario.faults.happened["kill"]
    assert not scenario.oracle.missing()


def test_a_seed_gives_the_same_story_byte_for_byte() -> None:
    settings = short(3, 30)
    stories = [run(3, settings).world.trace for _ in range(2)]
    assert stories[0].text() == stories[1].text()
    assert stories[0].hash() == stories[1].hash()
    assert stories[0].hash() != run(4, settings).world.trace.hash()


def test_the_order_of_sets_changes_nothing() -> None:
    stories = told_under_two_hash_seeds("one", "5", "--seconds", "30")
    assert stories[0] == stories[1]
    assert b"broker-1: is ready" in stories[0]


def test_a_failure_says_how_to_replay_it_and_what_happened_last() -> None:
    scenario = OneBroker(11, short(11, 30))
    scenario.world.trace.tell("broker-1", "lost {} records", 3)
    with pytest.raises(SimulationFailed) as failure, replayable(11, scenario.world.trace):
        raise AssertionError("a record is missing")
    assert str(failure.value).splitlines() == [
        "a record is missing",
        "    0.000s broker-1: lost 3 records",
        f"trace {scenario.world.trace.hash()}",
        "replay it with: SIM_SEED=11 python -m pytest tests/simulation/test_one_broker.py",
    ]
