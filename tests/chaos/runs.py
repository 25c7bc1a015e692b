"""Makes runs, one after the other, and keeps what came of each: a series that was stopped goes on where it was."""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.chaos.namespaces import ROOT, start_inside, way_in
from tests.chaos.outcome import Outcome, read_outcomes
from tests.chaos.plan import Plan, plan_of
from tests.simulation.cluster.many import sources

RESULTS = ROOT / ".cache" / "chaos"
RATE = 300.0
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


def planned(seed: int, seconds: int) -> Plan:
    return plan_of(seed, seconds, has_links=way_in().is_open)


def evidence_of(system: str, seed: int) -> Path:
    return RESULTS / f"{system}-{seed}"


def make_run(plan: Plan, system: str, tell: Tell) -> Outcome:
    """Makes one run in a process of its own. However that or this one ends, nothing is left of it."""
    way = way_in()
    with tempfile.TemporaryDirectory(prefix="barnabas-chaos-") as folder:
        plan_file, outcome_file = Path(folder) / "plan.json", Path(folder) / "outcome.jsonl"
        plan_file.write_text(plan.text())
        evidence = evidence_of(system, plan.seed)
        why_not = "" if way.is_open else f"links and disks: no namespaces here ({way.why_not})"
        words = (str(plan_file), system, str(RATE), str(outcome_file), str(evidence), why_not)
        process = start_inside("tests.chaos.inside", *words, way=way)
        try:
            assert process.stdout is not None
            last = ""
            for line in process.stdout:
                last = line.rstrip()
                tell(last)
            status = process.wait()
        finally:
            _end(process)
        outcomes = [*read_outcomes(outcome_file)]
    if status or not outcomes:
        raise Failed(f"seed {plan.seed} ({system}) ended with {status} after {last!r}; see {evidence}")
    return outcomes[0]


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
    return RESULTS / f"outcomes-{sources()}.jsonl"


def known_outcomes(series: Series, path: Path) -> list[Outcome]:
    """Returns what is known of a series already, each run once."""
    known = {(outcome.system, outcome.seed, outcome.seconds): outcome for outcome in read_outcomes(path)}
    wanted = ((system, seed, series.seconds) for seed in series.seeds() for system in series.systems)
    return [known[key] for key in wanted if key in known]
