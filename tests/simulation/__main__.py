"""Runs the scenario with one broker, tells its story, and says how fast the world was.

python -m tests.simulation 7        # the seed
python -m tests.simulation 7 60     # for so many simulated seconds, 600 unless told otherwise
"""

import sys
import time

from tests.simulation.scenarios.one_broker import OneBroker, Settings, short


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    seconds = int(sys.argv[2]) if len(sys.argv) > 2 else 600
    settings = Settings() if seconds >= 600 else short(seed, seconds)
    scenario = OneBroker(seed, settings)
    started = time.process_time()
    try:
        scenario.run()
    finally:
        took = time.process_time() - started
        simulated = scenario.scheduler.now_us / 1e6
        print(scenario.world.trace.text())
        print(f"seed {seed}: trace {scenario.world.trace.hash()}")
        print(
            f"{simulated:.0f} simulated seconds in {took:.1f} s of CPU: {simulated / took:.0f} x;"
            f" {scenario.scheduler.events} events, {scenario.oracle.acknowledged_records} records acknowledged",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
