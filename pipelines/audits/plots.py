"""Plots as SVG text: bars over time, bars by name, a histogram and a grid. Colours come from the page they stand in."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

NARROW, WIDE = 520, 1080
"""The widths in which plots are shown, so that letters have the size that the page gives them."""
HEIGHT = 250
LEFT, RIGHT, TOP, BOTTOM = 72, 12, 12, 46
LABEL = 80
"""The width of a time."""

Text = Callable[[float], str]

MINUTE_MS, DAY_MS = 60_000, 86_400_000


class Bar(NamedTuple):
    label: str
    value: float
    hint: str


def svg(title: str, width: int, height: float, *parts: str) -> str:
    body = "".join(parts)
    return f'<svg viewBox="0 0 {width} {height:g}" role="img" aria-label="{escape(title)}">{body}</svg>'


def steps(largest: float, *, binary: bool = False, wanted: int = 4) -> list[float]:
    """Returns 0 and some round numbers, the last not below `largest`; round in KiB or MiB for bytes."""
    unit = 1024.0 ** int(math.log(largest, 1024)) if binary and largest >= 1 else 1.0
    rough = max(largest / unit, 1e-9) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough * 0.999999)
    if unit == 1.0:
        step = max(1.0, step)  # nobody has half a record
    return [step * unit * n for n in range(math.ceil(largest / unit / step - 1e-9) + 1)] if largest else [0.0, 1.0]


def _frame(marks: Sequence[float], text: Text, unit: str) -> str:
    parts = []
    for mark in marks:
        y = _y(mark, marks[-1])
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{NARROW - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text(mark))}</text>')
    place = f"translate(12 {(TOP + HEIGHT - BOTTOM) / 2:g}) rotate(-90)"
    parts.append(f'<text class="axis" text-anchor="middle" transform="{place}">{escape(unit)}</text>')
    return "".join(parts)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _column(x: float, width: float, value: float, top: float, hint: str) -> str:
    y = _y(value, top)
    # What is there must be seen, however little it is.
    height = max(HEIGHT - BOTTOM - y, 1.0) if value else 0.0
    shape = f'x="{x:.2f}" y="{HEIGHT - BOTTOM - height:.2f}" width="{width:.2f}" height="{height:.2f}"'
    return f'<rect class="bar" {shape}><title>{escape(hint)}</title></rect>'


def over_time(
    title: str, values: dict[int, float], interval_ms: int, text: Text, unit: str, *, binary: bool = False
) -> str:
    """Draws a bar for each interval from the first to the last; intervals without records are empty."""
    first, last = min(values), max(values)
    count = (last - first) // interval_ms + 1
    marks = steps(max(values.values()), binary=binary)
    slot = (NARROW - LEFT - RIGHT) / count
    gap = min(slot * 0.2, 2.0)
    bars = [
        _column(
            LEFT + (start - first) / interval_ms * slot + gap / 2,
            slot - gap,
            value,
            marks[-1],
            f"{moment_text(start, interval_ms, whole=True)}: {text(value)} {unit}",
        )
        for start, value in sorted(values.items())
    ]
    return svg(title, NARROW, HEIGHT, _frame(marks, text, unit), *bars, _time_axis(first, count, interval_ms))


def _time_axis(first: int, count: int, interval_ms: int) -> str:
    slot = (NARROW - LEFT - RIGHT) / count
    every = max(1, math.ceil(count / 5))
    bottom = HEIGHT - BOTTOM
    parts = [f'<line class="base" x1="{LEFT}" x2="{NARROW - RIGHT}" y1="{bottom}" y2="{bottom}"/>']
    for n in range(0, count, every):
        x = LEFT + n * slot
        label = moment_text(first + n * interval_ms, interval_ms)
        parts.append(f'<line class="base" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
        if x < NARROW - LABEL:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}">{escape(label)}</text>')
    middle = (LEFT + NARROW - RIGHT) / 2
    name = f"timestamp (UTC), in steps of {length_text(interval_ms)}"
    parts.append(f'<text class="axis" text-anchor="middle" x="{middle:g}" y="{HEIGHT - 6}">{name}</text>')
    return "".join(parts)


def histogram(title: str, bars: Sequence[Bar], text: Text, unit: str, axis: str) -> str:
    marks = steps(max(bar.value for bar in bars))
    slot = (NARROW - LEFT - RIGHT) / len(bars)
    gap = min(slot * 0.15, 6.0)
    bottom = HEIGHT - BOTTOM
    every = math.ceil(len(bars) / 8)
    parts = [_frame(marks, text, unit)]
    for n, bar in enumerate(bars):
        x = LEFT + n * slot
        parts.append(_column(x + gap / 2, slot - gap, bar.value, marks[-1], bar.hint))
        if n % every == 0:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}">{escape(bar.label)}</text>')
    parts.append(f'<line class="base" x1="{LEFT}" x2="{NARROW - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    middle = (LEFT + NARROW - RIGHT) / 2
    parts.append(f'<text class="axis" text-anchor="middle" x="{middle:g}" y="{HEIGHT - 6}">{escape(axis)}</text>')
    return svg(title, NARROW, HEIGHT, *parts)


def by_name(title: str, bars: Sequence[Bar], text: Text, *, width: int = NARROW) -> str:
    """Draws horizontal bars, each with its name before it and its value after it."""
    row, names = 24, width // 4
    largest = max((bar.value for bar in bars), default=0) or 1
    room = names // 7
    parts = []
    for n, bar in enumerate(bars):
        y = n * row
        length = max((width - names - 130) * bar.value / largest, 1.0)
        label = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…"
        parts.append(f"<g><title>{escape(bar.hint)}</title>")
        parts.append(f'<text class="name" x="{names - 10}" y="{y + 16}" text-anchor="end">{escape(label)}</text>')
        parts.append(f'<rect class="bar" x="{names}" y="{y + 4}" width="{length:.1f}" height="{row - 8}" rx="2"/>')
        parts.append(
            f'<text class="tick" x="{names + length + 8:.1f}" y="{y + 16}">{escape(text(bar.value))}</text></g>'
        )
    return svg(title, width, max(len(bars), 1) * row, *parts)


def grid(title: str, cells: dict[tuple[int, int], float], names: dict[int, str], interval_ms: int, text: Text) -> str:
    """Draws a row for each partition and a column for each interval; the darker, the more."""
    starts = [start for start, _ in cells]
    first, count = min(starts), (max(starts) - min(starts)) // interval_ms + 1
    largest = max(cells.values()) or 1
    row = 18 if len(names) <= 24 else 9
    slot = (WIDE - LEFT - RIGHT) / count
    rows = {number: n for n, number in enumerate(names)}
    parts = []
    for number, name in names.items():
        y = rows[number] * row
        parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + row - 5}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="empty" x="{LEFT}" y="{y + 1}" width="{WIDE - LEFT - RIGHT}" height="{row - 2}"/>')
    for (start, number), value in sorted(cells.items()):
        x, y = LEFT + (start - first) / interval_ms * slot, rows[number] * row + 1
        shade = 0.15 + 0.85 * math.sqrt(value / largest)
        hint = f"{moment_text(start, interval_ms, whole=True)}, {names[number]}: {text(value)}"
        shape = f'x="{x:.2f}" y="{y}" width="{max(slot - 0.5, 0.5):.2f}" height="{row - 2}"'
        parts.append(f'<rect class="bar" {shape} opacity="{shade:.2f}"><title>{escape(hint)}</title></rect>')
    every = max(1, math.ceil(count / 10))
    bottom = len(names) * row
    for n in range(0, count, every):
        label, x = moment_text(first + n * interval_ms, interval_ms), LEFT + n * slot
        if x < WIDE - LABEL:
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}">{escape(label)}</text>')
    return svg(title, WIDE, bottom + 24, *parts)


def moment_text(ms: int, interval_ms: int, *, whole: bool = False) -> str:
    """Shows a time as exactly as the interval requires."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    if interval_ms >= DAY_MS:
        return moment.strftime("%Y-%m-%d")
    if interval_ms >= MINUTE_MS:
        return moment.strftime("%Y-%m-%d %H:%M" if whole else "%m-%d %H:%M")
    return moment.strftime("%Y-%m-%d %H:%M:%S" if whole else "%H:%M:%S")


def length_text(ms: int) -> str:
    for unit, name in ((DAY_MS, "day"), (3_600_000, "hour"), (MINUTE_MS, "minute"), (1000, "second")):
        if ms >= unit and ms % unit == 0:
            number = ms // unit
            return f"{number} {name}" if number == 1 else f"{number} {name}s"
    return f"{ms} ms"
