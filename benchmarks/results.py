"""Figures of a run: one list of samples per scenario, case, metric and system. This is what the JSON holds."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.scenario import Case, Figures, Scenario

ENOUGH_SAMPLES = 4


@dataclass
class MetricResult:
    more_is_better: bool
    digits: int
    judged: bool = True
    samples: dict[str, list[float]] = field(default_factory=dict)  # by system


@dataclass
class CaseResult:
    name: str
    metrics: dict[str, MetricResult] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)  # by system: why a sample has no figure

    def figure(self, metric: str, system: str) -> "Figure | None":
        """Returns the figure, or None: a system that failed even once has no figure to win with."""
        if self.failures.get(system) or metric not in self.metrics:
            return None
        samples = self.metrics[metric].samples.get(system)
        return Figure(median(samples), min(samples), max(samples), len(samples)) if samples else None

    def samples_most(self) -> int:
        return max((len(taken) for metric in self.metrics.values() for taken in metric.samples.values()), default=0)


@dataclass
class ScenarioResult:
    name: str
    title: str
    method: str
    settings: dict[str, str]
    cases: list[CaseResult] = field(default_factory=list)


@dataclass
class Run:
    started: str
    quick: bool
    samples: int
    scale: float
    machine: dict[str, str]
    systems: dict[str, dict[str, str]]  # name: version, command, settings
    seconds: float = 0.0
    interrupted: bool = False
    scenarios: list[ScenarioResult] = field(default_factory=list)

    def add(self, scenario: Scenario, case: Case, system: str, figures: Figures) -> None:
        result = self._case(scenario, case)
        for metric in scenario.metrics:
            if metric.name in figures:
                empty = MetricResult(metric.more_is_better, metric.digits, metric.judged)
                entry = result.metrics.setdefault(metric.name, empty)
                entry.samples.setdefault(system, []).append(figures[metric.name])

    def fail(self, scenario: Scenario, case: Case, system: str, reason: str) -> None:
        self._case(scenario, case).failures.setdefault(system, []).append(reason)

    def failures(self) -> list[str]:
        return [
            f"{scenario.name}, {case.name}, {system}: {reason}"
            for scenario in self.scenarios
            for case in scenario.cases
            for system, reasons in case.failures.items()
            for reason in dict.fromkeys(reasons)
        ]

    def case(self, scenario: str, case: str) -> CaseResult | None:
        found = (entry for entry in self.scenarios if entry.name == scenario)
        return next((result for entry in found for result in entry.cases if result.name == case), None)

    def _case(self, scenario: Scenario, case: Case) -> CaseResult:
        entry = next((entry for entry in self.scenarios if entry.name == scenario.name), None)
        if entry is None:
            entry = ScenarioResult(scenario.name, scenario.title, scenario.method, dict(scenario.settings))
            self.scenarios.append(entry)
        result = next((result for result in entry.cases if result.name == case.name), None)
        if result is None:
            entry.cases.append(result := CaseResult(case.name))
        return result


@dataclass(frozen=True)
class Figure:
    median: float
    least: float
    most: float
    count: int  # of samples

    @property
    def is_sure(self) -> bool:
        """Says whether there are enough samples for their ranges to mean something."""
        return self.count >= ENOUGH_SAMPLES


def save(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    half.write_text(json.dumps(asdict(run), indent=1) + "\n")
    half.rename(path)


def read(path: Path) -> Run:
    run = Run(**json.loads(path.read_text()))
    run.scenarios = [_scenario(entry) for entry in run.scenarios]
    return run


def _scenario(entry: object) -> ScenarioResult:
    assert isinstance(entry, dict)
    cases = [
        CaseResult(
            case["name"], {name: MetricResult(**metric) for name, metric in case["metrics"].items()}, case["failures"]
        )
        for case in entry["cases"]
    ]
    return ScenarioResult(entry["name"], entry["title"], entry["method"], entry["settings"], cases)
