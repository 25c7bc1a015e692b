"""A run of many brokers as a text that can be read, kept, edited and made shorter: its settings, and what goes wrong.

A seed draws a plan. All that is drawn later, by whatever happens, comes from the seed and from the number of the fault
that happens: without one of the faults the others do what they did.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.simulation.cluster.settings import KINDS, Settings, drawn
from tests.simulation.scenarios.faults import draw_plan
from tests.simulation.scheduler import random_of


class PlannedFault(NamedTuple):
    number: int
    """Its randomness is that of this number."""
    at_ms: int
    kind: str
    hits: str = ""
    """Whom: `broker 2`, `controller`, `leader of flushed-0`, `follower of flushed-0`. Drawn if nothing is said."""


class Plan(NamedTuple):
    seed: int
    settings: Settings
    faults: tuple[PlannedFault, ...] = ()
    why: str = ""
    """What it is kept for."""

    def text(self) -> str:
        """Returns the plan as JSON. Settings that are as usual are left out, and so is what a fault leaves open."""
        usual = Settings()
        settings = {key: value for key, value in self.settings._asdict().items() if value != getattr(usual, key)}
        faults = [{key: value for key, value in fault._asdict().items() if value != ""} for fault in self.faults]
        head = json.dumps({"why": self.why, "seed": self.seed, "settings": settings}, indent=2)
        rows = ",\n".join(f"    {json.dumps(fault)}" for fault in faults)
        return f'{head[:-2]},\n  "faults": [\n{rows}\n  ]\n}}\n'


def plan_of(seed: int, settings: Settings | None = None) -> Plan:
    """Draws what goes wrong with these settings, or with those that the seed draws."""
    settings = drawn(seed) if settings is None else settings
    last_ms = settings.calm_ms + settings.faults_ms
    faults = draw_plan(
        random_of(seed, "faults", "plan"),
        settings.kinds,
        count=settings.faults if settings.kinds else 0,
        between_ms=(settings.calm_ms, last_ms),
    )
    in_time = [fault for fault in faults if fault.at_ms < last_ms]
    return Plan(seed, settings, tuple(PlannedFault(number, *fault) for number, fault in enumerate(in_time)))


def read_plan(path: Path) -> Plan:
    """Raises ValueError with what is wrong with the file."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        settings = Settings(**found["settings"])
        settings = settings._replace(kinds=tuple(settings.kinds))
        faults = tuple(PlannedFault(**fault) for fault in found["faults"])
        plan = Plan(found["seed"], settings, faults, found.get("why", ""))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no plan of a simulation: {error}") from error
    unknown = {fault.kind for fault in plan.faults} - set(KINDS)
    if unknown:
        raise ValueError(f"{path} has faults of unknown kinds: {', '.join(sorted(unknown))}")
    return plan
