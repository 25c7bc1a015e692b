"""What is left of a plan that fails."""

from unittest.mock import patch

import pytest

from barnabas.replication.isr import InSyncReplicas
from tests.simulation.cluster.plan import Plan, PlannedFault, plan_of
from tests.simulation.cluster.runs import why_it_fails
from tests.simulation.cluster.settings import KINDS, Settings
from tests.simulation.cluster.shrinking import reason_of, shrink

LARGE = Settings(
    brokers=5, producers=6, members=2, replication_factor=3, kinds=KINDS, faults=40, has_elr=False, segment_bytes=600
)


def numbers(plan: Plan) -> list[int]:
    return [fault.number for fault in plan.faults]


@pytest.mark.parametrize(
    "needed",
    [
        set(),  # it fails without any fault
        {0},
        {34},
        {3, 31},  # at both ends
        {10, 11, 12},  # side by side
        set(range(0, 35, 5)),
    ],
)
def test_only_the_faults_are_left_that_are_needed(needed: set[int]) -> None:
    smallest = shrink(plan_of(1, LARGE), lambda plan: "I9" if needed <= set(numbers(plan)) else None)
    assert set(numbers(smallest)) == needed


def test_a_plan_that_fails_for_another_reason_is_another_plan() -> None:
    smallest = shrink(plan_of(1, LARGE), lambda plan: "I9" if {5, 6} <= set(numbers(plan)) else "L1")
    assert numbers(smallest) == [5, 6]


def test_what_is_not_needed_beside_the_faults_goes_too() -> None:
    smallest = shrink(plan_of(1, LARGE), lambda plan: "I9" if plan.settings.brokers >= 4 and plan.faults else None)
    (fault,) = smallest.faults
    settings = smallest.settings
    assert (settings.brokers, settings.producers, settings.members, settings.kinds) == (4, 1, 0, (fault.kind,))
    assert settings.has_elr
    assert settings.segment_bytes == Settings().segment_bytes
    assert settings.calm_ms + settings.faults_ms == fault.at_ms + 100


def test_faults_keep_their_numbers_and_with_them_what_they_draw() -> None:
    plan = plan_of(1, LARGE)
    smallest = shrink(plan, lambda smaller: "I9" if 17 in numbers(smaller) else None)
    assert smallest.faults == (plan.faults[17],)


def test_a_plan_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="seed 4 does not fail"):
        shrink(plan_of(4, LARGE), lambda _: None)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AssertionError("I13: 7 of flushed-0 is committed"), "I13"),
        (AssertionError("not within 5 s: L1: one controller"), "L1"),
        (AssertionError("epochs move: ['flushed-0: 3, 4']"), "AssertionError: epochs move: ['flushed-N: N, N']"),
        (KeyError("broker-7"), "KeyError: 'broker-N'"),
    ],
)
def test_a_reason_is_the_same_in_runs_that_differ(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_planted_defect_is_left_with_what_shows_it() -> None:
    """A leader that commits what nobody else has is found at its first append: no fault is needed."""
    settings = Settings(
        replication_factor=3, min_insync_replicas=2, interval_ms=200, kinds=("kill", "isolate"), faults=6
    )
    with patch.object(InSyncReplicas, "high_watermark", lambda self, *_: self.own_offset):
        smallest = shrink(plan_of(1, settings), why_it_fails)
        assert why_it_fails(smallest) == "I13"
    assert smallest.faults == ()
    assert smallest.settings.producers == 1
    assert why_it_fails(smallest) is None, "without the defect it passes"


def test_a_fault_hits_whom_its_plan_names() -> None:
    faults = (
        PlannedFault(0, 5_000, "kill", "leader of flushed-1"),
        PlannedFault(1, 9_000, "power cut", "broker 3"),
        PlannedFault(2, 14_000, "pause", "controller"),
        PlannedFault(3, 18_000, "isolate", "follower of flushed-0"),
    )
    settings = Settings(replication_factor=3, min_insync_replicas=2, kinds=("kill", "power cut", "pause", "isolate"))
    assert why_it_fails(Plan(5, settings, faults)) is None
