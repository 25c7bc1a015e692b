"""Breaks real clusters by hand.

    python -m tests.chaos one 17                       # one run: its story, and what came of it
    python -m tests.chaos one plan.json --system kafka # the same faults for three Apache Kafkas
    python -m tests.chaos plan 17                      # what goes wrong in run 17, as a file that can be edited
    python -m tests.chaos one 17 --defect "anybody is elected"
    python -m tests.chaos many --minutes 30 --system both
    python -m tests.chaos report --minutes 30 --system both

`many` goes on where it was stopped; other sources begin anew.
"""

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from tests.chaos.faults.plan import Plan, plan_of, read_plan
from tests.chaos.namespaces import Way, way_in
from tests.chaos.outcome import Outcome, line_of, report, sums
from tests.chaos.runs import Failed, Series, evidence_of, known_outcomes, make_run, results_file
from tests.chaos.systems import SYSTEMS
from tests.simulation.cluster.defects.planted import DEFECTS

SECONDS = 120
TOLD_EVERY_S = 10.0


def way_of(options: argparse.Namespace) -> Way:
    return Way((), False, "not wanted") if options.no_namespaces else way_in()


def plan_named(options: argparse.Namespace) -> Plan:
    """Returns the plan of a seed, or of a file."""
    if not options.plan.isdigit():
        return read_plan(Path(options.plan).read_text())
    plan = plan_of(int(options.plan), options.seconds, has_links=way_of(options).is_open)
    settings = dict(plan.settings) | dict(each.split("=", 1) for each in options.set)
    return plan._replace(settings=tuple(settings.items()), defect=options.defect)


def one(options: argparse.Namespace) -> int:
    bad = 0
    for system in systems(options.system):
        outcome = make_run(plan_named(options), system, lambda line: print(line, flush=True), way_of(options))
        tell_end(outcome)
        bad += bool(outcome.anomalies)
    return 1 if bad else 0


def tell_end(outcome: Outcome) -> None:
    print(outcome, flush=True)
    for said in outcome.said:
        print(f"  {said}", flush=True)
    if outcome.anomalies:
        print(f"  what explains it: {evidence_of(outcome.system, outcome.seed)}", flush=True)


def write_plan(options: argparse.Namespace) -> int:
    print(plan_named(options).text(), end="")
    return 0


def series_of(options: argparse.Namespace) -> Series:
    return Series(options.minutes, options.seconds, options.first_seed, systems(options.system))


def many(options: argparse.Namespace) -> int:
    series, path = series_of(options), results_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {(outcome.system, outcome.seed) for outcome in known_outcomes(series, path)}
    try:
        for seed in series.seeds():
            for system in series.systems:
                if (system, seed) not in known:
                    make_one_of_many(options, path, system, seed)
    except KeyboardInterrupt:
        print("stopped; the same command goes on with what is left", file=sys.stderr)
    outcomes = known_outcomes(series, path)
    print("\n".join(report(outcomes)))
    return 1 if any(outcome.anomalies for outcome in outcomes) else 0


def make_one_of_many(options: argparse.Namespace, path: Path, system: str, seed: int) -> None:
    series, way, told_at = series_of(options), way_of(options), 0.0

    def tell(line: str) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= TOLD_EVERY_S:
            told_at = time.monotonic()
            print(f"{progress(known_outcomes(series, path), series)}; seed {seed} ({system}): {line}", file=sys.stderr)

    outcome = make_run(plan_of(seed, series.seconds, has_links=way.is_open), system, tell, way)
    tell_end(outcome)
    with path.open("a") as file:
        file.write(line_of(outcome) + "\n")


def progress(outcomes: list[Outcome], series: Series) -> str:
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    wanted = len(series.seeds()) * len(series.systems) * series.seconds / 60
    faults, records = sum(sums(outcomes, "faults").values()), sums(outcomes, "counts").get("acknowledged", 0)
    anomalies = sum(sums(outcomes, "anomalies").values())
    return f"{minutes:.0f} of {wanted:.0f} minutes, {faults:,} faults, {records:,} records, {anomalies:,} anomalies"


def show_report(options: argparse.Namespace) -> int:
    print("\n".join(report(known_outcomes(series_of(options), results_file()))))
    return 0


def systems(name: str) -> tuple[str, ...]:
    return tuple(SYSTEMS) if name == "both" else (name,)


def interrupted(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("one", one, "one run: its story"),
        ("plan", write_plan, "what goes wrong in it"),
        ("many", many, "a series of runs"),
        ("report", show_report, "what came of a series so far, as a table"),
    ):
        command = commands.add_parser(name, help=text)
        if name in ("one", "plan"):
            command.add_argument("plan", metavar="SEED|FILE")
            command.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="for all brokers")
            command.add_argument("--defect", choices=DEFECTS, default="", metavar="NAME", help="planted in all brokers")
        else:
            command.add_argument("--minutes", type=float, default=30, help="of faults (default: %(default)s)")
            command.add_argument("--first-seed", type=int, default=1)
        command.add_argument(
            "--seconds", type=int, default=SECONDS, help="of faults in each run (default: %(default)s)"
        )
        command.add_argument("--no-namespaces", action="store_true", help="break processes only, on loopback")
        command.add_argument("--system", choices=(*SYSTEMS, "both"), default="barnabas")
        command.set_defaults(run=run)
    signal.signal(signal.SIGTERM, interrupted)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
