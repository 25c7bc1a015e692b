"""What a terminal shows: one line that moves on while it runs, then a table of all figures, then the goals."""

import time
from typing import TextIO

from benchmarks.goals import Judgement
from benchmarks.results import CaseResult, Figure, Run

OURS = "barnabas"


class Progress:
    """One line that is written over on a terminal; elsewhere a line whenever the broker changes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._over = stream.isatty()
        self._started = time.monotonic()
        self._last = ""

    def __call__(self, text: str) -> None:
        line = f"{time.monotonic() - self._started:5.0f} s  {text}"
        if self._over:
            self._stream.write(f"\r\x1b[K{line[:150]}")
        elif (session := text.partition(":")[0]) != self._last:
            self._last = session
            self._stream.write(f"{line.partition(':')[0]}\n")
        self._stream.flush()

    def end(self) -> None:
        if self._over:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def heading(run: Run) -> str:
    lines = [f"{key}: {value}" for key, value in run.machine.items()]
    lines += [f"{name}: {about['version']}" for name, about in run.systems.items()]
    return "\n".join([*lines, f"{extent(run)}; medians, with the least and the most in brackets", ""])


def extent(run: Run) -> str:
    """Returns what a reader must know before believing a figure."""
    kind = "a quick run of few cases" if run.quick else "all cases"
    kind = f"interrupted, {kind}" if run.interrupted else kind
    length = "" if run.scale == 1 else f", samples {run.scale:g} times as long as in a full run"
    return f"{kind}, {run.samples} sample{'s' * (run.samples != 1)} of each figure{length}"


def figures(run: Run) -> str:
    systems = list(run.systems)
    header = ["", "", *systems, *(f"vs {name}" for name in systems if name != OURS)]
    rows: list[list[str]] = [header]
    for scenario in run.scenarios:
        rows.append([scenario.title])
        for case in scenario.cases:
            for number, metric in enumerate(case.metrics):
                name = f"  {case.name}" if number == 0 else ""
                rows.append([name, metric, *cells(case, metric, systems)])
            if not case.metrics:
                failures = [*(failed(case, system) for system in systems), *("" for name in systems if name != OURS)]
                rows.append([f"  {case.name}", "", *failures])
    return aligned(rows)


def cells(case: CaseResult, metric: str, systems: list[str]) -> list[str]:
    digits = case.metrics[metric].digits
    found = {system: case.figure(metric, system) for system in systems}
    shown = [
        f"{number(f.median, digits)} ({number(f.least, digits)}–{number(f.most, digits)})"
        if f
        else failed(case, system)
        for system, f in found.items()
    ]
    others = [other for other in systems if other != OURS]
    if not case.metrics[metric].judged:
        return [*shown, *("" for _ in others)]
    return [*shown, *(ratio(found.get(OURS), found[other], case.metrics[metric].more_is_better) for other in others)]


def failed(case: CaseResult, system: str) -> str:
    return "FAILED" if case.failures.get(system) else "–"


def ratio(ours: Figure | None, theirs: Figure | None, more_is_better: bool) -> str:
    """Returns how many times as good as the other we are: below 1 we lose. A "~" says that there is no winner: the
    samples overlap, or there are too few of them, and then it says how many."""
    if ours is None or theirs is None:
        return ""
    better, worse = (ours, theirs) if more_is_better else (theirs, ours)
    if not worse.median:
        return ""
    factor = better.median / worse.median
    shown = f"{factor:.{2 if factor < 10 else 0}f}×"
    if not (ours.is_sure and theirs.is_sure):
        return f"~{shown}, n={min(ours.count, theirs.count)}"
    if ours.least <= theirs.most and theirs.least <= ours.most:
        return f"~{shown}"
    return shown if factor >= 1 else f"{shown} loss"


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def aligned(rows: list[list[str]]) -> str:
    full = [row for row in rows if len(row) > 1]
    widths = [max(len(row[i]) for row in full) for i in range(len(full[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) if i < 2 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        if len(row) > 1
        else f"\n{row[0]}"
        for row in rows
    )


def goals(judged: list[Judgement]) -> str:
    rows = [["goal", "", "here", "holds"], *([j.goal.title, "", j.found, j.verdict] for j in judged)]
    return "\n" + aligned(rows)
