"""All scenarios, in the order of the report."""

from benchmarks.scenario import Scenario
from benchmarks.scenarios import throughput

SCENARIOS: tuple[Scenario, ...] = (*throughput.SCENARIOS,)
