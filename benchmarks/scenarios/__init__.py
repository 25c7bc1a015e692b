"""All scenarios, in the order of the report. To add one, add an entry to one of these files, or a file and a line
here."""

from benchmarks.scenario import Scenario
from benchmarks.scenarios import (
    clusters,
    groups,
    latency,
    python_clients,
    readers,
    recovery,
    replicas,
    requests,
    spark,
    start_and_memory,
    throughput,
    transactions,
)

SCENARIOS: tuple[Scenario, ...] = (
    *start_and_memory.SCENARIOS,
    *throughput.SCENARIOS,
    *requests.SCENARIOS,
    *latency.SCENARIOS,
    *readers.SCENARIOS,
    *groups.SCENARIOS,
    *recovery.SCENARIOS,
    *python_clients.SCENARIOS,
    *spark.SCENARIOS,
    *clusters.SCENARIOS,
    *replicas.SCENARIOS,
    *transactions.SCENARIOS,
)
