"""Runs simulations by hand.

    python -m tests.simulation one 7             # one broker: tells the story of seed 7, and how fast the world was
    python -m tests.simulation one 7 --seconds 60
    python -m tests.simulation cluster 7         # many brokers
    python -m tests.simulation plan 7            # what goes wrong in seed 7, as a file that can be edited
    python -m tests.simulation shrink 7          # the same, with as little as makes it fail
    python -m tests.simulation defects           # plants defects, one after the other: each must be found
    python -m tests.simulation many 5000         # seeds 0 to 4999, on all cores; goes on where it was stopped

Where a seed of many brokers is asked for, the file of a plan does as well.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.simulation.cluster.defects import planted
from tests.simulation.cluster.defects.planted import first_failure
from tests.simulation.cluster.many import ROOT, Total, results_file, run_many
from tests.simulation.cluster.plan import Plan, plan_of, read_plan
from tests.simulation.cluster.runs import Outcome, why_it_fails
from tests.simulation.cluster.scenario import ManyBrokers
from tests.simulation.cluster.shrinking import shrink
from tests.simulation.cluster.transactions import defects as of_transactions
from tests.simulation.scenarios.one_broker import OneBroker, Settings, short
from tests.simulation.seeds import collected_by_hand

DEFECTS = planted.DEFECTS | of_transactions.DEFECTS
RESULTS = ROOT / ".cache" / "simulation"
TEST = "tests/simulation/test_cluster.py"
TOLD_EVERY_S = 10.0


def plan_named(text: str) -> Plan:
    """Returns the plan of a seed, or of a file."""
    try:
        return plan_of(int(text)) if text.isdigit() else read_plan(Path(text))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def one(options: argparse.Namespace) -> int:
    seconds = options.seconds
    return tell_story(OneBroker(options.seed, Settings() if seconds >= 600 else short(options.seed, seconds)))


def cluster(options: argparse.Namespace) -> int:
    return tell_story(ManyBrokers(options.plan))


def tell_story(scenario: OneBroker | ManyBrokers) -> int:
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
    return 0


def write_plan(options: argparse.Namespace) -> int:
    print(options.plan.text(), end="")
    return 0


def write_smallest(options: argparse.Namespace) -> int:
    try:
        smallest = shrink(options.plan, why_it_fails, lambda line: print(line, file=sys.stderr, flush=True))
    except ValueError as error:
        print(f"{error}: there is nothing to make smaller", file=sys.stderr)
        return 1
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"plan-{smallest.seed}.json"
    path.write_text(smallest.text())
    print(smallest.text(), end="")
    print(f"replay it with: SIM_PLAN={path.relative_to(ROOT)} python -m pytest {TEST}", file=sys.stderr)
    return 0


def many(options: argparse.Namespace) -> int:
    path, told_at = results_file(RESULTS), 0.0

    def tell(total: Total) -> None:
        nonlocal told_at
        now = time.monotonic()
        if now - told_at >= TOLD_EVERY_S or total.seeds == options.seeds:
            told_at = now
            print(f"of {options.seeds:,}: {total}", file=sys.stderr, flush=True)

    total = run_many(range(options.seeds), path, tell, options.processes)
    for outcome in total.failed:
        print(
            f"seed {outcome.seed}: {outcome.failure}\n  replay it with: SIM_SEED={outcome.seed} python -m pytest {TEST}"
        )
    if total.seeds < options.seeds:
        print(f"stopped; `make simulate SEEDS={options.seeds}` goes on with what is left", file=sys.stderr)
    print(total)
    return 1 if total.failed else 0


def defects(options: argparse.Namespace) -> int:
    chosen = {what: defect for what, defect in DEFECTS.items() if options.only in what}
    missed, context = 0, get_context("fork")
    with ProcessPoolExecutor(options.processes, context) as pool:
        for what, (outcome, took_s) in zip(chosen, pool.map(look_for, chosen), strict=True):
            defect = chosen[what]
            if outcome is None:
                text = f"NOT FOUND within {defect.seeds} seeds"
            elif outcome.reason not in defect.found_by:
                text = f"something else was found in seed {outcome.seed}: {outcome.failure}"
            else:
                text = f"{outcome.reason} in seed {outcome.seed}"
            missed += outcome is None or outcome.reason not in defect.found_by
            print(f"{what}: {text} ({took_s:.0f} s of CPU)", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} defects were found")
    return 1 if missed else 0


def look_for(what: str) -> tuple[Outcome | None, float]:
    started = time.process_time()
    with collected_by_hand():
        return first_failure(DEFECTS[what]), time.process_time() - started


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    single = commands.add_parser("one", help="one broker: its story")
    single.add_argument("seed", type=int)
    single.add_argument("--seconds", type=int, default=600, help="simulated ones (default: %(default)s)")
    single.set_defaults(run=one)
    for name, run, text in (
        ("cluster", cluster, "many brokers: their story"),
        ("plan", write_plan, "what goes wrong in a seed, as a file that can be edited"),
        ("shrink", write_smallest, "the same, with as little as makes it fail"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("plan", type=plan_named, metavar="SEED|FILE")
        command.set_defaults(run=run)
    planted = commands.add_parser("defects", help="plants defects, one after the other")
    planted.add_argument("--only", default="", metavar="WORDS", help="those in whose names these words are")
    planted.add_argument("--processes", type=int, help="default: one for each core")
    planted.set_defaults(run=defects)
    lots = commands.add_parser("many", help="many seeds of many brokers")
    lots.add_argument("seeds", type=int)
    lots.add_argument("--processes", type=int, help="default: one for each core")
    lots.set_defaults(run=many)
    options = parser.parse_args()
    code: int = options.run(options)
    return code


if __name__ == "__main__":
    sys.exit(main())
