"""Runs the scenario with one broker, or the one with many, tells its story, and says how fast the world was.

python -m tests.simulation 7          # the seed
python -m tests.simulation 7 60       # for so many simulated seconds, 600 unless told otherwise
python -m tests.simulation cluster 7  # many brokers
"""

import sys
import time

from tests.simulation.cluster.plan import plan_of
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.scenarios.one_broker import OneBroker, Settings, short


def chosen(arguments: list[str]) -> OneBroker | ManyBrokers:
    if arguments[:1] == ["cluster"]:
        seed = int(arguments[1])
        return ManyBrokers(plan_of(seed))
    seed = int(arguments[0]) if arguments else 1
    seconds = int(arguments[1]) if len(arguments) > 1 else 600
    return OneBroker(seed, Settings() if seconds >= 600 else short(seed, seconds))


def main() -> None:
    scenario = chosen(sys.argv[1:])
    started = time.process_time()
    try:
        scenario.run()
    finally:
        took = time.process_time() - started
        simulated = scenario.scheduler.now_us / 1e6
        oracles = [scenario.oracle] if isinstance(scenario, OneBroker) else scenario.claims.oracles
        records = sum(oracle.acknowledged_records for oracle in oracles)
        print(scenario.world.trace.text())
        print(f"seed {scenario.world.seed}: trace {scenario.world.trace.hash()}")
        print(
            f"{simulated:.0f} simulated seconds in {took:.1f} s of CPU: {simulated / took:.0f} x;"
            f" {scenario.scheduler.events} events, {records} records acknowledged",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
