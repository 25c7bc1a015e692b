"""Bar charts of a run as SVG, written by hand: a plot is sixty rectangles, and matplotlib would be 60 MB for them."""

import math
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import CaseResult, Figure, Run
from benchmarks.svg import Drawing

COLOURS = ("#c2410c", "#475569", "#0f766e", "#7c3aed")
WIDTH, RIGHT, BAR, GAP, TOP = 860, 120, 13, 10, 74
LETTER = 7.0  # how wide one is at most, on average


@dataclass(frozen=True)
class Plot:
    name: str
    title: str
    metric: str
    scenarios: tuple[str, ...]
    log: bool = False  # latencies differ by powers of ten


PLOTS = (
    Plot("start", "Start to the first answer", "start ms", ("start",)),
    Plot("memory", "Resident memory", "RSS MB", ("memory",)),
    Plot("produce", "Produce through librdkafka", "produce MB/s", ("throughput", "partitions")),
    Plot("produce-cpu", "Produce: CPU of the broker", "produce CPU s/GB", ("throughput", "partitions"), log=True),
    Plot("consume", "Consume through librdkafka", "consume MB/s", ("throughput", "partitions")),
    Plot("consume-cpu", "Consume: CPU of the broker", "consume CPU s/GB", ("throughput", "partitions"), log=True),
    Plot(
        "requests",
        "Requests of one record: CPU of the broker",
        "CPU µs/request",
        ("requests", "scaling", "many-partitions"),
    ),
    Plot("fsync", "An fsync before every acknowledgement", "acks/s", ("fsync",), log=True),
    Plot("latency-p50", "Latency, median", "p50 ms", ("latency", "end-to-end", "fsync"), log=True),
    Plot("latency-p99", "Latency, 99 of 100", "p99 ms", ("latency", "end-to-end", "fsync"), log=True),
)


def draw(run: Run, folder: Path) -> list[Path]:
    written = []
    for plot in PLOTS:
        if cases := _cases(run, plot):
            path = folder / f"{plot.name}.svg"
            path.write_text(_chart(plot, cases, list(run.systems)))
            written.append(path)
    return written


def _cases(run: Run, plot: Plot) -> list[tuple[str, CaseResult]]:
    return [
        (case.name if len(plot.scenarios) == 1 else f"{scenario.name}: {case.name}", case)
        for scenario in run.scenarios
        if scenario.name in plot.scenarios
        for case in scenario.cases
        if any(case.figure(plot.metric, system) for system in run.systems)
    ]


class Axis:
    """The scale from values to places. A logarithmic axis begins at a power of ten below the least value, a linear one
    at 0."""

    def __init__(self, values: list[float], log: bool, left: float) -> None:
        self.left = left
        most = max(values) or 1.0
        self.log = log and min(values) > 0
        self.first = math.floor(math.log10(min(values))) if self.log else 0
        self.last = math.ceil(math.log10(most)) if self.log else most * 1.02
        if self.log and self.last == self.first:
            self.last += 1

    def place(self, value: float) -> float:
        position = math.log10(max(value, 10.0**self.first)) if self.log else value
        return self.left + (position - self.first) / (self.last - self.first) * (WIDTH - self.left - RIGHT)

    def ticks(self) -> list[float]:
        if self.log:
            return [10.0**power for power in range(int(self.first), int(self.last) + 1)]
        step = 10.0 ** math.floor(math.log10(self.last))
        step = next(step * part for part in (0.2, 0.5, 1, 2) if self.last / (step * part) <= 6)
        return [step * i for i in range(int(self.last / step) + 1)]


def _chart(plot: Plot, cases: list[tuple[str, CaseResult]], systems: list[str]) -> str:
    figures = [[case.figure(plot.metric, system) for system in systems] for _, case in cases]
    axis = Axis(
        [value for row in figures for f in row if f for value in (f.least, f.most)], plot.log, labels_width(cases)
    )
    bottom = TOP + len(cases) * (len(systems) * BAR + GAP)
    drawing = Drawing(WIDTH, bottom + 34)
    better = "more" if cases[0][1].metrics[plot.metric].more_is_better else "less"
    drawing.text(16, 26, plot.title, size=16)
    drawing.text(16, 46, f"{plot.metric}, {better} is better{'; logarithmic' if axis.log else ''}", fill="#555")
    for number, system in enumerate(systems):
        drawing.rectangle(WIDTH - 110, 16 + number * 18, 12, 12, COLOURS[number % len(COLOURS)])
        drawing.text(WIDTH - 92, 27 + number * 18, system)
    for tick in axis.ticks():
        drawing.line(axis.place(tick), TOP - 8, axis.place(tick), bottom)
        drawing.text(axis.place(tick), bottom + 18, f"{tick:,.6g}", size=11, anchor="middle", fill="#555")
    y = float(TOP)
    for (name, _), row in zip(cases, figures):
        drawing.text(axis.left - 8, y + len(systems) * BAR / 2 + 4, name, anchor="end")
        for number, (system, figure) in enumerate(zip(systems, row)):
            _bar(drawing, axis, y, figure, COLOURS[number % len(COLOURS)], f"{name}, {system}")
            y += BAR
        y += GAP
    return str(drawing)


def labels_width(cases: list[tuple[str, CaseResult]]) -> float:
    return 24 + LETTER * max(len(name) for name, _ in cases)


def _bar(drawing: Drawing, axis: Axis, y: float, figure: Figure | None, colour: str, title: str) -> None:
    if figure is None:
        drawing.text(axis.left + 4, y + BAR - 3, "failed or not measured", size=11, fill="#b91c1c")
        return
    shown = f"{figure.median:,.0f}" if figure.median >= 100 else f"{figure.median:.3g}"
    label = f"{title}: {figure.median:,.4g} ({figure.least:,.4g} to {figure.most:,.4g})"
    drawing.rectangle(axis.left, y, axis.place(figure.median) - axis.left, BAR - 2, colour, label)
    middle = y + (BAR - 2) / 2
    drawing.line(axis.place(figure.least), middle, axis.place(figure.most), middle, stroke="#111", width=1.5)
    drawing.text(max(axis.place(figure.most), axis.place(figure.median)) + 5, y + BAR - 3, shown, size=11)
