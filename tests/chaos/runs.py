"""Makes runs, one after the other, and keeps what came of each: a series that was stopped goes on where it was."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.chaos.faults.plan import Plan
from tests.chaos.namespaces import ROOT, Way, start_inside
from tests.chaos.outcome import Outcome, outcome_of, read_outcomes
from tests.simulation.cluster.many import sources

RESULTS = ROOT / ".cache" / "chaos"
JUDGED = ("barnabas", "base", "broker", "protocol", "replication", "storage", "tests/chaos")
RATE = 450.0
"""Records a second, of all producers together."""

Tell = Callable[[str], None]


class Failed(Exception):
    """A run that could not be made: it says nothing about the brokers."""


class Series(NamedTuple):
    """How many minutes of faults, in runs of so many seconds, from this seed on."""

    minutes: float
    seconds: int
    first_seed: int
    systems: tuple[str, ...]

    def seeds(self) -> range:
        count = max(round(60 * self.minutes / self.seconds), 1)
        return range(self.first_seed, self.first_seed + count)


def evidence_of(system: str, seed: int) -> Path:
    return RESULTS / f"{system}-{seed}"


def make_run(plan: Plan, system: str, tell: Tell, way: Way) -> Outcome:
    """Makes one run in a process of its own. However that or this one ends, nothing is left of it but what explains
    anomalies."""
    evidence = evidence_of(system, plan.seed)
    why_not = "" if way.is_open else f"links and disks: no namespaces ({way.why_not})"
    process = start_inside("tests.chaos.inside", plan.text(), system, str(RATE), str(evidence), why_not, way=way)
    outcome, last = None, ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("!"):
                outcome = outcome_of(line[1:])
            else:
                last = line.rstrip()
                tell(last)
        status = process.wait()
    finally:
        _end(process)
    if outcome is None:
        raise Failed(f"seed {plan.seed} ({system}) ended with {status} after {last!r}; see {evidence}")
    return outcome


def _end(process: "subprocess.Popen[str]") -> None:
    """Closes the pipe by whose end the run knows that it is over."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def results_file() -> Path:
    return RESULTS / f"outcomes-{sources(JUDGED)}.jsonl"


def known_outcomes(series: Series, path: Path) -> list[Outcome]:
    """Returns what is known of a series already, each run once."""
    known = {(outcome.system, outcome.seed, outcome.seconds): outcome for outcome in read_outcomes(path)}
    wanted = ((system, seed, series.seconds) for seed in series.seeds() for system in series.systems)
    return [known[key] for key in wanted if key in known]
