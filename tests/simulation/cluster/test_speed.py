"""What a simulated second of a cluster costs. Calls are counted, because a clock says little on a machine that is busy.

Three brokers, three replicas of everything, four producers, their readers and an administrator, no faults: where this
was counted first, a second of CPU time held some fifty simulated ones, on a machine that had other work to do.
"""

import sys
from collections import Counter
from typing import Any

from tests.simulation.cluster.plan import plan_of
from tests.simulation.cluster.replicas.listening import listening
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.cluster.settings import Settings
from tests.simulation.seeds import collected_by_hand

SETTINGS = Settings(replication_factor=3, min_insync_replicas=2)
SECONDS = 20
EVENTS_MAX = 325
CALLS_MAX = 19_750
"""Of functions that are written in Python, per simulated second, by Python 3.11. Later ones call fewer."""


def counted(seed: int) -> Counter[str]:
    counts: Counter[str] = Counter()

    def note(_frame: Any, event: str, _argument: Any) -> None:
        counts[event] += 1

    scenario = ManyBrokers(plan_of(seed, SETTINGS))
    scheduler = scenario.scheduler
    with listening(scenario.watcher), collected_by_hand():
        scenario.begin()
        scheduler.run_for(SETTINGS.calm_ms)
        before = scheduler.events
        sys.setprofile(note)
        try:
            scheduler.run_for(SECONDS * 1_000)
        finally:
            sys.setprofile(None)
    counts["events"] = scheduler.events - before
    return counts


def test_a_simulated_second_costs_no_more_than_it_did() -> None:
    counted(1)  # compiles what is compiled when it is first used
    counts = counted(1)
    assert counts["events"] <= EVENTS_MAX * SECONDS, f"{counts['events'] / SECONDS} events"
    assert counts["call"] <= CALLS_MAX * SECONDS, f"{counts['call'] / SECONDS} calls"
