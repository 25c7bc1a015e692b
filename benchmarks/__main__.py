"""`python -m benchmarks`: Barnabas and Apache Kafka side by side, on this machine, in one run. `make bench`."""

import argparse
import contextlib
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import generator, goals, machine, network, page, plots, results, table
from benchmarks.processes import end_in_order
from benchmarks.runner import Plan, take_samples
from benchmarks.scenario import Scenario
from benchmarks.scenarios import SCENARIOS
from benchmarks.systems import DATA, SYSTEMS, System

RESULTS = Path(__file__).resolve().parent / "results"
NEEDED_BYTES, NEEDED_BYTES_QUICK = 20e9, 4e9


def main(words: list[str] | None = None) -> int:
    options = arguments(words)
    if options.list:
        print("\n".join(f"{scenario.name:16} {scenario.title}" for scenario in SCENARIOS))
        return 0
    if reason := generator.missing():
        return complain(reason)
    systems, scenarios = chosen_systems(options.systems), chosen_scenarios(options.only, options.quick)
    options.folder.mkdir(parents=True, exist_ok=True)
    if reason := machine.lacking_space(options.folder, NEEDED_BYTES_QUICK if options.quick else NEEDED_BYTES):
        return complain(reason)
    machine.allow_open_files()
    end_in_order()
    own_network = network.enter_own()
    run = results.Run(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=options.quick,
        samples=options.samples or (3 if options.quick else 5),
        scale=options.scale,
        machine=machine.described(options.folder, own_network),
        systems={system.name: {"version": system.version(), **system.described()} for system in systems},
    )
    print(table.heading(run))
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-", dir=options.folder) as folder:
        program = generator.build()
        plan = Plan(scenarios, systems, run.samples, options.scale, options.quick, Path(folder), program)
        progress = table.Progress(sys.stderr)
        try:
            take_samples(plan, run, progress)
        except KeyboardInterrupt:
            run.interrupted = True
        with contextlib.suppress(OSError):  # the terminal may be what went away
            progress.end()
    if not run.scenarios:
        return complain("interrupted before the first figure; nothing was written", 130)
    code = report(run, options.json)
    if run.interrupted:
        return complain("interrupted: these are the figures until then", 130)
    if not (options.quick or options.only or len(systems) == 1):
        print(page.publish(options.json))
    return code


def report(run: results.Run, path: Path) -> int:
    results.save(run, path)
    drawn = plots.draw(run, path.parent)
    print(table.figures(run))
    print(table.goals(goals.judge(run)))
    written = ", ".join([str(path), *(plot.name for plot in drawn)])
    print(f"\nwritten: {written}; `python -m benchmarks.page` puts them into docs/, as a full run does by itself")
    for failure in run.failures():
        print(f"FAILED {failure}")
    return 1 if run.failures() else 0


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--quick", action="store_true", help="two minutes at most: few scenarios, small, three samples")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="may be given more than once")
    parser.add_argument("--systems", default="barnabas,kafka", help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=0, help="of each figure (default 5; quick 3)")
    parser.add_argument("--scale", type=float, default=0.0, help="length of a sample (default 1; quick 0.3)")
    parser.add_argument(
        "--json", type=Path, default=RESULTS / "latest.json", help="default: benchmarks/results/latest.json"
    )
    parser.add_argument("--folder", type=Path, default=DATA, help="where the brokers keep their data")
    parser.add_argument("--list", action="store_true", help="the scenarios")
    options = parser.parse_args(words)
    options.scale = options.scale or (0.3 if options.quick else 1.0)
    return options


def chosen_scenarios(names: list[str], quick: bool) -> list[Scenario]:
    known = {scenario.name: scenario for scenario in SCENARIOS}
    if unknown := set(names) - set(known):
        sys.exit(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    found = [known[name] for name in names] if names else list(SCENARIOS)
    return [scenario for scenario in found if not quick or any(case.quick for case in scenario.cases)]


def chosen_systems(names: str) -> list[type[System]]:
    found = []
    for name in names.split(","):
        if name not in SYSTEMS:
            sys.exit(f"no such system: {name}; there are {', '.join(SYSTEMS)}")
        if reason := SYSTEMS[name].missing():
            sys.exit(f"{reason}; or leave it out with --systems")
        found.append(SYSTEMS[name])
    return found


def complain(reason: str, code: int = 1) -> int:
    print(reason, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
