"""What came of a run: what was done to the brokers, how much was checked, what was found."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.output import plural


class Outcome(NamedTuple):
    system: str
    seed: int
    seconds: int
    faults: dict[str, int]
    """How many of each kind."""
    counts: dict[str, int]
    """How much was sent, acknowledged, read, committed and compared."""
    anomalies: dict[str, int]
    said: list[str]
    """What was found, in sentences; and what the clients met."""
    errors: dict[str, int]
    left_out: str
    """Which faults this machine does not allow, and why."""

    def __str__(self) -> str:
        faults = sum(self.faults.values())
        anomalies = ", ".join(f"{count:,} {slug}" for slug, count in self.anomalies.items()) or "no anomaly"
        sent, acknowledged = self.counts.get("sent", 0), self.counts.get("acknowledged", 0)
        what = f"{plural(faults, 'fault')}, {acknowledged:,} of {sent:,} records acknowledged, {anomalies}"
        return f"seed {self.seed} ({self.system}): {what}"


def line_of(outcome: Outcome) -> str:
    return json.dumps(outcome._asdict())


def outcome_of(line: str) -> Outcome:
    return Outcome(**json.loads(line))


def read_outcomes(path: Path) -> Iterator[Outcome]:
    """Yields what is known already. The last line may be half written."""
    if path.is_file():
        for line in path.read_text().splitlines():
            try:
                yield outcome_of(line)
            except (ValueError, TypeError):
                continue


def sums(outcomes: Iterable[Outcome], field: str) -> dict[str, int]:
    """Returns the sum of a field of all outcomes, by its keys."""
    total: dict[str, int] = {}
    for outcome in outcomes:
        counted: dict[str, Any] = getattr(outcome, field)
        for name, count in counted.items():
            total[name] = total.get(name, 0) + count
    return total


def report(outcomes: list[Outcome]) -> Iterator[str]:
    """Yields the lines of a table: the systems side by side."""
    systems = list(dict.fromkeys(outcome.system for outcome in outcomes))
    groups = [[outcome for outcome in outcomes if outcome.system == system] for system in systems]
    yield f"| | {' | '.join(systems)} |"
    yield f"|---|{'--:|' * len(systems)}"
    rows = {"seeds": [str(len(group)) for group in groups]}
    rows["minutes of faults"] = [f"{sum(each.seconds for each in group) / 60:.1f}" for group in groups]
    for field, word in (("faults", ""), ("counts", ""), ("anomalies", "**{}**")):
        by_system = [sums(group, field) for group in groups]
        if field == "faults":
            rows["faults"] = [f"{sum(counts.values()):,}" for counts in by_system]
        for name in dict.fromkeys(name for counts in by_system for name in counts):
            rows[(word or "{}").format(name)] = [f"{counts.get(name, 0):,}" for counts in by_system]
        if field == "anomalies":
            rows["anomalies"] = [f"{sum(counts.values()):,}" for counts in by_system]
    for name, cells in rows.items():
        yield f"| {name} | {' | '.join(cells)} |"
