"""Runs one plan, and says what came of it."""

from typing import NamedTuple

from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.cluster.shrinking import reason_of


class Outcome(NamedTuple):
    seed: int
    simulated_s: float
    faults: int
    trace: str
    reason: str | None = None
    """Why it failed, in short; None if it did not."""
    failure: str = ""
    """What was said of it."""


def outcome_of(plan: Plan) -> Outcome:
    """Runs a plan. Whatever fails in it is its outcome."""
    scenario = ManyBrokers(plan)
    reason, failure = None, ""
    try:
        scenario.run()
    except Exception as error:
        reason, failure = reason_of(error), str(error).partition("\n")[0]
    simulated_s, trace = scenario.scheduler.now_us / 1e6, scenario.world.trace.hash()
    return Outcome(plan.seed, simulated_s, sum(scenario.faults.happened.values()), trace, reason, failure)


def why_it_fails(plan: Plan) -> str | None:
    """Returns the reason in short; None if it does not fail."""
    return outcome_of(plan).reason
