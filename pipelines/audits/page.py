"""Writes a report as one HTML page that needs no other file: no script, no font, no network."""

from collections import defaultdict
from collections.abc import Sequence
from html import escape

from barnabas.pipelines.audits import plots
from barnabas.pipelines.audits.report import Finding, Report, bytes_text, example_text, time_text, verdict
from barnabas.pipelines.audits.style import STYLE

PARTITIONS_MAX = 40


def as_html(report: Report) -> str:
    name = escape(report.subject)
    kind = "good" if not report.problems else "bad"
    body = [
        f"<h1>{name}</h1>",
        f'<p class="soft">{_subtitle(report)}</p>',
        f'<p class="verdict {kind}">{escape(verdict(report))}</p>',
        _figures(report),
        *(_finding(each) for each in report.problems),
        *(_finding(each) for each in report.notes),
    ]
    if report.records:
        body.append(f'<div class="plots">{"".join(_plots(report))}</div>')
    body.append(_partition_table(report))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Audit of {name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body><main>{''.join(body)}</main></body></html>\n"
    )


def _subtitle(report: Report) -> str:
    parts = [f"Audit of {time_text(report.written_ms // 1000 * 1000)} UTC"]
    if report.copy is not None:
        parts.append(f"compared with {escape(report.copy)}, {escape(report.matched_by or '')}")
    return " · ".join(parts)


def _figures(report: Report) -> str:
    times = [each.first_ms for each in report.partitions if each.first_ms is not None]
    times += [each.last_ms for each in report.partitions if each.last_ms is not None]
    without = sum(each.records_without_key for each in report.partitions)
    figures = [
        (f"{report.records:,}", "records"),
        (bytes_text(report.bytes), "keys, values, headers"),
        (f"{len(report.partitions):,}", f"partitions; the largest {report.imbalance:.2f} × the mean"),
        (f"{report.keys:,}", f"keys; {without:,} records without"),
        (bytes_text(report.sizes.get("p50", 0)), f"median record; p99 {bytes_text(report.sizes.get('p99', 0))}"),
        (plots.length_text(_round_span(times)), f"from {time_text(min(times, default=None))}"),
    ]
    return '<div class="figures">' + "".join(f"<div><b>{a}</b><span>{b}</span></div>" for a, b in figures) + "</div>"


def _round_span(times: Sequence[int]) -> int:
    """Shows a span in a unit of which it has at least two."""
    span = max(times, default=0) - min(times, default=0)
    unit = next((unit for unit in (86_400_000, 3_600_000, 60_000, 1000) if span >= 2 * unit), 1)
    return round(span / unit) * unit


def _finding(each: Finding) -> str:
    tag, kind = ("note", "finding note") if each.is_note else ("finding", "finding")
    examples = "".join(f"<li>{escape(example_text(example))}</li>" for example in each.examples)
    how = "" if each.is_note else ' open=""'
    first = "" if each.count <= len(each.examples) else f"the first {len(each.examples)} "
    shown = f"<details{how}><summary>{first}examples</summary><ul>{examples}</ul></details>"
    return (
        f'<section class="{kind}"><h2><span class="tag">{tag}</span>{escape(each.headline)}</h2>'
        f"<p>{escape(each.meaning)}</p>{shown if examples else ''}</section>"
    )


def _plots(report: Report) -> list[str]:
    sections = []
    if report.intervals:
        records: dict[int, float] = defaultdict(float)
        sizes: dict[int, float] = defaultdict(float)
        for each in report.intervals:
            records[each.start_ms] += each.records
            sizes[each.start_ms] += each.bytes
        step = report.interval_ms
        sections += [
            _section("Records over time", plots.over_time("Records over time", records, step, _number, "records")),
            _section(
                "Bytes over time", plots.over_time("Bytes over time", sizes, step, bytes_text, "bytes", binary=True)
            ),
            _section("Bytes over time, by partition", _grid(report), _about_grid(report), wide=True),
        ]
    sections.append(_section("Record sizes", _sizes(report)))
    if report.top_keys:
        sections.append(_section("Most frequent keys", _keys(report)))
    return [*sections, _section("Bytes by partition", _by_partition(report), wide=True)]


def _section(title: str, plot: str, more: str = "", *, wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    return f"<section{kind}><h2>{escape(title)}</h2>{plot}{more}</section>"


def _about_grid(report: Report) -> str:
    largest = bytes_text(max(each.bytes for each in report.intervals))
    text = f"The darkest: {largest} in {plots.length_text(report.interval_ms)}."
    if report.outside_intervals:
        text += f" Left out: {report.outside_intervals:,} records whose timestamps are far from all others."
    return f'<p class="soft">{text}</p>'


def _grid(report: Report) -> str:
    numbers = sorted({each.partition for each in report.intervals}, key=lambda number: (number < 0, number))
    names = {number: "others" if number < 0 else f"p {number}" for number in numbers}
    cells = {(each.start_ms, each.partition): float(each.bytes) for each in report.intervals}
    return plots.grid("Bytes over time, by partition", cells, names, report.interval_ms, bytes_text)


def _by_partition(report: Report) -> str:
    largest = sorted(report.partitions, key=lambda each: each.bytes, reverse=True)[:PARTITIONS_MAX]
    bars = [
        plots.Bar(
            f"partition {each.partition}",
            each.bytes,
            f"partition {each.partition}: {each.records:,} records, {bytes_text(each.bytes)}",
        )
        for each in sorted(largest, key=lambda each: each.partition)
    ]
    return plots.by_name(
        "Bytes by partition",
        bars,
        lambda value: f"{bytes_text(value)}, {value / (report.bytes or 1):.1%}",
        width=plots.WIDE,
    )


def _sizes(report: Report) -> str:
    bars = [
        plots.Bar(
            bytes_text(each.from_bytes),
            each.records,
            f"{bytes_text(each.from_bytes)} to less than {bytes_text(each.to_bytes)}: {each.records:,} records",
        )
        for each in report.size_steps
    ]
    return plots.histogram("Record sizes", bars, _number, "records", "bytes of a record, at least … (each bar doubles)")


def _keys(report: Report) -> str:
    bars = [
        plots.Bar(each.key, each.records, f"{each.key}: {each.records:,} records, {bytes_text(each.bytes)}")
        for each in report.top_keys
    ]
    return plots.by_name("Most frequent keys", bars, lambda value: f"{value:,.0f}, {value / report.records:.1%}")


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _partition_table(report: Report) -> str:
    head = (
        "partition",
        "first offset",
        "end offset",
        "records",
        "missing",
        "without key",
        "tombstones",
        "bytes",
        "from",
        "to",
    )
    rows = [
        (
            f"{each.partition}",
            f"{each.first_offset:,}",
            f"{each.end_offset:,}",
            f"{each.records:,}",
            f"{each.missing_offsets:,}",
            f"{each.records_without_key:,}",
            f"{each.tombstones:,}",
            bytes_text(each.bytes),
            time_text(each.first_ms),
            time_text(each.last_ms),
        )
        for each in report.partitions
    ]
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    table = f"<table><tr>{heads}</tr>{lines}</table>"
    return f'<section class="scroll"><h2>Partitions</h2>{table}</section>'
